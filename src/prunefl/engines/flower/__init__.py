"""The same rounds across machines: Flower carries the messages. Importing this loads no Flower, no torch."""

from collections.abc import Callable
from importlib.util import find_spec

from prunefl.system.errors import PruneFLError

Say = Callable[[str], None]
"""Where to tell the user, a line at a time, what happens."""


def require_flower() -> None:
    """Raise ValueError, in one line, unless the extra `flower` is installed."""
    missing = [name for name in ("flwr", "cryptography") if find_spec(name) is None]
    if missing:
        raise PruneFLError(
            f"{' and '.join(missing)} not installed; install it with: pip install 'prunefl[flower]'"
        )
