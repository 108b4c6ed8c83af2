"""Detects how text is laid out in a file (sentences, paragraphs, hard-wrapped lines) and splits it into sentences.

No TensorFlow here. Text arrives as (chunk, ends_line) pairs: part of a line, and whether the line ends with it. The
output is a stream of sentences with None at the end of a document.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from bert_tf.runtime.lazy import module

Layout = Literal["sentences", "paragraphs", "lines", "wrapped", "files"]
Chunk = tuple[str, bool]  # text, ends_line

sentencex = module("sentencex")
MAX_CHUNK = 16384  # characters read at once, and the longest sentence; bounds memory in a file without line ends
SENTENCE_END = re.compile(r"""[.!?…:;。！？；：]["'”’»)\]）」』*_]*$""")
CHINESE = re.compile("[\u3400-\u9fff\uf900-\ufaff]")
JAPANESE = re.compile("[\u3040-\u30ff]")
CJK_SHARE = 0.3  # Chinese news with much Latin text still has above 0.6, English about Chinese below 0.05

# A hard-wrapped file: no line above WRAP_WIDTH, lines of similar length, many of them ending inside a sentence.
# In wrapped novels the median line has 0.83 or more of the 95th percentile; with one sentence a line it is 0.3-0.5.
WRAP_WIDTH = 120
WRAP_EVENNESS = 0.75
WRAP_OPEN_LINES = 0.3
WRAP_BROKEN_LINES = 0.1  # before a line in lower case: 0.17 to 0.95 in wrapped text, else below 0.05
FENCED = re.compile(r"^ *(```|~~~).*?^ *\1", re.MULTILINE | re.DOTALL)  # code in Markdown
ITEM = re.compile(r"[-*+•] |\d{1,2}[.)] ")  # beginning of a list item
BLOCK = re.compile(r"#{1,6} |\||```|~~~")  # beginning of a heading or table row
LINES_PER_RUN = 1.5  # below: blank lines separate paragraphs, not documents
SENTENCES_PER_LINE = 1.5  # below: one sentence a line (1.2 in the original's sample, 3.9 and more in paragraphs)


def detect_language(sample: str) -> str:
    """Returns "zh" or "ja" if at least CJK_SHARE of the characters are Chinese (with kana: Japanese), else "en"."""
    if sample.isascii():
        return "en"
    size = len(sample) - sample.count(" ") - sample.count("\n")
    kana = len(JAPANESE.findall(sample))
    if len(CHINESE.findall(sample)) + kana < CJK_SHARE * max(1, size):
        return "en"
    return "ja" if kana > 0.1 * size else "zh"


def detect_layout(sample: str, language: str = "en") -> Layout:
    """Detects the layout of a text file from its beginning.

    In this order: lines of similar length that end inside sentences, and Markdown, are "wrapped"; a file of one line,
    or with a blank line after nearly every line, is one document ("files"); lines of fewer than
    SENTENCES_PER_LINE sentences are "sentences"; else "paragraphs", or "lines" if no line is blank. In "sentences" and
    "paragraphs" a blank line ends a document, in "lines" each line does.
    """
    lines = [line.strip() for line in FENCED.sub("", sample).split("\n")]
    if len(lines) > 2:
        lines = lines[:-1]  # the sample may end inside this line
    filled = [line for line in lines if line]
    if _is_wrapped(lines) or _breaks_sentences(lines):
        return "wrapped"
    runs = sum(1 for previous, line in zip(["", *lines], lines, strict=False) if line and not previous)
    if len(filled) < 2 or len(filled) / runs < LINES_PER_RUN and runs > 2:
        return "files"
    sentences = sum(len(split_sentences(line, language)) for line in filled)
    if sentences / len(filled) < SENTENCES_PER_LINE:
        return "sentences"
    return "paragraphs" if runs > 1 else "lines"


def _is_wrapped(lines: Sequence[str]) -> bool:
    filled = [line for line in lines if line]
    if len(filled) < 3:
        return False
    lengths = sorted(map(len, filled))
    width = lengths[len(lengths) * 95 // 100]
    inner = [line for line, following in zip(lines, lines[1:], strict=False) if line and following]
    open_lines = sum(not SENTENCE_END.search(line) for line in inner)
    full_lines = sum(len(line) >= WRAP_EVENNESS * width for line in inner)
    return (
        width <= WRAP_WIDTH
        and len(inner) > 1
        and full_lines >= 0.5 * len(inner)
        and open_lines >= WRAP_OPEN_LINES * len(inner)
    )


def _breaks_sentences(lines: Sequence[str]) -> bool:
    """Returns whether lines of some similar length end inside sentences, among tables, lists and headings."""
    first = [line[0] for previous, line in zip(["", *lines], lines, strict=False) if line and not previous]
    inner = [pair for pair in zip(lines, lines[1:], strict=False) if all(pair)]
    broken = sorted(len(line) for line, following in inner if following[0].islower() and not SENTENCE_END.search(line))
    if len(broken) < 3 or sum(map(str.islower, first)) > 0.5 * sum(map(str.isalpha, first)):
        return False  # or a text without capitals, which cannot be judged
    width = broken[len(broken) * 95 // 100]
    return len(broken) >= WRAP_BROKEN_LINES * len(inner) and broken[len(broken) // 2] >= WRAP_EVENNESS * width


def split_sentences(text: str, language: str = "en") -> list[str]:
    """Splits one paragraph into sentences, stripped, none empty."""
    return [sentence for part in sentencex.segment(language, text) if (sentence := part.strip())]


def iterate_sentences(chunks: Iterable[Chunk], *, layout: str, language: str = "en") -> Iterator[str | None]:
    """Yields the sentences of one file, and None if a document ends before the end of the file."""
    if layout == "sentences":
        return _lines_as_sentences(chunks)
    if layout == "wrapped":
        space = "" if language in ("zh", "ja") else " "
        return _split_paragraphs(_unwrap(chunks, space), language, layout)
    return _split_paragraphs(chunks, language, layout)


def _lines_as_sentences(chunks: Iterable[Chunk]) -> Iterator[str | None]:
    starts_line = True
    for text, ends_line in chunks:
        if text := text.strip():
            yield text
        elif starts_line:
            yield None
        starts_line = ends_line


def _unwrap(chunks: Iterable[Chunk], space: str) -> Iterator[Chunk]:
    """Joins the lines of each paragraph, which ends at a blank line, a list item or a heading.

    The first item of a list must follow the end of a sentence: other lines may begin with a number or a dash, too.
    """
    starts_line = may_begin = True
    is_list = False
    for text, ends_line in chunks:
        if stripped := text.strip():
            is_item = starts_line and (is_list or may_begin) and bool(ITEM.match(stripped))
            is_block = starts_line and bool(BLOCK.match(stripped))
            if is_item or is_block:
                yield "", True
            is_list = is_list or is_item
            may_begin = is_block or bool(SENTENCE_END.search(stripped))
            yield (stripped + space if ends_line else text), False
        elif starts_line:
            yield "", True
            may_begin, is_list = True, False
        starts_line = ends_line
    yield "", True


def _split_paragraphs(chunks: Iterable[Chunk], language: str, layout: str) -> Iterator[str | None]:
    """Splits paragraphs (chunks up to one that ends the line) into sentences."""
    open_text, is_blank = "", True
    for text, ends_line in chunks:
        open_text += text
        is_blank = is_blank and not text.strip()
        if ends_line:
            yield from split_sentences(open_text, language)
            if layout == "lines" or layout == "paragraphs" and is_blank:
                yield None
            open_text, is_blank = "", True
        elif len(open_text) >= MAX_CHUNK:
            *complete, last = split_sentences(open_text, language) or [""]
            yield from complete
            if len(last) >= MAX_CHUNK // 2:  # no sentence end in sight: cut it here
                yield last
                last = ""
            space = " " if last and open_text[-1].isspace() else ""
            open_text = last + space
