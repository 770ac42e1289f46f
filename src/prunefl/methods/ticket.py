"""A lottery ticket: the final masks of another run, trained from the first weights."""

from pathlib import Path

from safetensors import SafetensorError, safe_open

from prunefl.core.masks import Masks, unpack_mask
from prunefl.core.network import Network
from prunefl.methods.base import Chosen, Method
from prunefl.system.errors import PruneFLError


class Ticket(Method):
    """Training on the final masks of the run folder `pruning.masks`."""

    name = "ticket"
    label = "Lottery ticket"
    place = 14
    uncovered = "its masks come from another run, whose promise is not this one's"

    def first(self, network: Network) -> Chosen:
        if not self.config.pruning.masks:
            raise PruneFLError(
                "pruning.masks='', must be the folder of a finished run for run.method='ticket'"
            )
        return Chosen(final_masks(Path(self.config.pruning.masks), network))


def final_masks(run: Path, network: Network) -> Masks:
    """Return the masks that a run ended with, for a model like the one it trained."""
    path, shapes = run / "model.safetensors", network.template.layers
    if not path.is_file():
        raise PruneFLError(
            f"pruning.masks={str(run)!r}, must be the folder of a finished run: no {path.name}"
        )
    try:
        with safe_open(path, framework="numpy") as file:
            stored = {name: file.get_tensor(f"mask:{name}") for name in shapes}
    except (SafetensorError, OSError) as error:
        raise PruneFLError(f"pruning.masks={str(run)!r}, holds no masks of this model: {error}") from error
    try:
        return Masks({name: unpack_mask(stored[name], shape) for name, shape in shapes.items()})
    except ValueError:
        raise PruneFLError(
            f"pruning.masks={str(run)!r}, holds masks of a model with other layer sizes"
        ) from None
