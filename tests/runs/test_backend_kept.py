"""What trained a run when it began trains it to its end: the choice decides bits."""

import tomllib

import pytest

from prunefl.runs.api import train
from tasks import same_bits, small_clients, small_config, small_data, small_model


def go(backend, out=None, **options):
    return train(
        small_model(),
        small_clients(),
        test=small_data(100, seed=99),
        config=small_config(run={"backend": backend}),
        out=out,
        **options,
    )


@pytest.mark.parametrize("began", ["torch", "auto"])
def test_a_run_left_open_goes_on_with_what_it_began_with(began, tmp_path):
    whole = go(began)
    go(began, tmp_path, on_record=lambda record: record.get("round") == 4)
    kept = tmp_path / "config.toml"
    then = "torch" if began == "torch" else "native"
    assert tomllib.loads(kept.read_text())["run"]["backend"] == then
    if began == "torch":
        # a run from before there was a choice
        kept.write_text(kept.read_text().replace('backend = "torch"\n', ""))
    resumed = go("auto", tmp_path, resume=True)
    assert resumed.records[0]["backend"] == then
    assert same_bits(whole.model.state_dict(), resumed.model.state_dict())
    other = "native" if began == "torch" else "torch"
    with pytest.raises(ValueError, match=f"run.backend='{other}', but the run in .* has '{then}'"):
        go(other, tmp_path, resume=True)
