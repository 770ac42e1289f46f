"""Real clients sign with their node keys, and know the others' from their own folder."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from prunefl.engines.flower import keys
from prunefl.engines.flower.current_round import name_exchange
from prunefl.engines.flower.envelope import Envelope
from prunefl.engines.flower.identity import read_identity
from prunefl.engines.flower.secure_worker import SecureWorker
from prunefl.methods import Work
from prunefl.privacy.client import statement
from prunefl.privacy.errors import Refused
from prunefl.privacy.keys import KEY_BYTES
from prunefl.rounds.messages import Order, SecureWork


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys")
    keys.make_keys(path, ["localhost"], clients=2, days=2)
    return path


def signer(folder: Path, client: int):
    home = folder / f"client-{client}"
    return SecureWorker(read_identity(client, home, folder), home, resident=True)._signer()


def test_a_client_believes_what_the_owner_of_a_registered_key_has_signed(folder: Path) -> None:
    one, other = signer(folder, 0), signer(folder, 1)
    one.verify(1, b"a key", other.sign(b"a key"))
    for client, content, signature in (
        (1, b"another key", other.sign(b"a key")),
        (0, b"a key", other.sign(b"a key")),
        (1, b"a key", one.sign(b"a key")),
        (1, b"a key", b"garbage"),
    ):
        with pytest.raises(Refused, match=f"a key that client {client} has not signed"):
            one.verify(client, content, signature)


def test_a_client_that_its_own_folder_does_not_know_is_named_with_the_remedy(folder: Path) -> None:
    with pytest.raises(Refused, match=r"client 7 is not in this client's nodes.json: take the new one"):
        signer(folder, 0).verify(7, b"a key", b"")


def test_steps_and_attempts_have_names_of_their_own() -> None:
    """An answer to one is none to another, though the round is the same."""
    orders = [
        Order(7, 0.1, b"model", Work()),
        Order(7, 0.1, b"model", Work(), 5, b"terms"),
        Order(7, 0.1, b"model", Work(), 6, b"terms"),
        Order(7, 0.0, b"", SecureWork(step="share", purpose="round 7"), 6, b"plan"),
        Order(7, 0.0, b"", SecureWork(step="unmask", purpose="round 7"), 6, b"verdict"),
        Order(7, 0.0, b"", SecureWork(step="unmask", purpose="evaluation after round 7"), 7, b"verdict"),
    ]
    names = [name_exchange({0: order}) for order in orders]
    assert names[0] == "round 7"
    assert len(set(names)) == len(names)


def session_of(run: str, secure: bool = True) -> SimpleNamespace:
    privacy = SimpleNamespace(secure=secure, threshold=2 / 3, neighbours=0)
    return SimpleNamespace(run=run, client=SimpleNamespace(number=0, config=SimpleNamespace(privacy=privacy)))


def test_a_client_gives_a_key_that_it_signed_when_it_joins_and_the_same_when_asked_again(
    folder: Path,
) -> None:
    home = folder / "client-0"
    worker = SecureWorker(read_identity(0, home, folder), home, resident=True)
    hello, joined = Envelope("hello", {"epoch": 7}), Envelope("joined", {"client": 0})
    first = worker.introduce(session_of("a"), hello, joined)
    assert first.values == {"client": 0, "epoch": 7}
    (key,) = first.parts
    public, signature = key[:KEY_BYTES], key[KEY_BYTES:]
    signer(folder, 1).verify(0, statement("a", 7, 0, public), signature)
    with pytest.raises(Refused):
        signer(folder, 1).verify(0, statement("a", 8, 0, public), signature)
    assert worker.introduce(session_of("a"), hello, joined) == first
    # another run has nothing of this one's, and without secure sums there are no keys
    assert worker.introduce(session_of("b"), hello, joined).parts != first.parts
    assert worker.introduce(session_of("b", secure=False), hello, joined) == joined
    assert worker.introduce(session_of("b"), Envelope("hello"), joined) == joined
