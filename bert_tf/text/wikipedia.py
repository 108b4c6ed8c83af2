"""Cleans articles as wikiextractor writes them: <doc ...> elements, or JSON lines with "title" and "text".

No TensorFlow here. Dropped: the title repeated as the first line, headings, tags and empty brackets from templates, and
articles without a sentence (redirects, lists reduced to headings).
"""

import html
import re
from collections.abc import Iterable, Iterator

TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
EMPTY_BRACKETS = re.compile(r" ?\(\s*[,;]*\s*\)")
TITLE = re.compile(r'\btitle="([^"]*)"')
HEADING_WORDS = 8  # a line of at most this many words without a sentence end is a heading or a list item
SENTENCE_END = re.compile(r"""[.!?…。！？]["'”’»)\]）」』]*$""")


def is_extracted(sample: str) -> bool:
    """Returns whether a file begins with an article in a <doc ...> element."""
    return sample.lstrip().startswith("<doc ")


def articles(lines: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Lines of <doc ...> elements -> the title and the lines of each article."""
    title = ""
    content: list[str] = []
    for line in lines:
        stripped = line.strip()
        if stripped.startswith("<doc "):
            match = TITLE.search(stripped)
            title, content = html.unescape(match[1]) if match else "", []
        elif stripped == "</doc>":
            yield title, content
            content = []
        else:
            content.append(line)


def clean(title: str, lines: Iterable[str]) -> list[str]:
    """The paragraphs of an article."""
    paragraphs = []
    for number, line in enumerate(line for line in lines if line.strip()):
        text = EMPTY_BRACKETS.sub("", TAG.sub("", html.unescape(line).replace("\xa0", " "))).strip()
        is_title = number == 0 and text == title
        is_heading = len(text.split()) <= HEADING_WORDS and not SENTENCE_END.search(text)
        if text and not is_title and not is_heading:
            paragraphs.append(text)
    return paragraphs
