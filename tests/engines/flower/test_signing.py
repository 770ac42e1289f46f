"""Signatures end to end: each thing that they bind, replays, and the two ends together."""

from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from prunefl.engines.flower import key_files, keys
from prunefl.engines.flower.envelope import Envelope, seal
from prunefl.engines.flower.identity import read_identity
from prunefl.engines.flower.mailbox import Answer
from prunefl.engines.flower.signed_mailbox import Numbers, sign_messages
from prunefl.engines.flower.signing import (
    SignatureError,
    Statement,
    sign,
    sign_message,
    signed_bytes,
    unpack_signed,
    verify,
)

KEY, OTHER = ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP384R1())
SAID = Statement("run", "round 7", 5, "server", "client-1")
texts = st.text(max_size=20)
statements = st.builds(Statement, texts, texts, st.integers(0, 2**60), texts, texts)


def test_who_has_signed_is_believed():
    verify(KEY.public_key(), SAID, b"content", sign(KEY, SAID, b"content"))


@pytest.mark.parametrize(
    "changed",
    [
        {"run": "other"},
        {"exchange": "round 8"},
        {"number": 6},
        {"sender": "client-1"},
        {"addressee": "client-2"},
    ],
)
def test_a_signature_binds_run_round_number_sender_and_addressee(changed):
    signature = sign(KEY, SAID, b"content")
    with pytest.raises(SignatureError):
        verify(KEY.public_key(), replace(SAID, **changed), b"content", signature)


def test_a_signature_binds_the_content_and_is_of_one_key():
    signature = sign(KEY, SAID, b"content")
    for key, content in ((KEY, b"contents"), (KEY, b""), (OTHER, b"content")):
        with pytest.raises(SignatureError, match="not that of server"):
            verify(key.public_key(), SAID, content, signature)


@given(statements, statements, st.binary(max_size=50), st.binary(max_size=50))
def test_what_is_signed_differs_wherever_anything_does(one, other, content, another):
    same = (one, content) == (other, another)
    assert (signed_bytes(one, content) == signed_bytes(other, another)) == same


@given(statements, st.binary(max_size=200))
def test_a_message_comes_back_as_it_was_signed(statement, content):
    found = unpack_signed(sign_message(KEY, statement, content))
    assert (found.statement, found.content) == (statement, content)
    verify(KEY.public_key(), found.statement, found.content, found.signature)


@given(st.binary(max_size=300))
def test_garbage_is_no_signed_message(data):
    with pytest.raises(SignatureError):
        unpack_signed(data)
    with pytest.raises(SignatureError):
        unpack_signed(b"PFS1" + data[:3])


def test_numbers_grow_even_if_the_clock_goes_back(monkeypatch):
    numbers = Numbers()
    first = numbers.next()
    monkeypatch.setattr("prunefl.engines.flower.signed_mailbox.time.time_ns", lambda: 0)
    assert numbers.next() == first + 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    keys.make_keys(folder, ["localhost"], clients=2, days=2)
    return folder


class Line:
    """Carries messages to clients, which answer at once, through whoever sits on the line."""

    def __init__(self, clients):
        self.clients, self.sent, self.answers = clients, [], []
        self.change = lambda node, data: data

    def list_online(self):
        return {10: "monday", 11: "monday", 99: "monday"}

    def send(self, sealed, seconds, group):
        self.sent += sealed.items()
        names = {node: f"m{len(self.sent)}-{node}" for node in sealed}
        for node, data in sealed.items():
            self.answers.append(Answer(names[node], self.change(node, self.clients[node](data))))
        return names

    def fetch(self):
        answers, self.answers = self.answers, []
        return answers

    def forget(self, name):
        self.answers = [answer for answer in self.answers if answer.message != name]


@pytest.fixture
def ends(folder, tmp_path):
    """Return the server's mailbox and the line on which both clients echo."""
    identities = [read_identity(n, folder / f"client-{n}", tmp_path / str(n)) for n in range(2)]
    echo = {10 + n: (lambda data, me=me: me.answer(data, lambda c: c)) for n, me in enumerate(identities)}
    line = Line(echo)
    return sign_messages(line, "run", folder, {10: 0, 11: 1}), line, identities


def contents(mailbox):
    return {answer.message[-2:]: (answer.content, answer.error) for answer in mailbox.fetch()}


def test_both_ends_believe_each_other_and_nobody_writes_to_a_stranger(ends):
    mailbox, _, _ = ends
    mailbox.send({10: b"one", 11: b"two"}, 60.0, "round 1")
    assert contents(mailbox) == {"10": (b"one", ""), "11": (b"two", "")}
    assert mailbox.list_online() == {10: "monday", 11: "monday"}


def test_a_message_is_followed_once_and_an_older_one_never(ends):
    mailbox, line, identities = ends
    mailbox.send({10: b"one"}, 60.0, "round 1")
    mailbox.send({10: b"two"}, 60.0, "round 2")
    followed = []
    for _, data in line.sent:
        with pytest.raises(SignatureError, match="has been here before, or is older"):
            identities[0].answer(data, followed.append)
    assert followed == []


def test_a_clients_message_or_another_clients_is_not_followed(ends, folder, tmp_path):
    mailbox, line, identities = ends
    mailbox.send({11: b"for client 1"}, 60.0, "round 1")
    with pytest.raises(SignatureError, match="to 'client-1', must be from 'server' to 'client-0'"):
        identities[0].answer(line.sent[0][1], lambda content: content)
    # client 1 plays the server, with the only key that it has
    statement = Statement("run", "end", 2**60, "server", "client-0")
    forged = sign_message(identities[1].key, statement, seal(Envelope("end")))
    with pytest.raises(SignatureError, match="not that of server"):
        identities[0].answer(forged, lambda content: content)
    with pytest.raises(SignatureError, match="is not signed"):
        identities[0].answer(seal(Envelope("end")), lambda content: content)


def test_who_answers_for_another_is_not_believed(ends):
    mailbox, line, identities = ends

    def by_client_1(node, data):
        said = unpack_signed(data).statement
        return sign_message(identities[1].key, said, b"from client 1") if node == 10 else data

    line.change = by_client_1
    mailbox.send({10: b"one", 11: b"two"}, 60.0, "round 1")
    found = contents(mailbox)
    assert found["10"] == (b"", "answer refused: its signature is not that of client-0")
    assert found["11"] == (b"two", "")


def test_an_answer_to_another_message_is_not_believed(ends):
    mailbox, line, _ = ends
    kept = []
    line.change = lambda node, data: kept.append(data) or data
    mailbox.send({10: b"round 1"}, 60.0, "round 1")
    mailbox.fetch()
    line.change = lambda node, data: kept[0]
    mailbox.send({10: b"round 2"}, 60.0, "round 2")
    assert contents(mailbox)["10"] == (b"", "answer refused: it is no answer of client-0 to this message")


def test_what_is_said_unsigned_is_shown_and_not_believed(ends):
    mailbox, line, _ = ends
    line.change = lambda node, data: seal(Envelope("error", {"what": "my clock is wrong"}))
    mailbox.send({10: b"x"}, 60.0, "hello")
    assert contents(mailbox)["10"] == (b"", "answer refused: it is not signed (it says: my clock is wrong)")


def test_a_client_folder_without_the_servers_key_is_told_where_to_get_it(folder, tmp_path):
    with pytest.raises(ValueError, match=r"signing\.pem: cannot read the server's public key .*prunefl keys"):
        key_files.read_public_key(tmp_path / "signing.pem")


def test_a_revoked_client_is_out_of_the_register_and_can_be_given_a_new_key(tmp_path):
    keys.make_keys(tmp_path, ["localhost"], clients=2, days=2)
    before = keys.read_register(tmp_path)
    keys.revoke(tmp_path, 1)
    assert keys.read_register(tmp_path) == {0: before[0]}
    with pytest.raises(ValueError, match=r"--revoke 1: not in .* which has 0"):
        keys.revoke(tmp_path, 1)
    keys.make_keys(tmp_path, ["localhost"], clients=2, days=2)
    assert keys.read_register(tmp_path)[0] == before[0]
    assert keys.read_register(tmp_path)[1] != before[1]
