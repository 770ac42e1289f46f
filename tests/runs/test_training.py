"""The whole round: plain FedAvg to the bit, any number of workers."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from prunefl import data
from prunefl.local.batches import draw_batches
from prunefl.rounds.updates import RoundFailed
from prunefl.runs import checkpoint
from prunefl.runs.api import train
from prunefl.runs.records import read_records
from tasks import same_bits, small_clients, small_config, small_data, small_model

TEST = small_data(100, seed=99)


def fedavg(model, clients, config):
    """Plain FedAvg: the oracle, with nothing of ours in it but the order of the samples."""
    clients = data.wrap_all(clients)
    total = sum(len(share) for share in clients)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    for r in range(1, config.run.rounds + 1):
        updates = []
        for n, share in enumerate(clients):
            model.load_state_dict(weights)
            model.train()
            optimizer = torch.optim.SGD(model.parameters(), lr=config.training.learning_rate)
            for inputs, labels in draw_batches(share, r, n, config):
                optimizer.zero_grad()
                F.cross_entropy(model(torch.from_numpy(inputs)), torch.from_numpy(labels)).backward()
                optimizer.step()
            updates.append({name: value.clone() for name, value in model.state_dict().items()})
        for name in weights:
            if weights[name].is_floating_point():
                weights[name] = updates[0][name] * (len(clients[0]) / total)
                for update, share in zip(updates[1:], clients[1:], strict=True):
                    weights[name].add_(update[name], alpha=len(share) / total)
    return weights


@pytest.mark.parametrize("normalised", [False, True])
def test_full_masks_without_reconfiguration_are_plain_fedavg_to_the_bit(normalised):
    config = small_config(run={"method": "conventional", "backend": "torch"})
    model = small_model(normalised)
    run = train(model, small_clients(), test=TEST, config=config)
    expected = fedavg(small_model(normalised), small_clients(), config)
    found = run.model.state_dict()
    floats = [name for name in expected if expected[name].is_floating_point()]
    assert floats
    assert all(torch.equal(found[name], expected[name]) for name in floats)


def test_the_callers_model_is_not_changed():
    model = small_model()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    train(model, small_clients(), test=TEST, config=small_config())
    assert same_bits(before, model.state_dict())


@pytest.mark.parametrize("sections", [{}, {"importance": {"window": "all"}}, {"wire": {"precision": "int8"}}])
def test_the_result_does_not_depend_on_the_number_of_workers(sections):
    runs = []
    for workers in (1, 3):
        config = small_config(**sections, run={"workers": workers, "rounds": 7, "eval_every": 7})
        runs.append(train(small_model(dropout=True), small_clients(), test=TEST, config=config))
    assert same_bits(runs[0].model.state_dict(), runs[1].model.state_dict())
    assert runs[0].state.masks == runs[1].state.masks
    assert runs[0].state.masks.density < 1


def test_another_seed_gives_other_bits():
    runs = [
        train(small_model(), small_clients(), test=TEST, config=small_config(run={"seed": seed}))
        for seed in (0, 1)
    ]
    assert not same_bits(runs[0].model.state_dict(), runs[1].model.state_dict())


def test_a_loss_that_turns_nan_names_the_round_and_keeps_the_last_good_checkpoint(tmp_path):
    config = small_config(run={"method": "conventional"}, training={"learning_rate": 1e3})
    said = r"training diverged in round 2, rate 1000 .*: 0 of 4 updates were good, .* loss turned nan"
    with pytest.raises(RoundFailed, match=said):
        train(small_model(), small_clients(), test=TEST, config=config, out=tmp_path)
    records = read_records(tmp_path / "records.jsonl")
    assert [record["kind"] for record in records] == ["run", "round"]
    kept = checkpoint.load_latest(tmp_path / "checkpoints", (tmp_path / "records.jsonl").stat().st_size)
    assert kept.state.round == records[-1]["round"] == 1
    assert all(np.isfinite(value).all() for value in kept.state.sparse.values.values())


def test_a_test_loss_that_is_no_number_names_the_round_and_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr("prunefl.runs.evaluate.Evaluator.evaluate", lambda self, state: (0.1, float("inf")))
    said = r"training diverged in round 2, rate 0.1: the test loss turned inf; lower training.learning_rate"
    with pytest.raises(ValueError, match=said):
        train(small_model(), small_clients(), test=TEST, config=small_config(), out=tmp_path)
    assert read_records(tmp_path / "records.jsonl")[-1]["round"] == 1


def test_a_client_without_samples_is_refused():
    clients = [
        *small_clients(3),
        torch.utils.data.TensorDataset(torch.zeros(0, 1, 8, 8), torch.zeros(0).long()),
    ]
    with pytest.raises(ValueError, match="client"):
        train(small_model(), clients, test=TEST, config=small_config())


@pytest.mark.parametrize(
    ("clients", "test", "message"),
    [
        (small_clients(), small_data(0, seed=1), "the test set has 0 samples"),
        (small_clients(), [(torch.zeros(1, 8, 8), 4)], "the test set has the label 4, must be in 0..3"),
        ([TEST, [(torch.zeros(1, 9, 9), 0)]], TEST, r"client 1 has samples of shape \(1, 9, 9\), must be"),
    ],
)
def test_bad_data_stops_a_run_before_it_starts(tmp_path, clients, test, message):
    with pytest.raises(ValueError, match=message):
        train(small_model(), clients, test=test, config=small_config(), out=tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_batch_norm_statistics_are_aggregated_like_parameters():
    run = train(small_model(normalised=True), small_clients(), test=TEST, config=small_config())
    assert not torch.equal(run.model[1].running_mean, torch.zeros(8))
    assert run.accuracy > 0.5


def test_every_byte_and_second_is_in_the_records():
    run = train(small_model(), small_clients(), test=TEST, config=small_config())
    initial, rounds = run.records[1], [record for record in run.records if record["kind"] == "round"]
    assert initial["kind"] == "initial"
    for key in ("bytes_up", "bytes_down", "flops"):
        total = initial[key] + sum(record[key] for record in rounds)
        assert rounds[-1]["total"][key] == pytest.approx(total)
    seconds = initial["seconds"]["total"] + sum(record["seconds"]["total"] for record in rounds)
    assert rounds[-1]["total"]["seconds"] == pytest.approx(seconds)
    # A reconfiguration round uploads importance of all weights beside the model.
    reported = [r["bytes_up"] for r in rounds if r["round"] % 3 == 0 and r["round"] < 8]
    others = [r["bytes_up"] for r in rounds if r["round"] % 3]
    assert min(reported) > max(others)


def test_initial_pruning_is_charged_full_gradients_only_where_it_computed_them():
    """2·batch·positions·(2·live + live), or + all weights: 64 positions in the convolution, 1 elsewhere."""
    config = small_config(initial={"clients": 1})
    run = train(small_model(), small_clients(), test=TEST, config=config)
    sizes, initial = run.records[0]["layers"], run.records[1]
    expected = 0
    for segment in initial["segments"]:
        for name, live in segment["live"].items():
            positions = 64 if name == "0.weight" else 1
            full = segment["full_steps"]
            last = full * sizes[name] + (segment["steps"] - full) * live
            expected += 2 * 20 * positions * (2 * segment["steps"] * live + last)
    assert any(segment["full_steps"] < segment["steps"] for segment in initial["segments"])
    # whole: it falls to the one client that computed it
    assert initial["flops"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("initial", "message"),
    [
        ({"samples": 82}, "initial.samples=82, must be <= 81, the most that a client has"),
        ({"samples": 61, "client": 0}, "initial.samples=61, must be <= 60, what initial.client=0 has"),
    ],
)
def test_more_initial_samples_than_there_are_is_refused(initial, message):
    with pytest.raises(ValueError, match=message):
        train(small_model(), small_clients(), test=TEST, config=small_config(initial=initial))


@pytest.mark.parametrize(("samples", "client"), [(60, 0), (70, 2), (81, 3)])
def test_the_first_of_the_fastest_with_enough_samples_prunes(samples, client):
    """All devices are equal, and the clients have 60, 67, 74 and 81 samples."""
    alone = {"clients": 1, "samples": samples, "max_passes": 3}
    config = small_config(initial=alone, run={"rounds": 1})
    run = train(small_model(), small_clients(), test=TEST, config=config)
    assert run.records[1]["client"] == client
