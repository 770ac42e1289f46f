"""Initial pruning at a client: the server hears how far it is, and the bits are those of one that says nothing."""

from types import SimpleNamespace

import pytest
from hypothesis import given, settings

from odd_json import altered
from prunefl import config, data, models
from prunefl.engines.flower.codec import decode_reply, encode_order
from prunefl.engines.flower.envelope import Envelope, seal, unseal
from prunefl.engines.flower.handshake import collect_facts, with_task
from prunefl.engines.flower.limits import Limits
from prunefl.engines.flower.own_data import Share
from prunefl.engines.flower.session import ANYTHING, WorkerOptions
from prunefl.engines.flower.worker import Worker
from prunefl.local.torch_backend.network import network_of
from prunefl.rounds.server import begin_round, start
from prunefl.rounds.setup import prepare

CONFIG = {
    "run": {"rounds": 3, "workers": 1},
    "data": {"name": "digits", "partition": "iid", "clients": 2},
    "model": {"name": "lenet300100"},
    "training": {"batch_size": 20},
    "initial": {"samples": 200, "interval": 2, "max_passes": 12},
}
GO_ON = Envelope("go_on", {"run": "a"})


@pytest.fixture(scope="module")
def messages():
    """Return what greets a client, and the order to prune first."""
    chosen = config.from_tables(CONFIG)
    federation = data.load_configured(chosen)
    model = models.build_configured(chosen, federation.classes, federation.input_shape)
    network = network_of(model, federation.input_shape, federation.classes)
    setup = prepare(network, [len(share) for share in federation.clients], chosen)
    _, orders = begin_round(setup, start(setup))
    text = config.dump(with_task(chosen, federation))
    facts = collect_facts(network.template)
    return Envelope("hello", {"run": "a", "config": text, "facts": facts}), encode_order(orders[1], "a")


def worker(folder, hello, **options):
    made = Worker(
        WorkerOptions(folder, 1, share=Share(1), allowed=(ANYTHING,), **options), lambda words: None
    )
    ask(made, hello)
    return made


def ask(given, envelope):
    return unseal(given.answer(seal(envelope)))


def test_who_prunes_first_tells_of_its_passes_and_gives_the_same_bits(tmp_path, messages, monkeypatch):
    hello, order = messages
    whole = decode_reply(ask(worker(tmp_path / "whole", hello, resident=False), order), 1)
    monkeypatch.setattr("prunefl.engines.flower.worker.choose_report_seconds", lambda deadline: 0.002)
    told = worker(tmp_path / "told", hello)
    answers = [ask(told, order)]
    while answers[-1].kind == "working":
        answers.append(ask(told, GO_ON))
    passes = [answer.values["passes"] for answer in answers[:-1]]
    assert passes == sorted(passes)
    assert max(passes) > 0
    reply = decode_reply(answers[-1], 1)
    assert (reply.model, reply.numbers, reply.loss) == (whole.model, whole.numbers, whole.loss)
    # what is done is not there any more to be gone on with
    assert ask(told, GO_ON).kind == "state_wanted"
    assert ask(told, Envelope("go_on", {"run": "b"})).kind == "state_wanted"


def test_another_order_ends_what_went_on_and_a_client_has_limits_of_its_own(tmp_path, messages, monkeypatch):
    hello, order = messages
    monkeypatch.setattr("prunefl.engines.flower.worker.choose_report_seconds", lambda deadline: 0.002)
    told = worker(tmp_path / "told", hello)
    assert ask(told, order).kind == "working"
    former = told._long
    assert ask(told, order).kind == "working"
    with pytest.raises(ValueError, match="the server asks for something else"):
        former.result()
    told._long.stop()
    slow = SimpleNamespace(monotonic=iter(range(0, 10**6, 100)).__next__)
    monkeypatch.setattr("prunefl.engines.flower.long_work.time", slow)
    monkeypatch.setattr("prunefl.engines.flower.worker.choose_report_seconds", lambda deadline: None)
    strict = worker(tmp_path / "strict", hello, limits=Limits(seconds=150))
    assert "longer than this client's limit of 150 seconds" in ask(strict, order).values["what"]


def test_a_worker_survives_any_crafted_order(tmp_path, messages):
    hello, order = messages
    told = worker(tmp_path, hello, resident=False)
    honest = decode_reply(ask(told, order), 1)

    @settings(deadline=None, max_examples=50)
    @given(altered(order.values))
    def check(crafted):
        answer = ask(told, Envelope("order", crafted, order.parts))
        assert answer.kind in ("reply", "error", "state_wanted")
        assert "\n" not in answer.values.get("what", "")

    check()
    again = decode_reply(ask(told, order), 1)
    assert (again.model, again.loss) == (honest.model, honest.loss)
