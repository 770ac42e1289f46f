"""A real client's samples: all it brings, or the simulator's share; the same when it comes back to the same run."""

import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from prunefl import config as settings
from prunefl import data
from prunefl.data.mine import bring, content_digest, stamp_files
from prunefl.data.task import Task
from prunefl.engines.flower import own_data
from prunefl.engines.flower.envelope import Envelope, seal, unseal
from prunefl.engines.flower.own_data import DataWatch, Share, check_data, load_own, refuse_changed_data
from prunefl.engines.flower.personal import Personal
from prunefl.engines.flower.session import WorkerOptions
from prunefl.engines.flower.worker import Worker


def digits_config(**changed: object) -> settings.Config:
    tables = {
        "name": "digits",
        "clients": 3,
        "partition": "dirichlet",
        "classes": [str(i) for i in range(10)],
    }
    return settings.from_tables({"data": {**tables, "shape": [1, 28, 28], **changed}})


def write_arrays(path: Path, value: int = 0) -> Path:
    """Write ten samples of 28x28 pixels, of the classes 0 and 3."""
    inputs = np.full((10, 28, 28), value, np.uint8)
    np.savez(path, x_train=inputs, y_train=np.arange(10) % 2 * 3)
    return path


def test_a_share_is_what_the_simulator_cuts() -> None:
    config = digits_config()
    for index, expected in enumerate(data.load_configured(config).clients):
        found = load_own(config, index, Share(index, 3)).samples
        assert content_digest(found) == content_digest(expected)


def test_a_share_of_other_clients_than_the_run_has_is_refused() -> None:
    with pytest.raises(ValueError, match=r"--share 0/5, but the run has data\.clients=3: --share 0/3"):
        load_own(digits_config(), 0, Share(0, 5))
    for text in ("3/3", "1", "a/b"):
        with pytest.raises(ValueError, match="must be I/N with I < N"):
            Share.parse(text)


def test_nothing_is_cut_that_nobody_asked_for(tmp_path: Path) -> None:
    path = write_arrays(tmp_path / "own.npz")
    brought = load_own(digits_config(name="at-clients", dir=str(path)), 1, None)
    assert brought.samples.batch(np.arange(10))[1].tolist() == [0, 3] * 5
    with pytest.raises(ValueError, match=r"--data PATH is missing: .*--share 2/3"):
        load_own(digits_config(), 2, None)


def test_a_server_that_does_not_say_its_classes_is_of_another_version() -> None:
    with pytest.raises(ValueError, match="did not say which classes"):
        load_own(digits_config(classes=[]), 0, Share(0))


def test_what_cannot_be_data_is_refused_before_a_server_is_asked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such folder or file"):
        check_data(str(tmp_path / "nowhere"), None, ())
    with pytest.raises(ValueError, match="allow it with --allow own:load"):
        check_data("own:load", None, ())
    check_data("own:load", None, ("own:load",))
    check_data("", Share(0, 3), ())


def test_other_samples_in_the_same_run_are_refused(tmp_path: Path) -> None:
    task = Task(tuple(map(str, range(10))), (1, 28, 28))
    samples = bring(write_arrays(tmp_path / "a.npz"), task).samples
    refuse_changed_data(tmp_path, "r", samples)
    refuse_changed_data(tmp_path, "r", replace(samples))
    changed = bring(write_arrays(tmp_path / "b.npz", value=1), task).samples
    with pytest.raises(
        ValueError, match=r"has changed since this client joined run r \(10 samples then, 10 now\)"
    ):
        refuse_changed_data(tmp_path, "r", changed)
    refuse_changed_data(tmp_path, "another", changed)


@pytest.mark.parametrize("name", ["folder-per-class", "csv", "npz", "folder-per-client"])
def test_a_server_with_data_of_its_own_is_not_one_for_clients_that_bring_theirs(
    tmp_path: Path, name: str
) -> None:
    path = write_arrays(tmp_path / "own.npz")
    with pytest.raises(
        ValueError, match=rf"data.name='{name}'.*'at-clients', and data.test=PATH.*--share 1/3"
    ):
        load_own(digits_config(name=name, dir=str(path)), 1, None)


def test_files_that_change_while_a_client_takes_part_are_noticed(tmp_path: Path, monkeypatch) -> None:
    path = write_arrays(tmp_path / "own.npz")
    config = digits_config(name="at-clients", dir=str(path))
    watch = DataWatch(config, 1, None, tmp_path, "r")
    refuse_changed_data(tmp_path, "r", load_own(config, 1, None).samples)
    watch.refuse_change()
    write_arrays(path, value=1)
    # it was looked at a moment ago
    watch.refuse_change()
    monkeypatch.setattr(own_data, "LOOK_SECONDS", 0.0)
    with pytest.raises(ValueError, match=r"has changed since this client joined run r"):
        watch.refuse_change()
    # the same samples again, in a file of another time
    write_arrays(path)
    watch.refuse_change()


def test_an_image_more_or_one_that_was_replaced_changes_the_stamp_and_our_cache_does_not(
    tmp_path: Path,
) -> None:
    pytest.importorskip("PIL.Image")
    folder = tmp_path / "mine"
    for place in ("ok/0.png", "ok/1.png", "dent/0.png"):
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_bytes(b"x")
    stamps = [stamp_files(folder)]
    (folder / ".prunefl-cache").mkdir()
    (folder / ".prunefl-cache" / "pixels").write_bytes(b"x")
    assert stamp_files(folder) == stamps[0]
    (folder / "ok" / "2.png").write_bytes(b"x")
    stamps.append(stamp_files(folder))
    (folder / "ok" / "2.png").unlink()
    (folder / "ok" / "1.png").write_bytes(b"xy")
    stamps.append(stamp_files(folder))
    (folder / "ok" / "1.png").rename(folder / "dent" / "1.png")
    stamps.append(stamp_files(folder))
    (folder / "index.csv").write_text("file,label\nok/0.png,ok\n")
    stamps.append(stamp_files(folder / "index.csv"))
    (folder / "ok" / "0.png").write_bytes(b"xyz")
    stamps.append(stamp_files(folder / "index.csv"))
    assert len(set(stamps)) == len(stamps)


@pytest.mark.parametrize(
    ("section", "personal", "words"),
    [
        ("[evaluation]\nshare = 0.96\n", None, "has 10 samples and would hold out 10"),
        ("[server]\nclients = [0, 2]\n", None, "client 1 is not among those that take part"),
        ("", Personal(3, Path("x")), "--personal-steps 3: the server's config has evaluation.share=0"),
    ],
)
def test_a_client_that_cannot_take_part_leaves_with_one_line_and_says_so_to_the_server(
    tmp_path: Path, section: str, personal: Personal | None, words: str
) -> None:
    path = write_arrays(tmp_path / "own.npz")
    tables = tomllib.loads(settings.dump(digits_config(name="at-clients")))
    for name, table in tomllib.loads(section).items():
        tables[name] |= table
    config = settings.dump(settings.from_tables(tables))
    worker = Worker(WorkerOptions(tmp_path / "s", 1, str(path), personal=personal), lambda words: None)
    hello = seal(Envelope("hello", {"run": "r", "config": config, "facts": {}}))
    answer = unseal(worker.answer(hello))
    assert answer.kind == "error"
    assert words in answer.values["what"]
    assert answer.values["leaves"] is True
    assert words in worker.refusal
    worker.answer(seal(Envelope("refused")))
    assert worker.ended
