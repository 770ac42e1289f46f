"""From the name of a data set to its samples, before they are cut into clients."""

from collections.abc import Callable, Mapping
from pathlib import Path

from prunefl.data.arrays import npz
from prunefl.data.celeba import celeba
from prunefl.data.cifar10 import cifar10
from prunefl.data.digits import digits
from prunefl.data.federation import Federation, Source
from prunefl.data.femnist import femnist
from prunefl.data.imagenet100 import imagenet100
from prunefl.data.listed import AS_THEY_ARE, ImageOptions
from prunefl.data.mnist import mnist
from prunefl.data.own import csv_index, folder_per_class, folder_per_client
from prunefl.system.errors import PruneFLError
from prunefl.system.plugins import own_function
from prunefl.system.suggest import did_you_mean

PUBLISHED: Mapping[str, Callable[[Path | None, Path | None], Source]] = {
    "digits": digits,
    "mnist": mnist,
    "femnist": femnist,
    "cifar10": cifar10,
    "imagenet100": imagenet100,
    "celeba": celeba,
}
"""From the data folder and the cache folder (either may be None) to a data set that everybody can get."""

OWN_IMAGES: Mapping[str, Callable[[Path | None, ImageOptions, bool], Source]] = {
    "folder-per-client": folder_per_client,
    "folder-per-class": folder_per_class,
    "csv": csv_index,
}
"""From the data folder, how images are read, and whether some are held out for testing where none are named so."""

AT_CLIENTS = "at-clients"
"""The name of data that real clients bring with them: no folder of this machine."""

NAMES = (*PUBLISHED, *OWN_IMAGES, "npz", "function-per-client", AT_CLIENTS)


def source_of(
    name: str, dir: str | Path | None = None, options: ImageOptions = AS_THEY_ARE, hold_out: bool = True
) -> Source | Federation:
    """Return a data set before it is cut, or one that its own function has cut."""
    folder = Path(dir) if dir else None
    if ":" in name:
        return _own_source(name, folder)
    if name not in NAMES:
        known, hint = ", ".join(NAMES), did_you_mean(name, NAMES)
        raise PruneFLError(f"data.name={name!r}, must be one of {known} or package.module:function{hint}")
    if name == AT_CLIENTS:
        raise PruneFLError(
            f"data.name={name!r}: the data is with real clients, which `prunefl server` waits for; "
            "a simulation needs data.name and data.dir of data that is here"
        )
    if name in OWN_IMAGES:
        return OWN_IMAGES[name](folder, options, hold_out)
    if options.size:
        raise PruneFLError(f"data.size={options.size}, must be 0 for {name}: only own images are resized")
    if name == "npz":
        return npz(folder, hold_out)
    if folder is None and name != "digits":
        folder = _usual_folder(name)
    return PUBLISHED[name](folder, options.cache)


def _usual_folder(name: str) -> Path:
    """Return where `prunefl data get` is told to put a data set, if it is there."""
    folder = Path("data") / name
    if not folder.is_dir():
        raise PruneFLError(
            f"data.dir is not set and there is no {folder}: prunefl data get {name} --dir {folder} "
            "(or give data.dir=DIR)"
        )
    return folder


def _own_source(spec: str, folder: Path | None) -> Source | Federation:
    """Return what a user's function makes of the folder."""
    source = own_function("data.name", spec)(folder)
    if not isinstance(source, Source | Federation):
        kind = type(source).__name__
        raise PruneFLError(f"data.name={spec!r}, must return a prunefl.data.Federation or Source, got {kind}")
    return source
