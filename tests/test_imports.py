"""Who may import whom, and what `import prunefl` may cost."""

import ast
import subprocess
import sys
from pathlib import Path

import prunefl

ROOT = Path(prunefl.__file__).parent
LAYERS = [
    "settings config version cores threads messages masks randomness losses importance prunable greedy "
    "reconfigure time_model refit time_json flops schedule devices clock own _coding _kernels _greedy",
    "sparse wire aggregate models data packing",
    "trainer asks initial client",
    "pruners",
    "charges replies observed server",
    "loop records round_record checkpoint artifact evaluate simulator runner training flower report compare loggers "
    "export profile bench",
    "commands",
    "cli",
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names.split()}


def imported(path):
    """Yield the prunefl modules that a file imports, but for those it needs for types alone."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "prunefl":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("prunefl."):
            yield node.module.split(".")[1]


def test_imports_go_one_way():
    wrong, seen = [], 0
    for path in ROOT.rglob("*.py"):
        own = path.relative_to(ROOT).parts[0].removesuffix(".py")
        for name in imported(path):
            if own != "__init__" and name in RANK:
                seen += 1
                if RANK[name] > RANK[own]:
                    wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert seen > 100
    assert not wrong


def test_every_module_has_its_place():
    names = {
        path.name.removesuffix(".py") for path in ROOT.iterdir() if path.suffix == ".py" or path.is_dir()
    }
    assert not {name for name in names if not name.startswith("_")} - RANK.keys() - {"presets"}


def test_import_prunefl_loads_nothing_heavy():
    program = (
        "import sys, prunefl; heavy = {'torch', 'flwr', 'matplotlib', 'typer', 'rich', 'jinja2'} & set(sys.modules); "
        "sys.exit(', '.join(heavy) or 0)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_help_does_not_wait_for_torch():
    program = (
        "import sys; sys.argv = ['prunefl', 'run', '--help']\n"
        "from prunefl.commands.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
