"""A real client's memory on disk: it survives a crash, and goes back when the server does."""

from dataclasses import dataclass
from pathlib import Path

from prunefl.rounds.client import ClientState
from prunefl.runs import checkpoint
from prunefl.system.files import CheckpointError, cut_off


@dataclass(frozen=True)
class ClientStore:
    """States after the last rounds, one file each.

    A server that was killed repeats rounds from its last checkpoint; a client that answered them already must
    start from where it stood before, or its importance would count twice. `keep` rounds can be gone back.
    """

    folder: Path
    keep: int

    def before(self, round: int) -> ClientState:
        """Return the newest state from before this round; a fresh one if there is none that can be read."""
        for number, path in sorted(self._find_newest().items(), reverse=True):
            if number < round:
                try:
                    return _load(path)
                except CheckpointError:
                    continue
        return ClientState()

    def save(self, round: int, state: ClientState) -> None:
        """Keep the state after a round; what is later (from before the server went back) or too old goes."""
        tensors = {f"sums/{name}": value for name, value in state.sums.items()}
        tensors |= checkpoint.residual_tensors(state.residual)
        tensors |= {f"masks/{name}": checkpoint.bits_of(mask) for name, mask in state.masks.items()}
        about = {
            "steps": state.steps,
            "shapes": {name: list(mask.shape) for name, mask in state.masks.items()},
        }
        written = checkpoint.save_tensors(self.folder / f"{round:07d}", tensors, about)
        found = self._find_newest()
        kept = sorted(number for number in found if number <= round)[-self.keep - 1 :]
        for number, path in self._list_files():
            if number not in kept or (number == round and path != written):
                path.unlink(missing_ok=True)
        for path in cut_off(self.folder):
            path.unlink(missing_ok=True)

    def clear(self) -> None:
        """Forget everything: another run begins."""
        for _, path in self._list_files():
            path.unlink(missing_ok=True)

    def _find_newest(self) -> dict[int, Path]:
        return dict(self._list_files())

    def _list_files(self) -> list[tuple[int, Path]]:
        return [
            (int(path.stem.partition("-")[0]), path) for path in sorted(self.folder.glob("*.safetensors"))
        ]


def _load(path: Path) -> ClientState:
    tensors, about = checkpoint.load_tensors(path)
    with checkpoint.understood(path):
        bits = checkpoint.under("masks/", tensors)
        masks = {name: checkpoint.mask_of(bits[name], shape) for name, shape in about["shapes"].items()}
        sums = checkpoint.under("sums/", tensors)
        return ClientState(masks, sums, int(about["steps"]), checkpoint.residual_of(tensors))
