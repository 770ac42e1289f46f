"""scikit-learn's diabetes table for trying out regression: 442 real patients, ten measurements, one number to tell."""

from pathlib import Path

import numpy as np

from prunefl.core.randomness import lots
from prunefl.data.federation import Federation
from prunefl.data.samples import Tensors
from prunefl.system.errors import PruneFLError

CLIENTS, TESTED = 6, 82


def diabetes(folder: Path | None) -> Federation:
    """Return six clients of sixty patients each and 82 to test on; the target is in standard deviations."""
    try:
        from sklearn.datasets import load_diabetes
    except ImportError as error:
        raise PruneFLError(
            "data.name='...:diabetes', needs scikit-learn: pip install 'prunefl[demo]'"
        ) from error
    inputs, targets = load_diabetes(return_X_y=True)
    order = lots("diabetes").permutation(len(targets), len(targets))
    # the table's columns have a norm of one: too small for a network's first steps
    inputs = (inputs / inputs.std(0)).astype(np.float32)[order]
    targets = ((targets - targets.mean()) / targets.std()).astype(np.float32)[order]
    test = Tensors(inputs[:TESTED], targets[:TESTED])
    parts = np.array_split(np.arange(TESTED, len(targets)), CLIENTS)
    clients = [Tensors(inputs[part], targets[part]) for part in parts]
    return Federation(
        clients, test, 1, (inputs.shape[1],), "diabetes", f"{CLIENTS} clients, drawn", ("progression",)
    )
