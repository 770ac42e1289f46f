"""`prunefl bench wire` and `prunefl inspect` show what there is."""

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from wire_models import random_state

from prunefl import wire
from prunefl.commands.bench_wire import bench_wire
from prunefl.commands.inspect import inspect
from prunefl.measure.bench.wire import rows

FIELDS = ("density", "kind", "num_bytes", "paper_bytes", "entropy_bytes", "encode_seconds", "decode_seconds")


def test_bench_rows_stand_in_the_right_relation_to_paper_and_entropy() -> None:
    found = {row.kind: row for row in rows((0.02,), repeats=1)}
    header = 64 + 8 * 4
    assert found["indices"].num_bytes == found["indices"].paper_bytes + header
    assert found["bitmap"].num_bytes > found["bitmap"].paper_bytes + header
    assert found["values"].num_bytes == found["values"].paper_bytes + header
    assert found["values"].entropy_bytes == found["values"].paper_bytes
    for kind in ("coded", "change"):
        assert found[kind].entropy_bytes < found[kind].num_bytes < 1.001 * found[kind].entropy_bytes + header
    assert found["change"].num_bytes < found["coded"].num_bytes < found["coded"].paper_bytes
    assert all(row.encode_seconds > 0 and row.decode_seconds > 0 for row in found.values())


def test_bench_of_the_full_model_is_dense() -> None:
    (row,) = rows((1.0,), repeats=1)
    assert (row.kind, row.num_bytes) == ("dense", 64 + 8 * 4 + 4 * (6_601_504 + 2_206))


def test_bench_json_has_the_promised_fields(capsys: pytest.CaptureFixture[str]) -> None:
    bench_wire(densities=[0.01], repeats=1, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert {row["kind"] for row in found} == {"bitmap", "indices", "coded", "change", "values"}
    assert all(set(FIELDS) <= set(row) for row in found)


def test_bench_refuses_a_density_that_is_none() -> None:
    with pytest.raises(ValueError, match=r"--density 1\.5, must be between 0 and 1"):
        bench_wire(densities=[1.5])


def test_description_accounts_for_every_byte() -> None:
    state = random_state(0.4)
    masks, data = state.masks, wire.pack(state, precision="int8")
    found = wire.describe(data)
    parts = sum(part.pattern_bytes + part.value_bytes for part in found.layers)
    assert found.header_bytes + parts + found.rest_bytes == found.num_bytes == len(data)
    assert [part.live for part in found.layers] == [int(masks[name].sum()) for name in sorted(masks)]
    live = sum(int(mask.sum()) for mask in masks.values())
    assert found.density == live / sum(mask.size for mask in masks.values())


def test_inspect_shows_a_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    state = random_state(0.4)
    (tmp_path / "message").write_bytes(wire.pack(state, kind="bitmap"))
    inspect(tmp_path / "message")
    shown = capsys.readouterr().out
    assert "state, bitmap, float32" in shown
    live = state.masks.counts["3.weight"]
    cells = [line.replace("│", " ").split() for line in shown.splitlines()]
    # the second layer: 140 weights, and 18 bytes of bitmap
    assert ["1", "bitmap", "140", f"{live}", f"{live / 140:.2%}", "18", f"{4 * live}"] in cells


def test_inspect_shows_a_model_file_with_its_densities(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    arrays = {
        "a.weight": np.ones(3, np.float32),
        "mask:a.weight": np.zeros(2, np.uint8),
        "a.bias": np.ones(2, np.float32),
    }
    about = {"prunefl": json.dumps({"shapes": {"a.weight": [3, 4]}})}
    safetensors.numpy.save_file(arrays, tmp_path / "model.safetensors", about)
    inspect(tmp_path / "model.safetensors")
    shown = capsys.readouterr().out
    assert "3x4" in shown
    assert "25.00%" in shown


@pytest.mark.parametrize("content", [b"", b"something else", b"PFLW\x01", b"\xff" * 100])
def test_inspect_refuses_what_it_cannot_read_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ValueError, match="file: ") as caught:
        inspect(tmp_path / "file")
    assert "\n" not in str(caught.value)


def test_inspect_names_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="No such file"):
        inspect(tmp_path / "absent")
