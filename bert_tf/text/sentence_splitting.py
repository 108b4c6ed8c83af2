"""How text lies in a file: sentences, paragraphs or hard-wrapped lines; and from there to sentences.

No TensorFlow here. Text comes as (piece, ends) pairs: a piece of a line, and whether the line ends with it. What comes
out is a stream of sentences with None where a document ends.
"""

import re

import sentencex

PIECE = 16384  # characters handed on at once, and the longest sentence; bounds memory in a file without line ends
SENTENCE_END = re.compile(r"""[.!?…:;。！？；：]["'”’»)\]）」』*_]*$""")
CHINESE = re.compile("[\u3400-\u9fff\uf900-\ufaff]")
JAPANESE = re.compile("[\u3040-\u30ff]")
CJK_SHARE = 0.3  # Chinese news with much Latin text still has above 0.6, English about Chinese below 0.05

# A hard-wrapped file: no line above WRAP_WIDTH, lines about equally long, many of them ending inside a sentence.
# Of the novels that are wrapped the median line has 0.83 or more of the 95th percentile; sentences a line have 0.3-0.5.
WRAP_WIDTH = 120
WRAP_EVENNESS = 0.75
WRAP_OPEN_LINES = 0.3
LINES_PER_RUN = 1.5  # below: blank lines part paragraphs, not documents
SENTENCES_PER_LINE = 1.5  # below: one sentence a line (1.2 in the original's sample, 3.9 and more in paragraphs)


def language_of(sample):
    """Tells "zh" or "ja" where at least CJK_SHARE of the signs are Chinese (with kana: Japanese), else "en"."""
    if sample.isascii():
        return "en"
    size = len(sample) - sample.count(" ") - sample.count("\n")
    kana = len(JAPANESE.findall(sample))
    if len(CHINESE.findall(sample)) + kana < CJK_SHARE * max(1, size):
        return "en"
    return "ja" if kana > 0.1 * size else "zh"


def layout_of(sample, language="en"):
    """Decides how a text file is laid out from its beginning: "sentences", "paragraphs", "wrapped" or "files".

    In this order: lines of about the same, modest length that end inside sentences are "wrapped"; a file of one line,
    or with a blank line after nearly every line, is one document ("files"); lines of fewer than SENTENCES_PER_LINE
    sentences are "sentences"; else "paragraphs". In the last two, a blank line ends a document.
    """
    lines = [line.strip() for line in sample.split("\n")]
    if len(lines) > 2:
        lines = lines[:-1]  # the sample may have cut it
    filled = [line for line in lines if line]
    if _is_wrapped(lines):
        return "wrapped"
    runs = sum(1 for before, line in zip(["", *lines], lines, strict=False) if line and not before)
    if len(filled) < 2 or len(filled) / runs < LINES_PER_RUN and runs > 2:
        return "files"
    sentences = sum(len(split(line, language)) for line in filled)
    return "sentences" if sentences / len(filled) < SENTENCES_PER_LINE else "paragraphs"


def _is_wrapped(lines):
    filled = [line for line in lines if line]
    if len(filled) < 3:
        return False
    lengths = sorted(map(len, filled))
    wide = lengths[len(lengths) * 95 // 100]
    inner = [line for line, after in zip(lines, lines[1:], strict=False) if line and after]  # a line of text follows
    still_open = sum(not SENTENCE_END.search(line) for line in inner)
    even = sum(len(line) >= WRAP_EVENNESS * wide for line in inner)
    return (
        wide <= WRAP_WIDTH
        and len(inner) > 1
        and even >= 0.5 * len(inner)
        and still_open >= WRAP_OPEN_LINES * len(inner)
    )


def split(text, language="en"):
    """One paragraph -> its sentences, stripped, none empty."""
    return [sentence for part in sentencex.segment(language, text) if (sentence := part.strip())]


def sentences_of(pieces, *, layout, language="en"):
    """(text, ends) pairs of one file -> its sentences, with None where a document ends before the end of the file."""
    if layout == "sentences":
        return _lines_as_sentences(pieces)
    if layout == "wrapped":
        return _split_paragraphs(_unwrapped(pieces, "" if language in ("zh", "ja") else " "), language, parts=False)
    return _split_paragraphs(pieces, language, parts=layout == "paragraphs")


def _lines_as_sentences(pieces):
    line_is_new = True
    for text, ends in pieces:
        if text := text.strip():
            yield text
        elif line_is_new:
            yield None
        line_is_new = ends


def _unwrapped(pieces, space):
    """Joins the lines of a paragraph: only the blank line after it ends it."""
    line_is_new = True
    for text, ends in pieces:
        if stripped := text.strip():
            yield (stripped + space if ends else text), False
        elif line_is_new:
            yield "", True
        line_is_new = ends
    yield "", True


def _split_paragraphs(pieces, language, *, parts):
    """Splits paragraphs (pieces up to one that ends) into sentences; with `parts`, an empty one ends a document."""
    open_text, paragraph_is_empty = "", True
    for text, ends in pieces:
        open_text += text
        paragraph_is_empty = paragraph_is_empty and not text.strip()
        if ends:
            yield from split(open_text, language)
            if parts and paragraph_is_empty:
                yield None
            open_text, paragraph_is_empty = "", True
        elif len(open_text) >= PIECE:
            *whole, last = split(open_text, language) or [""]
            yield from whole
            if len(last) >= PIECE // 2:  # no end in sight: what there is must do
                yield last
                last = ""
            space = " " if last and open_text[-1].isspace() else ""
            open_text = last + space
