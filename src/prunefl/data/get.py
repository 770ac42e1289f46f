"""Where each data set officially comes from, and how it gets from there into a folder that loads."""

import gzip
import json
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from prunefl.data.cifar10 import whole_files
from prunefl.data.download import Progress, Remote, fetch, read_bytes
from prunefl.system.errors import PruneFLError
from prunefl.system.suggest import did_you_mean

MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"
QMNIST = "https://raw.githubusercontent.com/facebookresearch/qmnist/master"
CIFAR10 = "https://www.cs.toronto.edu/~kriz"
HUGGING_FACE = "https://huggingface.co"
FEMNIST = "flwrlabs/femnist"

MNIST_FILES = {
    "train-images-idx3-ubyte.gz": "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "md5:d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "md5:9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "md5:ec29112dd5afa0611ce80d1b7f02629c",
}
QMNIST_FILES = {"qmnist-train-labels-idx2-int.gz": "md5:0058f8dd561b90ffdd0f734c6a30e5e4"}
CIFAR10_ARCHIVE = Remote(
    f"{CIFAR10}/cifar-10-binary.tar.gz", "cifar-10-binary.tar.gz", "md5:c32a1d4ab5d03f1284b67883e8d87530"
)

BY_HAND = {
    "celeba": """CelebA may be used for research only, and its authors hand it out themselves:
  1. Read the agreement at https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html
  2. From there fetch Img/img_align_celeba.zip, Anno/identity_CelebA.txt and Anno/list_attr_celeba.txt
  3. Unpack, so that {folder} holds img_align_celeba/000001.jpg ..., and the two text files
  4. prunefl data check {folder} --name celeba""",
    "imagenet100": """ImageNet may be used for research only, after one has signed its terms:
  1. Sign up at https://image-net.org/download.php (or join Kaggle's imagenet-object-localization-challenge)
  2. Fetch ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar
  3. Unpack, so that {folder} holds train/n01440764/*.JPEG ... (the first 100 classes are enough) and
     val/n01440764/*.JPEG ..., or val/*.JPEG beside Kaggle's LOC_val_solution.csv
  4. prunefl data check {folder} --name imagenet100""",
}
"""What to do where a licence forbids that we do it."""


def get(name: str, folder: Path, progress: Progress, writers: int = 193) -> str:
    """Fetch a data set into the folder; return what to tell the user: done, or what to do by hand.

    Args:
        writers: how many of FEMNIST's writers to keep; 0 for all.
    """
    if name in BY_HAND:
        return BY_HAND[name].format(folder=folder)
    if name not in GETTERS:
        known = (*GETTERS, *BY_HAND)
        raise PruneFLError(f"data set {name!r}, must be one of {', '.join(known)}{did_you_mean(name, known)}")
    options = (writers,) if name == "femnist" else ()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        GETTERS[name](folder, progress, *options)
    except OSError as error:
        raise PruneFLError(f"--dir {folder}: {error}: must be a folder to write to, with room") from error
    return f"{name} is in {folder} (prunefl data check {folder} --name {name})"


def get_mnist(folder: Path, progress: Progress) -> None:
    """Fetch the four idx files and QMNIST's extended training labels."""
    for base, files in ((MNIST, MNIST_FILES), (QMNIST, QMNIST_FILES)):
        for file, checksum in files.items():
            fetch(Remote(f"{base}/{file}", file, checksum), folder, progress)


def get_cifar10(folder: Path, progress: Progress) -> None:
    """Fetch the archive of binary files, take them out of it, and let it go; nothing where they are whole."""
    with suppress(ValueError):
        whole_files(folder)
        return
    archive = fetch(CIFAR10_ARCHIVE, folder, progress)
    unpack(archive, folder, "cifar-10-batches-bin")
    archive.unlink()


def get_femnist(folder: Path, progress: Progress, writers: int) -> None:
    """Fetch Flower's copy of FEMNIST and write it as LEAF's folders."""
    from prunefl.data.parquet import check_replaceable, write_leaf

    check_replaceable(folder)
    listing = f"{HUGGING_FACE}/api/datasets/{FEMNIST}/tree/main/data"
    answer = read_bytes(listing)
    try:
        files = [entry for entry in json.loads(answer) if entry["path"].endswith(".parquet")]
        remotes = [
            Remote(
                f"{HUGGING_FACE}/datasets/{FEMNIST}/resolve/main/{entry['path']}",
                Path(entry["path"]).name,
                f"sha256:{entry['lfs']['oid']}",
            )
            for entry in files
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise PruneFLError(f"{listing}: not the list of files that was expected ({error})") from error
    if not remotes:
        raise PruneFLError(f"{listing}: lists no parquet file")
    paths = [fetch(remote, folder / "parquet", progress) for remote in remotes]
    write_leaf(paths, folder, writers, progress)


def unpack(archive: Path, folder: Path, inner: str) -> None:
    """Put the folder `inner` of a tar archive into `folder`, whole or not at all."""
    with tempfile.TemporaryDirectory(dir=folder) as work:
        try:
            with tarfile.open(archive) as tar:
                tar.extractall(work, filter="data")
        except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise PruneFLError(
                f"{archive}: not a whole archive ({error}): delete it and get it again"
            ) from error
        if not (Path(work) / inner).is_dir():
            raise PruneFLError(f"{archive}: holds no folder {inner}: delete it and get it again")
        shutil.rmtree(folder / inner, ignore_errors=True)
        os.rename(Path(work) / inner, folder / inner)


GETTERS: Mapping[str, Callable[..., None]] = {
    "mnist": get_mnist,
    "cifar10": get_cifar10,
    "femnist": get_femnist,
}
