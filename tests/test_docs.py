"""The documentation is true: its programs run, its commands and settings exist, its links lead somewhere."""

import ast
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from prunefl.commands.configs import preset_names, resolve
from prunefl.config import Config, FleetSettings, from_tables

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))
import site_reference  # noqa: E402

PAGES = sorted(
    path
    for folder in (ROOT, ROOT / "docs", ROOT / "examples", ROOT / "deploy")
    for path in (folder.rglob("*.md") if folder.name in ("examples", "deploy") else folder.glob("*.md"))
)
GENERATED = {ROOT / "docs" / path for path in site_reference.PAGES}
BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
SECTIONS = {section.name for section in fields(Config)}


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(path: Path, *kinds: str) -> list[str]:
    """Return the code blocks of these kinds in a page."""
    return [text for kind, text in BLOCK.findall(path.read_text()) if kind in kinds]


def settings() -> Iterator[str]:
    for section in fields(Config):
        table = FleetSettings() if section.name == "fleet" else section.default
        yield from (f"{section.name}.{entry.name}" for entry in fields(table))


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=named)
def test_the_python_of_a_page_runs_as_one_program(page: Path, tmp_path: Path) -> None:
    pytest.importorskip("mlxtend", reason="the demo extra is not installed")
    program = "\n".join(blocks(page, "python"))
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "toml")], ids=named)
def test_the_toml_of_a_page_is_a_config_or_at_least_toml(page: Path) -> None:
    for text in blocks(page, "toml"):
        tables = tomllib.loads(text)
        if set(tables) <= SECTIONS:
            from_tables(tables)


def command_lines(page: Path) -> Iterator[list[str]]:
    """Yield the words of every line in a page's code blocks that calls prunefl."""
    for text in blocks(page, "", "sh", "ini"):
        for line in text.replace("\\\n", " ").splitlines():
            if found := re.search(r"(?:^|\s|/)prunefl (?=[a-z-])[^#>|;]*", line):
                yield shlex.split(found[0].strip().lstrip("/"))


KNOWN = dict(site_reference.commands())


@pytest.mark.parametrize("page", [page for page in PAGES if any(command_lines(page))], ids=named)
def test_the_commands_of_a_page_exist_with_their_options_and_settings(page: Path) -> None:
    known_settings = set(settings())
    for words in command_lines(page):
        depth = max(size for size in (1, 2, 3) if " ".join(words[:size]) in KNOWN)
        assert depth > 1 or words[1].startswith("-"), f"{named(page)}: no such command: {' '.join(words)}"
        command = KNOWN[" ".join(words[:depth])]
        options = {
            spelling for option in command.params for spelling in (*option.opts, *option.secondary_opts)
        }
        for word in words[depth:]:
            name, _, _ = word.partition("=")
            if word.startswith("--"):
                assert name in options, f"{named(page)}: {word} in {' '.join(words)}"
            elif re.fullmatch(r"[a-z]+\.[a-z_]+", name) and "=" in word:
                assert name in known_settings, f"{named(page)}: {word} in {' '.join(words)}"


WITH_CONFIG = ("prunefl run", "prunefl config", "prunefl server", "prunefl compare")


def configs_of(page: Path) -> Iterator[list[str]]:
    """Yield the preset and the settings of every line that has some; a reader's own files cannot be read."""
    for words in command_lines(page):
        name = " ".join(words[:2])
        if name in WITH_CONFIG:
            # the library's own parser says which words are not options, nor theirs
            context = KNOWN[name].make_context(name, words[2:], resilient_parsing=True)
            # S and DIR stand for what a reader fills in
            rest = [word for word in context.params["arguments"] if not re.search(r"=[A-Z]+$", word)]
            if rest and (rest[0] in preset_names() or "=" in rest[0]):
                yield rest


@pytest.mark.parametrize("page", [page for page in PAGES if any(configs_of(page))], ids=named)
def test_the_settings_of_a_pages_commands_make_a_config(page: Path) -> None:
    for words in configs_of(page):
        resolve(words, None)


def test_the_commands_of_the_containers_exist() -> None:
    text = (ROOT / "deploy" / "compose.yaml").read_text()
    lines = re.findall(r"^  (server|client)[^:\n]*:\n(?:    .*\n)*?    command: \[(.*)\]", text, re.MULTILINE)
    assert [name for name, _ in lines] == ["server", "client", "client", "client"]
    for name, words in lines:
        options = {spelling for option in KNOWN[f"prunefl {name}"].params for spelling in option.opts}
        assert {word for word in words.split(", ") if word.startswith("--")} <= options


def test_torch_is_installed_in_the_range_that_was_tested() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (below,) = {entry.rpartition(",")[2] for entry in extras["full"] if entry.startswith("torch")}
    for place in ("docs/install.md", "deploy/Dockerfile", ".github/workflows/release.yml"):
        text = (ROOT / place).read_text()
        # without a bound the newest comes, and is replaced by one with CUDA when prunefl is installed
        assert text.count("download.pytorch.org") == text.count(f"'torch{below}'"), place


def anchors(path: Path) -> set[str]:
    """Return the anchors of a page's headings, as hosts of repositories and mkdocs make them."""
    text = BLOCK.sub("", path.read_text())
    found = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        plain = re.sub(r"[^\w\s-]", "", heading.lower()).strip()
        found.add(re.sub(r"\s", "-", plain))
        found.add(re.sub(r"[-\s]+", "-", plain))
    return found


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_no_link_of_a_page_is_dead(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", BLOCK.sub("", page.read_text())):
        if re.match(r"https?:|mailto:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists() or file in GENERATED, f"{target}: no such file"
        if anchor and file not in GENERATED:
            assert anchor in anchors(file), f"{target}: no such heading"


def test_every_setting_is_in_the_reference() -> None:
    page = site_reference.settings_page()
    missing = [path for path in settings() if f"| `{path}` |" not in page]
    assert not missing


def test_every_command_and_option_is_in_the_reference() -> None:
    page = site_reference.commands_page()
    for name, command in KNOWN.items():
        section = page.split(f"## `{name}` ", 1)[1].split("\n## ", 1)[0]
        for parameter in command.params:
            assert f"`{site_reference.spelling_of(parameter)}`" in section, f"{name} {parameter.name}"


def test_every_public_name_is_in_the_reference() -> None:
    page = site_reference.api_page()
    for module in site_reference.MODULES:
        for name in site_reference.public_names(module):
            assert f"`{module}.{name}`" in page


def programs() -> Iterator[tuple[str, str]]:
    """Yield what people copy from: the programs of pages, the examples and their notebooks."""
    yield from ((named(page), "\n".join(blocks(page, "python"))) for page in PAGES)
    yield from ((named(path), path.read_text()) for path in (ROOT / "examples").rglob("*.py"))
    for path in (ROOT / "examples").rglob("*.ipynb"):
        cells = json.loads(path.read_text())["cells"]
        yield named(path), "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def test_whatever_pages_and_examples_import_is_public() -> None:
    modules = site_reference.MODULES
    public = {f"{module}.{name}" for module in modules for name in site_reference.public_names(module)}
    for place, text in programs():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "prunefl":
                for name in node.names:
                    assert f"{node.module}.{name.name}" in public | modules.keys(), place


def test_every_target_of_make_is_explained() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(" ".join(re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)).split()) - {"help"}
    explained = set(re.findall(r'@echo "make (\S+)', makefile))
    assert targets == explained
