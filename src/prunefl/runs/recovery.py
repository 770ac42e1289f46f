"""What a real run does when a round fails: it asks others, or goes back to a sound model without who broke it."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from prunefl.rounds.server import Setup
from prunefl.rounds.updates import RoundFailed
from prunefl.runs import checkpoint
from prunefl.runs.records import Record
from prunefl.runs.soundness import UnsoundError
from prunefl.system.errors import PruneFLError
from prunefl.system.files import write_atomically

FILE = "left-out.json"
"""In the run's folder: client -> why it is not asked any more."""

Say = Callable[[str], None]


@dataclass
class Recovery:
    """Keeps in mind who stood out since the model was last evaluated, and who is left out for it."""

    folder: Path
    say: Say
    left_out: dict[int, str] = field(default_factory=dict)
    suspects: set[int] = field(default_factory=set)
    lost_before: bool = False

    def __post_init__(self) -> None:
        self.left_out = read_left_out(self.folder)

    def note(self, record: Record) -> None:
        """Take note of a round that went well."""
        self.suspects |= {int(client) for client in record.get("bounded", {})}
        if "test_loss" in record or "evaluation" in record:
            self.suspects.clear()
            self.lost_before = False

    def recover(self, setup: Setup, error: RoundFailed | UnsoundError) -> Setup:
        """Return the setup to go on with from the last checkpoint, which may be an earlier one now.

        Raises:
            UnsoundError: the model was lost once more, and nobody stands out: it is not a client's doing.
        """
        if isinstance(error, RoundFailed) and not error.blames_model:
            return self._pass_over(setup, error)
        self.suspects |= error.suspects if isinstance(error, UnsoundError) else set()
        culprits = sorted(self.suspects - self.left_out.keys())
        if not culprits and self.lost_before:
            raise UnsoundError(f"{error}; the model was lost again, and no client stands out")
        self.lost_before = not culprits
        back = checkpoint.go_back(self.folder / "checkpoints")
        self.say(
            f"{error}; going back to {f'round {back}, evaluated and sound' if back >= 0 else 'the start'}"
        )
        for client in culprits:
            self.left_out[client] = (
                f"left out of the run: its change stood out before the model of round {back} was lost"
            )
            self.say(f"client {client} {self.left_out[client]}")
        write_atomically(self.folder / FILE, json.dumps(self.left_out).encode())
        self.suspects.clear()
        return replace(setup, left_out=frozenset(self.left_out))

    def _pass_over(self, setup: Setup, error: RoundFailed) -> Setup:
        """Return the setup in which others prune first, if those who should have did not and others can."""
        initial = setup.config.initial
        if error.round != 0 or initial.client >= 0:
            return setup
        failed = {*error.silent, *error.refused} | setup.passed_over
        others = [
            client
            for client, size in enumerate(setup.num_samples)
            if size >= initial.samples and client not in failed | setup.left_out
        ]
        if not others:
            return replace(setup, passed_over=frozenset())
        self.say(
            f"client {', '.join(map(str, sorted(failed)))} did not prune first as asked: another one is asked"
        )
        return replace(setup, passed_over=frozenset(failed))


def read_left_out(folder: Path) -> dict[int, str]:
    """Return who is left out of the run in a folder, and why."""
    path = folder / FILE
    try:
        return {int(client): str(why) for client, why in json.loads(path.read_text()).items()}
    except FileNotFoundError:
        return {}
    except (ValueError, AttributeError) as error:
        raise PruneFLError(f"{path}: not a list of clients ({error})") from None
