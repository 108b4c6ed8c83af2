"""The default corpus: the prose of the Python language manual, which every CPython carries (`pydoc_data.topics`).

No TensorFlow here. One topic is one document. The topics are plain text made by Sphinx: paragraphs parted by blank
lines, between them code, grammar productions, tables and headings, which are no prose and are dropped. Some topics
repeat others (the chapter on compound statements holds "if"): each sentence is kept once, in the longest topic that
has it, so that a held-out document is not training text.
"""

import re

from bert_tf.text.sentence_splitting import split

HEADING_LINE = re.compile(r"^\s*([*=\-^~\"#+])\1{2,}\s*$")
BULLET = re.compile(r"^\s*(?:[*\-+•]|\d+\.|\[\d+\])\s+")
MARKUP = re.compile(r"\*\*?|``?|(?<=\s)\[\d+\]|\s+\[\d+\](?=[.,;:]?(?:\s|$))")
NOT_PROSE = re.compile(r"::=|>>>|^\s*\.\. |^\s*\||\+--|=====|-----|\S   +\S", re.MULTILINE)
ENDS = (".", "!", "?", ":", ";", '."', ".'", ".)", "?)", ".”", ":)")
MIN_WORDS, MIN_LETTERS = 4, 0.78  # of a sentence; code has more signs and fewer letters


def python_manual(topics=None):
    """Yields the documents (lists of sentences), one per topic of the manual with prose of its own, by name.

    topics: {name: text}; by default those of the running Python (3.10 to 3.13 were looked at: 79 topics each).
    """
    for paragraphs in _paragraphs(topics).values():
        if paragraphs:
            yield [sentence for paragraph in paragraphs for sentence in paragraph]


def passages(topics=None, *, words=40):
    """Yields (topic, text) of passages of whole paragraphs of one topic, by name and in order; no text twice.

    A passage ends with the paragraph in which it comes to so many words; what is left at the end of a topic goes into
    its last passage. topics: as for `python_manual`.
    """
    for name, paragraphs in _paragraphs(topics).items():
        found = [[]]
        for paragraph in paragraphs:
            if len(" ".join(found[-1]).split()) >= words:
                found.append([])
            found[-1] += paragraph
        if len(found) > 1 and len(" ".join(found[-1]).split()) < words:
            found[-2:] = [found[-2] + found[-1]]
        for sentences in found:
            if sentences:
                yield name, " ".join(sentences)


def _paragraphs(topics):
    """{topic: its paragraphs of prose, lists of sentences}, by name; each sentence in the longest topic that has it."""
    if topics is None:
        from pydoc_data.topics import topics  # half a megabyte: only when wanted
    seen, documents = set(), {}
    for name in sorted(topics, key=lambda name: (-len(topics[name]), name)):
        documents[name] = []
        for block in _blocks(topics[name]):
            paragraph = [sentence for sentence in dict.fromkeys(_prose(block)) if sentence not in seen]
            seen.update(paragraph)
            documents[name] += [paragraph] * bool(paragraph)
    return {name: documents[name] for name in sorted(documents)}


def _blocks(text):
    """The paragraphs of a topic as lists of lines; each item of a list begins a new one."""
    block = []
    for line in [*text.split("\n"), ""]:
        if block and (not line.strip() or BULLET.match(line)):
            yield block
            block = []
        if line.strip():
            block.append(line)


def _prose(block):
    """The sentences of a paragraph, none if it is no prose."""
    if any(HEADING_LINE.match(line) for line in block) or NOT_PROSE.search("\n".join(block)):
        return []
    text = " ".join(BULLET.sub("", line).strip() for line in block[:1]) + " "
    text = MARKUP.sub("", text + " ".join(line.strip() for line in block[1:])).strip()
    return [sentence for sentence in split(text) if _is_prose(sentence)]


def _is_prose(sentence):
    letters = sum(character.isalpha() or character == " " for character in sentence)
    words = [word for word in sentence.split() if word.strip("\"'(),.;:").isalpha()]
    return (
        sentence.endswith(ENDS)
        and (sentence[0].isupper() or sentence[0] in "\"'“(")
        and len(words) >= MIN_WORDS
        and letters >= MIN_LETTERS * len(sentence)
    )
