"""Downloads resume, are checked and unpacked whole, against a small server on this machine."""

import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_trees import every, parquet, quiet

from prunefl import data
from prunefl.data import download, get
from prunefl.data.download import Remote, fetch


@dataclass
class Site:
    """Files by path, what was asked for, and how the server misbehaves."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    break_after: list[int] = field(default_factory=list)
    ranges: bool = True

    def remote(self, path: str, content: bytes) -> Remote:
        self.files[path] = content
        return Remote(
            self.url + path, path.rpartition("/")[2], f"sha256:{hashlib.sha256(content).hexdigest()}"
        )


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range", "")
            site.asked.append((self.path, asked))
            content = site.files.get(self.path)
            if content is None:
                self.send_error(404)
                return
            start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and site.ranges else 0
            if asked and site.ranges and start >= len(content):
                self.send_error(416)
                return
            self.send_response(206 if asked and site.ranges else 200)
            if asked and site.ranges:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            end = start + site.break_after.pop(0) if site.break_after else len(content)
            self.wfile.write(content[start:end])

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield site
    server.shutdown()
    server.server_close()
    thread.join()


CONTENT = np.random.default_rng(0).bytes(50_000)


def test_a_file_is_fetched_once(tmp_path: Path, site: Site) -> None:
    remote = site.remote("/a.bin", CONTENT)
    seen: list[tuple[str, int, int]] = []
    path = fetch(remote, tmp_path, lambda *step: seen.append(step))
    assert path.read_bytes() == CONTENT
    assert seen[-1] == ("a.bin", len(CONTENT), len(CONTENT))
    fetch(remote, tmp_path, quiet)
    assert len(site.asked) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin"]


def test_a_broken_connection_goes_on_where_it_stopped(tmp_path: Path, site: Site) -> None:
    remote = site.remote("/a.bin", CONTENT)
    site.break_after = [20_000, 10_000]
    assert fetch(remote, tmp_path, quiet, pause_seconds=0).read_bytes() == CONTENT
    assert [asked for _, asked in site.asked] == ["", "bytes=20000-", "bytes=30000-"]


def test_a_part_of_an_earlier_attempt_is_continued(tmp_path: Path, site: Site) -> None:
    remote = site.remote("/a.bin", CONTENT)
    (tmp_path / "a.bin.part").write_bytes(CONTENT[:12_345])
    assert fetch(remote, tmp_path, quiet).read_bytes() == CONTENT
    assert [asked for _, asked in site.asked] == ["bytes=12345-"]


def test_a_server_without_ranges_starts_over(tmp_path: Path, site: Site) -> None:
    remote = site.remote("/a.bin", CONTENT)
    site.ranges = False
    (tmp_path / "a.bin.part").write_bytes(b"x" * 12_345)
    assert fetch(remote, tmp_path, quiet).read_bytes() == CONTENT


def test_a_whole_part_is_not_fetched_again(tmp_path: Path, site: Site) -> None:
    remote = site.remote("/a.bin", CONTENT)
    (tmp_path / "a.bin.part").write_bytes(CONTENT)
    assert fetch(remote, tmp_path, quiet).read_bytes() == CONTENT


def test_a_line_that_always_breaks_keeps_what_came(tmp_path: Path, site: Site) -> None:
    remote = site.remote("/a.bin", CONTENT)
    site.break_after = [1000] * download.ATTEMPTS
    with pytest.raises(ValueError, match="5000 bytes are kept; the same command goes on"):
        fetch(remote, tmp_path, quiet, pause_seconds=0)
    assert (tmp_path / "a.bin.part").read_bytes() == CONTENT[:5000]


def test_a_wrong_checksum_leaves_nothing(tmp_path: Path, site: Site) -> None:
    remote = site.remote("/a.bin", CONTENT)
    site.files["/a.bin"] = CONTENT[:-1] + b"?"
    with pytest.raises(ValueError, match="sha256 is wrong"):
        fetch(remote, tmp_path, quiet)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_of_earlier_is_fetched_anew(tmp_path: Path, site: Site) -> None:
    remote = site.remote("/a.bin", CONTENT)
    (tmp_path / "a.bin").write_bytes(CONTENT[:100])
    assert fetch(remote, tmp_path, quiet).read_bytes() == CONTENT


def test_what_is_not_there_is_said_at_once(tmp_path: Path, site: Site) -> None:
    with pytest.raises(ValueError, match="404"):
        fetch(Remote(site.url + "/none", "none", "md5:0"), tmp_path, quiet)
    assert len(site.asked) == 1
    with pytest.raises(ValueError, match="must be an http address"):
        fetch(Remote("file:///etc/hosts", "hosts", "md5:0"), tmp_path, quiet)


def test_a_disk_that_cannot_be_written_to_is_not_a_broken_line(tmp_path: Path, site: Site) -> None:
    remote = site.remote("/a.bin", CONTENT)
    (tmp_path / "a.bin.part").mkdir()
    with pytest.raises(ValueError, match=r"a\.bin\.part: could not be written \(Is a directory\): make room"):
        fetch(remote, tmp_path, quiet, pause_seconds=0)
    assert len(site.asked) == 1
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"--dir .*file.*: must be a folder to write to"):
        get.get("mnist", tmp_path / "file", quiet)


def archive_of(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def cifar_files() -> dict[str, bytes]:
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
    return {f"cifar-10-batches-bin/{name}": bytes(10 * 3073) for name in names}


def test_cifar_is_fetched_unpacked_and_loads(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = site.remote("/cifar-10-binary.tar.gz", archive_of(cifar_files()))
    monkeypatch.setattr(get, "CIFAR10_ARCHIVE", remote)
    assert "cifar10 is in" in get.get("cifar10", tmp_path, quiet)
    assert [p.name for p in tmp_path.iterdir()] == ["cifar-10-batches-bin"]
    assert len(data.load("cifar10", tmp_path, clients=5).test) == 10
    get.get("cifar10", tmp_path, quiet)
    assert len(site.asked) == 1
    (tmp_path / "cifar-10-batches-bin" / "data_batch_3.bin").write_bytes(bytes(9 * 3073))
    get.get("cifar10", tmp_path, quiet)
    assert len(data.load("cifar10", tmp_path, clients=5).test) == 10
    assert len(site.asked) == 2


def test_half_an_archive_or_one_that_climbs_out_unpacks_nothing(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar.gz"
    whole = archive_of({"inner/a": CONTENT})
    archive.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="not a whole archive"):
        get.unpack(archive, tmp_path, "inner")
    archive.write_bytes(archive_of({"../escaped": b"x", "inner/a": b"x"}))
    with pytest.raises(ValueError, match="not a whole archive"):
        get.unpack(archive, tmp_path, "inner")
    archive.write_bytes(archive_of({"outer/a": b"x"}))
    with pytest.raises(ValueError, match="holds no folder inner"):
        get.unpack(archive, tmp_path, "inner")
    assert [p.name for p in tmp_path.iterdir()] == ["a.tar.gz"]
    assert not (tmp_path.parent / "escaped").exists()


def test_mnist_comes_with_its_writers(tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for base, names in (("MNIST", get.MNIST_FILES), ("QMNIST", get.QMNIST_FILES)):
        monkeypatch.setattr(get, base, site.url)
        for name in names:
            content = name.encode()
            site.files[f"/{name}"] = content
            monkeypatch.setitem(names, name, f"md5:{hashlib.md5(content).hexdigest()}")
    get.get("mnist", tmp_path, quiet)
    assert len(list(tmp_path.glob("*.gz"))) == 5


def test_femnist_comes_from_parquet_files_as_leafs_folders(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    # writers take turns and go over two files; pixel and label tell an image
    rows = [(i, f"f{i % 4:04d}_00", i % 62) for i in range(80)]
    monkeypatch.setattr(get, "HUGGING_FACE", site.url)
    listing = [{"path": "data/README.md"}]
    for number, part in enumerate((rows[:50], rows[50:])):
        path = f"data/train-{number}.parquet"
        content = parquet(part)
        site.files[f"/datasets/{get.FEMNIST}/resolve/main/{path}"] = content
        listing.append({"path": path, "lfs": {"oid": hashlib.sha256(content).hexdigest()}})  # type: ignore[dict-item]
    site.files[f"/api/datasets/{get.FEMNIST}/tree/main/data"] = json.dumps(listing).encode()
    get.get("femnist", tmp_path, quiet, writers=3)
    federation = data.load("femnist", tmp_path)
    # of each writer's 20 images, 18 are for training
    assert [len(client) for client in federation.clients] == [18, 18, 18]
    assert len(federation.test) == 6
    seen = []
    for part in (*federation.clients, federation.test):
        x, y = every(part)
        values = (255 - (x[:, 0, 0, 0] * 255)).round().astype(int).tolist()
        assert y.tolist() == [value % 62 for value in values]
        seen += values
    assert len(seen) == len(set(seen)) == 60
    with pytest.raises(ValueError, match="--writers 5, must be <= 4"):
        get.get("femnist", tmp_path, quiet, writers=5)


def test_a_strange_listing_is_named(tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(get, "HUGGING_FACE", site.url)
    site.files[f"/api/datasets/{get.FEMNIST}/tree/main/data"] = b'{"error": "moved"}'
    with pytest.raises(ValueError, match="not the list of files that was expected"):
        get.get("femnist", tmp_path, quiet)
    monkeypatch.setattr(get, "HUGGING_FACE", "http://127.0.0.1:9")
    with pytest.raises(ValueError, match=r"refused.*is there an internet connection\?$"):
        get.get("femnist", tmp_path, quiet)


@pytest.mark.parametrize("name", ["celeba", "imagenet100"])
def test_where_a_licence_forbids_it_there_are_instructions(tmp_path: Path, name: str) -> None:
    message = get.get(name, tmp_path / "x", quiet)
    assert f"prunefl data check {tmp_path / 'x'} --name {name}" in message
    assert not (tmp_path / "x").exists()


def test_an_unknown_data_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="data set 'cifar', must be one of mnist, cifar10, femnist, celeba"):
        get.get("cifar", tmp_path, quiet)
