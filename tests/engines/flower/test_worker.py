"""The resident worker without a network: what it answers, what it refuses, what it remembers."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from prunefl import config as settings
from prunefl import data, models
from prunefl.core.masks import Masks
from prunefl.core.memory import Memory
from prunefl.engines.flower.client_store import ClientStore
from prunefl.engines.flower.codec import decode_reply, encode_order
from prunefl.engines.flower.envelope import Envelope, seal, unseal
from prunefl.engines.flower.handshake import collect_facts, with_task
from prunefl.engines.flower.own_data import Share
from prunefl.engines.flower.session import WorkerOptions, restrict_config
from prunefl.engines.flower.worker import Worker
from prunefl.local import make_backend
from prunefl.local.torch_backend.network import network_of
from prunefl.methods.prunefl import Collect
from prunefl.rounds.client import Client, ClientState, handle
from prunefl.rounds.server import begin_round, start, whole_order
from prunefl.rounds.setup import prepare
from prunefl.system.errors import PruneFLError

CONFIG = {
    "run": {"method": "further-only", "rounds": 9},
    "data": {"name": "digits", "partition": "iid", "clients": 40},
    "model": {"name": "lenet300100"},
    "training": {"local_steps": 1, "batch_size": 10},
}


@pytest.fixture(scope="module")
def task():
    """Return config, federation and setup of a small run as its server has them."""
    config = settings.from_tables(CONFIG)
    federation = data.load_configured(config)
    model = models.build_configured(config, federation.classes, federation.input_shape)
    network = network_of(model, federation.input_shape, federation.classes)
    return (
        with_task(config, federation),
        federation,
        prepare(network, [len(share) for share in federation.clients], config),
    )


@pytest.fixture
def worker(tmp_path):
    return Worker(WorkerOptions(tmp_path / "state", 1, share=Share(1)), lambda words: None)


def hello(task, **changed):
    config, _, setup = task
    facts = {**collect_facts(setup.network.template), **changed.pop("facts", {})}
    return seal(Envelope("hello", {"run": "r", "config": settings.dump(config), "facts": facts, **changed}))


def ask(worker, envelope):
    return unseal(worker.answer(envelope))


def first_order(task, **changed):
    _, _, setup = task
    state, orders = begin_round(setup, start(setup))
    return state, replace(orders[1], **changed)


def test_a_worker_says_who_it_is_and_how_many_samples_it_has(task, worker):
    answer = ask(worker, hello(task))
    samples = task[1].clients[1]
    counts = np.bincount(samples.batch(np.arange(len(samples)))[1], minlength=10).tolist()
    told = {"client": 1, "num_samples": len(samples), "held_out": 0}
    assert answer == Envelope("joined", {**told, "by_class": counts})


@pytest.mark.parametrize(("name", "value"), [("wire", 999), ("network", "0" * 16)])
def test_what_differs_from_the_server_is_told_in_one_line_with_the_remedy(task, worker, name, value):
    answer = ask(worker, hello(task, facts={name: value}))
    assert answer.kind == "error"
    assert f"{name} differs: the server has {value}" in answer.values["what"]
    assert "same version" in answer.values["what"]


@pytest.mark.parametrize(("section", "key"), [("model", "name"), ("data", "name"), ("run", "method")])
def test_a_server_cannot_make_a_client_run_code_that_the_client_did_not_name(task, tmp_path, section, key):
    harm = tmp_path / "harm"
    config = replace(task[0], data=replace(task[0].data, dir=f"touch {harm}"))
    config = replace(config, **{section: replace(getattr(config, section), **{key: "os:system"})})
    envelope = seal(Envelope("hello", {"run": "r", "config": settings.dump(config), "facts": {}}))
    answer = ask(Worker(WorkerOptions(tmp_path / "state", 1), lambda words: None), envelope)
    assert "allow it with --allow os:system" in answer.values["what"]
    assert not harm.exists()


def test_a_method_of_prunefl_needs_no_leave_and_any_other_does(task, tmp_path):
    def restrict(method, *allowed):
        config = replace(task[0], run=replace(task[0].run, method=method))
        return restrict_config(config, WorkerOptions(tmp_path, 1, allowed=allowed)).run.method

    assert restrict("rigl") == "rigl"
    assert restrict("own_method:build", "own_method:build") == "own_method:build"
    for method in ("own_method:build", "unheard-of"):
        with pytest.raises(ValueError, match=f"run.method='{method}'.*--allow {method}"):
            restrict(method, "os:system")


def test_a_server_has_no_say_in_a_clients_folders(task, tmp_path):
    config = replace(task[0], data=replace(task[0].data, dir="/etc", cache="/etc"))
    own = restrict_config(config, WorkerOptions(tmp_path, 1, data="/home/me"))
    assert (own.data.dir, own.data.cache) == ("/home/me", "")
    assert restrict_config(config, WorkerOptions(tmp_path, 1)).data.dir == ""


def test_a_partition_that_does_not_exist_is_refused(task, tmp_path):
    answer = ask(Worker(WorkerOptions(tmp_path, 40), lambda words: None), hello(task))
    assert "--client 40, must be < data.clients=40" in answer.values["what"]


def test_an_order_is_answered_as_the_core_answers_it(task, worker):
    ask(worker, hello(task))
    config, federation, setup = task
    _, order = first_order(task)
    backend = make_backend(setup.network, config, {})
    client = Client(1, federation.clients[1], setup.network, backend, setup.method, config)
    expected, _ = handle(order, client, ClientState())
    found = decode_reply(ask(worker, seal(encode_order(order, "r"))), 1)
    assert replace(found, seconds=0.0) == replace(expected, seconds=0.0)


def test_an_order_for_masks_that_the_client_does_not_have_asks_for_the_whole_state(task, worker):
    ask(worker, hello(task))
    _, _, setup = task
    state, _ = first_order(task)
    known = replace(state, known=dict.fromkeys(range(40), state.sparse.masks.digest))
    _, orders = begin_round(setup, known)
    assert ask(worker, seal(encode_order(orders[1], "r"))) == Envelope("state_wanted")
    again = seal(encode_order(whole_order(setup, state, orders[1]), "r", settings.dump(task[0])))
    assert ask(worker, again).kind == "reply"


def test_a_worker_that_was_never_greeted_asks_for_everything(task, worker):
    _, order = first_order(task)
    assert ask(worker, seal(encode_order(order, "r"))) == Envelope("state_wanted")


def test_a_restarted_worker_goes_on_without_being_greeted(task, worker):
    ask(worker, hello(task))
    again = Worker(worker.options, lambda words: None)
    _, order = first_order(task)
    assert ask(again, seal(encode_order(order, "r"))).kind == "reply"


def test_a_round_that_the_server_repeats_gets_the_same_answer(task, worker):
    """A server that was killed repeats rounds; importance must not count twice."""
    ask(worker, hello(task))
    _, order = first_order(task, work=Collect(collect=True))
    report = replace(order, round=2, work=Collect(collect=True, report="importance"))
    answers = []
    for envelope in [order, report, report, order, report]:
        answers.append(replace(decode_reply(ask(worker, seal(encode_order(envelope, "r"))), 1), seconds=0.0))
    assert answers[1] == answers[2] == answers[4]
    assert answers[0] == answers[3]


@pytest.mark.parametrize(
    "envelope", [b"", b"garbage", seal(Envelope("dance")), seal(Envelope("order", {"run": "r"}))]
)
def test_nonsense_is_answered_with_an_error_and_the_worker_lives(task, worker, envelope):
    ask(worker, hello(task))
    assert ask(worker, envelope).kind == "error"
    assert ask(worker, hello(task)).kind == "joined"


@pytest.mark.parametrize("bug", [KeyError("lost"), ValueError("lost"), RuntimeError("lost")])
def test_a_bug_in_training_is_the_clients_own_and_leaves_its_traceback(
    task, worker, monkeypatch, caplog, bug
):
    def fail(*_):
        raise bug

    monkeypatch.setattr("prunefl.engines.flower.worker.handle", fail)
    ask(worker, hello(task))
    answer = ask(worker, seal(encode_order(first_order(task)[1], "r")))
    assert answer.kind == "error"
    assert answer.values["what"].startswith(
        f"internal error of this client, see its log: {type(bug).__name__}"
    )
    assert caplog.records[0].exc_info[1] is bug
    assert ask(worker, hello(task)).kind == "joined"


@pytest.mark.parametrize("error", [PruneFLError("no such data"), OSError("no such disk"), MemoryError()])
def test_what_a_user_can_mend_is_told_in_one_line_without_a_traceback(
    task, worker, monkeypatch, caplog, error
):
    def fail(config):
        raise error

    monkeypatch.setattr("prunefl.engines.flower.session.load_network", fail)
    said = {"what": str(error) or "MemoryError", "client": 1, "leaves": True}
    assert ask(worker, hello(task)) == Envelope("error", said)
    assert not caplog.records


def test_a_bug_in_loading_is_the_clients_own_and_leaves_its_traceback(task, worker, monkeypatch, caplog):
    def fail(config):
        raise ValueError("lost")

    monkeypatch.setattr("prunefl.engines.flower.session.load_network", fail)
    answer = ask(worker, hello(task))
    assert answer.values["what"] == "internal error of this client, see its log: ValueError: lost"
    assert str(caplog.records[0].exc_info[1]) == "lost"


def test_the_end_of_a_run_ends_the_worker(worker):
    assert ask(worker, seal(Envelope("end"))).kind == "end"
    assert worker.ended


def test_a_state_comes_back_from_disk_and_a_broken_one_is_passed_over(tmp_path):
    store = ClientStore(tmp_path, keep=2)
    masks = Masks({"0.weight": np.array([[True, False, True]])})
    for number in range(1, 6):
        sums = {"0.weight": np.full((1, 3), number, np.float32)}
        store.save(number, ClientState(masks, Memory({"steps": number}, sums)))
    assert [steps_kept(store, number) for number in (6, 5, 4, 3)] == [5, 4, 3, 0]
    # who saved them last has them once in memory; another process reads them
    assert store.before(6).masks is masks
    again = ClientStore(tmp_path, keep=2)
    assert [again.before(number).masks == masks for number in (6, 5, 3)] == [True, True, False]
    assert store.before(6).memory.arrays["0.weight"].tolist() == [[5.0, 5.0, 5.0]]
    newest = max(tmp_path.glob("*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:-1])
    assert steps_kept(store, 6) == 4


def steps_kept(store, number):
    return store.before(number).memory.number("steps")


def test_going_back_forgets_what_came_after(tmp_path):
    store = ClientStore(tmp_path, keep=5)
    save = partial(store.save, state=ClientState(memory=Memory({"steps": 1})))
    for number in (1, 2, 3, 4, 2):
        save(number)
    assert sorted(int(path.name[:7]) for path in tmp_path.glob("*.safetensors")) == [1, 2]


def test_a_worker_that_cannot_take_part_ends_when_the_server_has_heard_why(task, tmp_path):
    worker = Worker(WorkerOptions(tmp_path, 1), lambda words: None)
    assert "--data PATH is missing" in ask(worker, hello(task)).values["what"]
    assert not worker.ended
    assert ask(worker, seal(Envelope("refused"))).kind == "refused"
    assert worker.ended
    assert "--data PATH is missing" in worker.refusal
