"""Run a module as a child that cannot outlive its parent: bound to it before anything slow is imported.

`python -m prunefl.engines.flower.child PARENT MODULE ARGS`, with the parent's process number.
"""

import os
import runpy
import sys

from prunefl.engines.flower.forks import die_with_parent
from prunefl.system.plugins import look_in_working_folder


def main() -> None:
    """Bind this process to its parent, unless that is gone already, and become the module."""
    parent, module = int(sys.argv.pop(1)), sys.argv.pop(1)
    die_with_parent()
    look_in_working_folder()
    # The parent may have died before the kernel was told.
    if os.getppid() == parent:
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
