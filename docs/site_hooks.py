"""What mkdocs needs beyond the pages: the generated reference, and files of the repository that pages link to."""

import re
import sys
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))
from site_reference import PAGES  # noqa: E402 - its folder had to be named first

OUTSIDE = re.compile(r"\]\(\.\./([^)#]+)(#[^)]*)?\)")
"""A link from a page to a file of the repository that is no page."""

FOLDER = re.compile(r"\[([^]]*)\]\([\w-]+/\)")
"""A link to a folder beside the pages, which a site does not show."""


def on_config(config: Any) -> Any:
    """Put pages that mkdocs.yml does not name into the menu too, so that a new one is never lost."""
    listed = str(config.nav)
    missing = sorted(page.name for page in (ROOT / "docs").glob("*.md") if page.name not in listed)
    if missing:
        config.nav.append({"More": missing})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the reference, and a page for each file outside docs/ that a page links to."""
    for path, write in PAGES.items():
        files.append(File.generated(config, path, content=write()))
    for path in sorted(_linked()):
        files.append(_as_page(config, path))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links out of docs/ at the pages made of those files."""
    if page.file.src_uri.startswith("source/"):
        return markdown
    markdown = FOLDER.sub(r"\1", markdown)
    return OUTSIDE.sub(lambda found: f"](source/{found[1].rstrip('/')}.md)", markdown)


def _linked() -> set[str]:
    pages = (ROOT / "docs").glob("*.md")
    return {found[1].rstrip("/") for page in pages for found in OUTSIDE.finditer(page.read_text())}


def _as_page(config: Any, path: str) -> File:
    """Return a file of the repository as a page: Markdown without its links, anything else as a listing."""
    source = ROOT / path
    if source.is_dir():
        names = sorted(entry.name for entry in source.iterdir() if not entry.name.startswith(("_", ".")))
        text = f"# {path}\n\n" + "\n".join(f"- `{name}`" for name in names)
    elif source.suffix == ".md":
        text = re.sub(r"\[([^]]*)\]\((?!https?:)[^)]*\)", r"\1", source.read_text())
    else:
        kind = {".py": "python", ".toml": "toml", ".yaml": "yaml"}.get(source.suffix, "")
        text = f"# {path}\n\n```{kind}\n{source.read_text()}```\n"
    made = File.generated(config, str(PurePosixPath("source") / f"{path}.md"), content=text)
    # reached by links, not by the menu
    made.inclusion = type(made.inclusion).NOT_IN_NAV
    return made
