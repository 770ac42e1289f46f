"""Find what a user names in a config as `package.module:function`."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prunefl.system.errors import PruneFLError


def look_in_working_folder() -> None:
    """Let this process, a program, import from its working folder, after all else: a queue.py there is not Python's."""
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)


def program(module: str) -> tuple[str, ...]:
    """Return the command that runs a module of ours; -P: Python would look in the working folder first."""
    return sys.executable, "-P", "-m", module


def own_function(setting: str, spec: str) -> Callable[..., Any]:
    """Return the function that `package.module:function` names.

    Args:
        setting: the config key that holds the spec, for the error message.
    """
    module_name, _, function_name = spec.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (ImportError, ValueError, SyntaxError) as error:
        raise PruneFLError(f"{setting}={spec!r}, {module_name!r} cannot be imported: {error}") from error
    function: Callable[..., Any] | None = getattr(module, function_name, None)
    if not callable(function):
        where = f" ({module.__file__})" if getattr(module, "__file__", None) else ""
        raise PruneFLError(
            f"{setting}={spec!r}, module {module_name!r}{where} has no function {function_name!r}"
        )
    return function
