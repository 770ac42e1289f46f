"""`prunefl bench mask` measures what it says."""

import json

import pytest

from prunefl.commands.bench_mask import bench_mask
from prunefl.measure.bench.mask import rows


@pytest.mark.parametrize(("bits", "num_bytes"), [(32, 4000), (16, 2000)])
def test_rows_are_of_the_vector_and_neighbours_that_were_asked_for(bits: int, num_bytes: int) -> None:
    found = list(rows(1000, (2, 5), bits, repeats=1))
    assert [(row.neighbours, row.values, row.num_bytes) for row in found] == [
        (n, 1000, num_bytes) for n in (2, 5)
    ]
    assert all(min(row.share_seconds, row.encode_seconds, row.mask_seconds) > 0 for row in found)


def test_json_has_the_promised_fields(capsys: pytest.CaptureFixture[str]) -> None:
    bench_mask(values=100, neighbours=[3], narrow=False, repeats=1, as_json=True)
    (row,) = json.loads(capsys.readouterr().out)
    assert set(row) == {
        "neighbours",
        "values",
        "bits",
        "num_bytes",
        "share_seconds",
        "encode_seconds",
        "mask_seconds",
    }
