"""Records: what is read back of what was written."""

import pytest

from prunefl.runs.records import RecordFile, cost_to_reach, final_accuracy, mean_accuracy, read_records


def rounds(*accuracies):
    return [{"kind": "round", "round": r, "accuracy": a} for r, a in enumerate(accuracies, 1)]


def test_final_accuracy_is_that_of_the_last_evaluation_and_of_nothing_else():
    records = [{"kind": "run"}, *rounds(0.1, 0.9, 0.8), {"kind": "round"}, {"kind": "end", "accuracy": 0.0}]
    assert final_accuracy(records) == 0.8
    assert final_accuracy([{"kind": "run"}]) is None


@pytest.mark.parametrize(("count", "tenth"), [(1, 1), (9, 1), (10, 1), (11, 2), (30, 3)])
def test_mean_accuracy_is_the_mean_over_the_last_tenth_of_the_evaluations(count, tenth):
    found = [0.01 * number for number in range(count)]
    assert mean_accuracy(rounds(*found)) == pytest.approx(sum(found[count - tenth :]) / tenth)
    assert mean_accuracy([{"kind": "run"}]) is None


def test_the_cost_of_a_target_is_that_of_the_round_that_first_reached_it():
    assert cost_to_reach(rounds(0.3, 0.8, 0.7, 0.9), 0.75)["round"] == 2
    assert cost_to_reach(rounds(0.3), 0.75) is None


def test_a_cut_off_line_is_left_out_and_a_resumed_file_is_shortened_first(tmp_path):
    path = tmp_path / "records.jsonl"
    with RecordFile(path) as file:
        file.write({"kind": "run"})
        kept = file.num_bytes
        file.write({"kind": "round"})
    with path.open("ab") as file:
        file.write(b'{"kind": "rou')
    assert [record["kind"] for record in read_records(path)] == ["run", "round"]
    with RecordFile(path, kept) as file:
        file.write({"kind": "end"})
    assert [record["kind"] for record in read_records(path)] == ["run", "end"]
