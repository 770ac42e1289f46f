"""What a client lets a server ask of it: each limit refuses by name, at both ends, without a path of this machine."""

import stat
import time
from dataclasses import replace

import pytest

from prunefl import config as settings
from prunefl.engines.flower.client_store import ClientStore
from prunefl.engines.flower.codec import decode_order, encode_order
from prunefl.engines.flower.envelope import EnvelopeError, without_paths
from prunefl.engines.flower.limits import Limits, check_config, check_order, limit_seconds, read_limits
from prunefl.methods import build_method
from prunefl.methods.prunefl import Collect, PruneFirst
from prunefl.rounds.client import ClientState
from prunefl.rounds.messages import EvaluationWork, Order
from prunefl.system.errors import PruneFLError


def config_of(**sections):
    return settings.from_tables(sections)


def test_the_default_config_is_within_the_default_limits():
    check_config(config_of(), 1000, Limits())


@pytest.mark.parametrize(
    ("sections", "limits", "words"),
    [
        ({"run": {"threads": 100_000}}, {}, "run.threads=100000, but this client's limit threads"),
        (
            {"initial": {"threads": 3}},
            {"threads": 2},
            "initial.threads=3, but this client's limit threads is 2",
        ),
        ({}, {"secure": True}, "privacy.secure=false, but this client's limit secure is true"),
        (
            {
                "privacy": {"secure": True, "threshold": 0.6},
                "server": {"max_change": 0, "max_opposition": 0, "max_statistic": 0},
            },
            {"threshold": 0.75},
            "privacy.threshold=0.6, but this client's limit threshold is 0.75",
        ),
        ({"training": {"local_steps": 10**6}}, {}, "training.local_steps=1000000, .* limit steps is 10000"),
        ({"training": {"local_epochs": 5000}}, {}, "training.local_steps=250000, .* limit steps is 10000"),
        ({"training": {"batch_size": 10**6}}, {}, "training.batch_size=1000000, .* limit batch is 4096"),
        ({"run": {"eval_batch": 10**6}}, {}, "run.eval_batch=1000000, .* limit batch is 4096"),
        ({"initial": {"max_passes": 10**9}}, {}, r"initial.max_passes .*=10000000000, .* initial_steps"),
        ({"training": {"batch_size": 1}}, {"smallest_batch": 8}, "batch_size=1, .* smallest_batch is 8"),
        ({"training": {"local_steps": 1}}, {"smallest_steps": 2}, "local_steps=1, .* smallest_steps is 2"),
    ],
)
def test_a_run_that_asks_for_more_is_refused_by_name(sections, limits, words):
    with pytest.raises(PruneFLError, match=words):
        check_config(config_of(**sections), 1000, Limits(**limits))


@pytest.mark.parametrize(
    ("work", "round", "allow", "refused"),
    [
        (Collect(), 1, ("train",), ""),
        (Collect(report="importance"), 1, ("train",), "does not report"),
        (Collect(), 1, ("evaluate",), "does not train"),
        (PruneFirst(), 0, ("train",), "does not prune first"),
        (EvaluationWork(), 1, ("train",), "does not evaluate"),
        (EvaluationWork(personal_steps=10**9), 1, ("evaluate",), "personal_steps=1000000000"),
        (EvaluationWork(personal_steps=-1), 1, ("evaluate",), "personal_steps=-1"),
    ],
)
def test_work_is_done_only_where_it_is_allowed(work, round, allow, refused):
    order, limits = Order(round, 0.1, b"", work), Limits(allow=allow)
    if not refused:
        return check_order(order, limits)
    with pytest.raises(PruneFLError, match=refused):
        check_order(order, limits)


def test_what_takes_too_long_is_ended():
    with (
        pytest.raises(PruneFLError, match=r"longer than this client.s limit of 0\.01 seconds"),
        limit_seconds(replace(Limits(), seconds=0.01)),
    ):
        time.sleep(30)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("threads = -1", "limits.threads=-1, must be >= 0"),
        ("thread = 1", "limits.thread: no such setting"),
        ("allow = ['dance']", "limits.allow"),
        ("threads", "not valid TOML"),
    ],
)
def test_a_file_of_limits_that_is_wrong_is_refused_in_one_line(tmp_path, text, words):
    (tmp_path / "limits.toml").write_text(text)
    with pytest.raises(PruneFLError, match=words):
        read_limits(tmp_path / "limits.toml")


def test_limits_are_read_and_said_in_one_line(tmp_path):
    (tmp_path / "limits.toml").write_text("threads = 2\nallow = ['train', 'report']")
    limits = read_limits(tmp_path / "limits.toml")
    assert limits == Limits(threads=2, allow=("train", "report"))
    assert "threads 2; " in limits.describe()
    assert limits.describe().endswith("allow train, report")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--data /home/me/x.npz: no such file", "--data ...: no such file"),
        ("'/home/me/a b' is gone, see ~/logs/x", "'... b' is gone, see ..."),
        ("class 'a/b' is not known; 3/4 of them", "class 'a/b' is not known; 3/4 of them"),
    ],
)
def test_what_a_server_is_told_has_no_path_of_this_machine(words, expected):
    assert without_paths(words) == expected


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"round": -5}, "round=-5, must be between 0 and 9999999"),
        ({"round": 10**9}, "round=1000000000"),
        ({"learning_rate": -0.1}, "learning_rate=-0.1"),
        ({"learning_rate": 1e300}, "learning_rate=1e"),
    ],
)
def test_an_order_is_checked_in_every_field(changed, words):
    envelope = encode_order(replace(Order(1, 0.1, b"", Collect()), **changed), "r")
    with pytest.raises(EnvelopeError, match=words):
        decode_order(envelope, build_method(config_of()))


def test_a_state_with_a_name_that_cannot_be_is_set_aside_and_the_others_stay(tmp_path):
    store = ClientStore(tmp_path, keep=5)
    store.save(3, ClientState())
    bricked = tmp_path / "-000005-00000000.safetensors"
    bricked.write_bytes(b"x")
    assert store.before(4) == ClientState()
    assert not bricked.exists()
    assert (tmp_path / "unreadable.state").read_bytes() == b"x"
    store.save(4, ClientState())
    assert [stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("0*")] == [0o600] * 2


def test_states_take_no_more_room_than_they_may(tmp_path):
    store = ClientStore(tmp_path, keep=1000, max_bytes=1)
    for round in range(1, 6):
        store.save(round, ClientState())
    assert [path.name[:7] for path in tmp_path.glob("*.safetensors")] == ["0000005"]
