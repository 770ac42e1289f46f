"""A real client's memory on disk: it survives a crash, and goes back when the server does."""

from dataclasses import dataclass, field
from pathlib import Path

from prunefl.core.masks import Masks
from prunefl.rounds import client_files
from prunefl.rounds.client import ClientState
from prunefl.system.files import CheckpointError, cut_off, load_arrays, save_arrays, understanding


@dataclass(frozen=True)
class ClientStore:
    """States after the last rounds, one file each.

    A server that was killed repeats rounds from its last checkpoint; a client that answered them already must
    start from where it stood before, or its importance would count twice. `keep` rounds can be gone back, or fewer
    where more would take more than `max_bytes`. The files are for this user's eyes alone.
    """

    folder: Path
    keep: int
    max_bytes: int = 4 << 30
    # masks of the state that was saved last: read again they would lie in memory twice, a byte a weight
    _masks: dict[Path, Masks] = field(default_factory=dict, init=False, repr=False, compare=False)

    def before(self, round: int) -> ClientState:
        """Return the newest state from before this round; a fresh one if there is none that can be read."""
        for number, path in sorted(self._find_newest().items(), reverse=True):
            if number < round:
                try:
                    return _load(path, self._masks.get(path))
                except CheckpointError:
                    _set_aside(path)
        return ClientState()

    def save(self, round: int, state: ClientState) -> None:
        """Keep the state after a round; what is later (from before the server went back) or too old goes."""
        shapes = {} if state.masks is None else state.masks.shapes
        about = {"numbers": dict(state.memory.numbers), "shapes": shapes}
        arrays = client_files.state_arrays(state) | client_files.mask_arrays(state.masks)
        written = save_arrays(self.folder / f"{round:07d}", arrays, about, mode=0o600)
        self._masks.clear()
        if state.masks is not None:
            self._masks[written] = state.masks
        found = self._find_newest()
        kept = sorted(number for number in found if number <= round)[-self.keep - 1 :]
        kept = kept[-max(1, self.max_bytes // max(1, written.stat().st_size)) :]
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
        found = []
        for path in sorted(self.folder.glob("*.safetensors")):
            number = path.stem.partition("-")[0]
            if number.isdecimal():
                found.append((int(number), path))
            else:
                _set_aside(path)
        return found


def _set_aside(path: Path) -> None:
    """Keep a state that cannot be read for whoever wants to look at it, out of the way; one of them is enough."""
    path.replace(path.with_name("unreadable.state"))


def _load(path: Path, known: Masks | None) -> ClientState:
    arrays, about = load_arrays(path)
    with understanding(path):
        masks = known
        if masks is None and about["shapes"]:
            masks = client_files.masks_of(arrays, about["shapes"])
        memory = client_files.memory_of(arrays, about["numbers"])
        return ClientState(masks, memory, client_files.residual_of(arrays), client_files.moments_of(arrays))
