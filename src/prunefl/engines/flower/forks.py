"""Processes that are forks of one with Flower loaded: milliseconds instead of seconds."""

import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn


def die_with_parent() -> None:
    """Ask the kernel (Linux) to end this process when its parent is gone, however that died."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def end_with(function: Callable[[], None]) -> NoReturn:
    """Run a forked process's whole work and end it, without what its parent has planned for its own end."""
    code = 1
    try:
        function()
        code = 0
    except SystemExit as exit:
        code = exit.code if isinstance(exit.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class ForkExecutor:
    """Runs a ServerApp in a fork of this process, which has Flower loaded: milliseconds instead of seconds."""

    def get_eligible_capacity(self, task_types: set[Any], **_: Any) -> tuple[set[Any], set[str]]:
        """Return that any task can start at once."""
        return task_types, set()

    def launch(self, spec: Any) -> Any:
        """Start the task and return without waiting for it."""
        from flwr.supercore.superexec.executor.types import LaunchResult

        sys.stdout.flush()
        if os.fork() == 0:
            run_task(spec)
        return LaunchResult.accepted()

    def reconcile(self) -> None:
        """Collect the tasks that have ended."""
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass

    def wait_for_capacity(self, *_: Any, **__: Any) -> None:
        """There is always room."""

    def close(self) -> None:
        """Nothing is held."""


def run_task(spec: Any) -> NoReturn:
    """Do one task in a forked process and end it."""
    die_with_parent()
    roots = [] if spec.insecure else ["--root-certificates", str(spec.root_certificates_path)]
    insecure = ["--insecure"] if spec.insecure else []
    sys.argv = [str(spec.task_type), "--runtime-api-address", spec.runtime_api_address, *insecure, *roots]
    sys.argv += ["--token", spec.token, "--parent-pid", str(os.getppid())]
    from flwr.superlink.cli import flwr_serverapp

    end_with(flwr_serverapp)
