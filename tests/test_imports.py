"""Who may import whom, room by room, and what `import prunefl` may cost."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

import prunefl

ROOT = Path(prunefl.__file__).parent

ROOMS = [
    "system",
    "config",
    "core",
    "wire",
    "privacy",
    "data",
    "models",
    "devices",
    "local",
    "methods",
    "rounds",
    "engines",
    "runs",
    "export",
    "measure",
    "report",
    "dashboard",
    "experiments",
    "commands",
]
"""Each may import from those before it, and from itself."""

HOMES = {
    "flwr": ("engines/flower",),
    "matplotlib": ("report",),
    "jinja2": ("report",),
    "typer": ("commands",),
    "click": ("commands",),
    "rich": ("commands",),
    "PIL": ("data",),
    "pyarrow": ("data",),
    "cryptography": ("engines/flower", "privacy"),
    "shamirs": ("privacy",),
    "httpx": ("engines/flower",),
    "fastapi": ("dashboard",),
    "uvicorn": ("dashboard", "engines/flower"),
    "prometheus_client": ("dashboard",),
    "dp_accounting": ("rounds/accounting.py",),
    "torch": (
        "local/torch_backend",
        "models",
        "export",
        "measure",
        "runs",
        "data/photos.py",
        "methods/synflow.py",
    ),
}
"""Package -> where it may be imported."""


LENT = {"google": "flwr's messages", "starlette": "flwr's server", "pandas": "named where it is missing"}
"""Packages of no dependency of ours -> why they are imported all the same."""


def imports(path: Path) -> Iterator[str]:
    """Yield what a file imports, dotted, anywhere in it, but for what it needs for types alone."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "prunefl":
            yield from (f"prunefl.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert not node.level, f"{path}: a relative import"
            yield node.module


def files() -> dict[str, Path]:
    return {path.relative_to(ROOT).as_posix(): path for path in sorted(ROOT.rglob("*.py"))}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_from_those_before_it(room: str) -> None:
    own = {name: path for name, path in files().items() if name.startswith(f"{room}/")}
    assert own, f"there is no room {room}"
    for name, path in own.items():
        for dotted in imports(path):
            parts = dotted.split(".")
            if parts[0] == "prunefl" and len(parts) > 1 and not parts[1].startswith("_"):
                assert parts[1] in ROOMS[: ROOMS.index(room) + 1], f"{name} imports {dotted}"


def test_every_module_is_in_a_room() -> None:
    outside = {name for name in files() if "/" not in name}
    assert outside == {"__init__.py", "__main__.py"}
    assert {name.split("/")[0] for name in files()} - outside == set(ROOMS)


@pytest.mark.parametrize("package", HOMES)
def test_a_package_has_one_home(package: str) -> None:
    users = [
        name
        for name, path in files().items()
        if package in {dotted.split(".")[0] for dotted in imports(path)}
    ]
    assert users, f"nobody imports {package}"
    strangers = [name for name in users if not name.startswith(HOMES[package])]
    assert not strangers


def test_every_package_that_is_imported_is_a_dependency_of_our_own() -> None:
    """What only another package brings is gone with a later version of that one, as click with typer 0.26."""
    told = [re.match(r"[\w.-]+", line) for line in metadata.requires("prunefl") or []]
    declared = {match[0].replace("-", "_").lower() for match in told if match}
    brought_by = metadata.packages_distributions()
    used = {dotted.split(".")[0] for path in files().values() for dotted in imports(path)}
    outside = used - sys.stdlib_module_names - {"prunefl"}
    ours = {
        name
        for name in outside
        if declared & {d.replace("-", "_").lower() for d in brought_by.get(name, [name])}
    }
    assert outside - ours == set(LENT)


def run_python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


def test_import_prunefl_loads_nothing_heavy() -> None:
    done = run_python(
        "import sys, prunefl\n"
        "print({'torch', 'numpy', 'flwr', 'matplotlib', 'typer', 'rich', 'jinja2'} & set(sys.modules))"
    )
    assert done.stdout.strip() == "set()", done.stderr


def test_help_does_not_wait_for_torch() -> None:
    done = run_python(
        "import sys; sys.argv = ['prunefl', 'run', '--help']\n"
        "from prunefl.commands.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('torch' in sys.modules)"
    )
    assert done.stdout.strip().endswith("False"), done.stderr
