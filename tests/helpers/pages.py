"""Code on the pages of docs/, which tests run."""

import pathlib
import re

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


def blocks(page, language):
    """The code blocks of a language on a page of docs/."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def code(page):
    """The only block of Python on a page."""
    (block,) = blocks(page, "python")
    return block
