"""A folder of client folders: each is read when its client is first asked for, as a real client would read it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from prunefl.data.federation import Federation
from prunefl.data.listed import (
    ImageOptions,
    Listed,
    common_shape,
    decoded_images,
    label_names,
    refuse_untaught,
)
from prunefl.data.own import list_clients, need_folder
from prunefl.data.samples import Images, Later
from prunefl.data.task import Task, number_classes

NAME = "folder-per-client"


def client_folders(folder: Path | None, task: Task, options: ImageOptions) -> Federation:
    """Return one client for each folder, its classes joined with the others' by name.

    Where no shape is agreed on, the headers of all images are read; else no image is opened before its client is.
    """
    folder = need_folder(folder)
    clients, test = list_clients(folder)
    entries = [entry for listed in clients.values() for entry in listed]
    names = task.classes or tuple(label_names([entry.label for entry in entries]))
    if not task.classes:
        refuse_untaught(folder, [n for n in label_names([entry.label for entry in test]) if n not in names])
    for client, listed in [*clients.items(), ("test", test)]:
        number_classes(tuple(label_names([entry.label for entry in listed])), names, str(folder / client))
    options = replace(options, shape=task.shape)
    if not task.shape:
        options = replace(options, shape=common_shape([entry.path for entry in [*entries, *test]], options))
    numbers = {name: number for number, name in enumerate(names)}
    shares = [_later(listed, numbers, options) for listed in clients.values()]
    tested = _read(test, numbers, options) if test else None
    words = f"{len(shares)} clients, as the data names them"
    return Federation(shares, tested, len(names), options.shape, NAME, words, names)


def _later(listed: Sequence[Listed], numbers: Mapping[str, int], options: ImageOptions) -> Later:
    labels = np.array([numbers[entry.label] for entry in listed])
    return Later(labels, lambda: _read(listed, numbers, options))


def _read(listed: Sequence[Listed], numbers: Mapping[str, int], options: ImageOptions) -> Images:
    """Return one client's images; each lies in its own class folder within the client's."""
    common_shape([entry.path for entry in listed], options)
    return decoded_images("folder-per-class", listed, numbers, listed[0].path.parent.parent, options)
