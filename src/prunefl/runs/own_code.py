"""A name for the code of the user's own that a run goes by: runs of other code are other runs, of any config."""

import ast
import hashlib
from collections.abc import Iterator
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from prunefl.config import Config
from prunefl.data.client_functions import NAME as FUNCTIONS
from prunefl.methods import ENTRY_POINTS, known
from prunefl.runs.records import read_header
from prunefl.system.errors import PruneFLError

NOT_OWN = ("site-packages", "dist-packages")
"""Folders of installed packages: what own code imports from there is no part of it."""


def own_specs(config: Config) -> list[str]:
    """Return what of method, network, data and loss is the user's own, each as package.module:function."""
    named = [config.run.method, config.model.name, config.data.name, config.training.loss]
    if config.data.name == FUNCTIONS:
        named.append(config.data.dir)
    if config.run.method not in known():
        named += [entry.value for entry in entry_points(group=ENTRY_POINTS, name=config.run.method)]
    return [name for name in named if ":" in name and not name.startswith("prunefl.")]


def digest_own_code(config: Config) -> str:
    """Return a name for the source of all own code and of what it imports of its own; "" where there is none."""
    files: dict[str, Path] = {}
    for spec in own_specs(config):
        module = spec.partition(":")[0]
        if (file := _file_of(module)) is not None:
            _add_imported(module, file, _home(module, file), files)
    if not files:
        return ""
    hasher = hashlib.blake2b(digest_size=8)
    for module, file in sorted(files.items()):
        hasher.update(f"{module}\0".encode() + file.read_bytes() + b"\0")
    return hasher.hexdigest()


def refuse_other_code(config: Config, folder: Path) -> None:
    """Refuse to go on with, or to reuse, a run that own code made which has changed since."""
    then = read_header(folder / "records.jsonl").get("own_code")
    if then is not None and then != digest_own_code(config):
        raise PruneFLError(
            f"{', '.join(own_specs(config))} has changed since the run in {folder}: give another --out, or "
            "delete that folder to run it anew"
        )


def _add_imported(module: str, file: Path, home: Path, files: dict[str, Path]) -> None:
    """Add a module and, in turn, what it imports that lies beside it or in its package."""
    if module in files:
        return
    files[module] = file
    for name in _imports(module, file):
        found = _file_of(name)
        # an installed package of the user's own is followed within itself alone
        within = name.partition(".")[0] == module.partition(".")[0]
        if found is not None and (within or (found.is_relative_to(home) and not _is_installed(found))):
            _add_imported(name, found, home, files)


def _is_installed(file: Path) -> bool:
    return any(part in NOT_OWN for part in file.parts)


def _home(module: str, file: Path) -> Path:
    """Return the folder in which a module's top-level package lies."""
    depth = module.count(".") + (file.name == "__init__.py")
    return file.parents[depth]


def _file_of(module: str) -> Path | None:
    """Return the source of a module; None where there is none to read."""
    try:
        spec = find_spec(module)
    # a package of the user's own may raise anything when it is loaded
    except Exception:
        return None
    origin = Path(spec.origin) if spec is not None and spec.origin else None
    return origin.resolve() if origin is not None and origin.suffix == ".py" and origin.is_file() else None


def _imports(module: str, file: Path) -> Iterator[str]:
    """Yield the modules that a file may import, dotted."""
    try:
        tree = ast.parse(file.read_bytes())
    except SyntaxError:
        return
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            # `from a import b` may mean the module a.b
            yield from (name for name in (base, *(f"{base}.{alias.name}" for alias in node.names)) if base)
