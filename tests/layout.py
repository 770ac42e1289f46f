"""What is wrong with a page as it is drawn: text over text, text cut off, a page too wide, faint letters."""

from pathlib import Path

from browser import Page

FAULTS = Path(__file__).with_name("layout.js").read_text(encoding="utf-8")


def find_faults(page: Page, least_texts: int = 20) -> list[str]:
    """Return what is wrong, in words; a page with hardly any text is wrong, too."""
    count, faults = page.run(FAULTS)
    return faults + ([f"only {count} pieces of text"] if count < least_texts else [])
