"""Files in CoNLL's columns: a word and its tag a line, a blank line behind each sentence. Free of TensorFlow.

-DOCSTART- lines part documents. Columns are parted by tabs if the first line of a word has one, else by spaces.
"""

import dataclasses
import itertools

from bert_tf.data import tables
from bert_tf.errors import UserError
from bert_tf.runtime import atomic_files
from bert_tf.tasks.token_classification import tag_schemes
from bert_tf.text.characters import is_cjk

DOCUMENT = "-DOCSTART-"


@dataclasses.dataclass(frozen=True, slots=True)
class Sentence:
    """Its words, their tags as the file writes them (None: it has none), and where they stand.

    document: the number of its document. line: the number of its first word's line, from 1; words have one each.
    """

    words: tuple
    tags: tuple | None
    document: int
    line: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """Where things are in a file.

    word_column, tag_column: from 1; -1 is the last. A file of one column has words only. scheme: "auto" or one of
    tag_schemes.SCHEMES. position_digits: every word ends in a digit that is no part of it (Weibo NER writes 科0 技1).
    """

    word_column: int = 1
    tag_column: int = -1
    scheme: str = "auto"
    position_digits: bool = False

    def __post_init__(self):
        for name in ("word_column", "tag_column"):
            if not getattr(self, name):
                raise UserError(f"{name} is 0; expected 1 for the first column, or -1 for the last.")


class Tagged:
    """The sentences of a file: `sentences`, a list of Sentence, and the `scheme` of their tags (None: no tags).

    slips: the (sentence, word) of the few tags that this scheme would not write. has_documents: whether it says where
    documents begin; else it is one.

    Raises UserError, with the line, for a word with more or fewer columns than the first one, for what is no tag, for
    tags of different schemes, for words without a digit where digits were promised, for a carriage return that ends no
    line; and for a file without words.
    """

    def __init__(self, path, layout):
        self.path = path
        rows = [(number, line) for number, line in enumerate(tables.read_lines(path), 1)]
        self._lines, self.sentences = rows, []
        self.has_documents = any(line.startswith(DOCUMENT) for _, line in rows)
        expected, separator, document = None, None, 0
        for is_word, lines in itertools.groupby(rows, lambda row: _is_word(row[1])):
            lines = list(lines)
            if not is_word:
                document += sum(line.startswith(DOCUMENT) for _, line in lines)
                continue
            if expected is None:
                separator = "\t" if "\t" in lines[0][1] else " "
                expected = lines[0][0], len(_fields(lines[0][1], separator))
                self._check_columns(layout, expected)
            self.sentences.append(self._sentence(lines, separator, expected, layout, document))
        if not self.sentences:
            raise UserError(f"{path} holds no words; expected a word and its tag a line.")
        self.separator = separator
        self.scheme, self.slips = self._scheme(layout.scheme) if self.sentences[0].tags else (None, [])

    def _check_columns(self, layout, expected):
        number, count = expected
        for name in ("word_column", "tag_column"):
            column = getattr(layout, name)
            if abs(column) > count and not (count == 1 and name == "tag_column"):
                raise UserError(f"{name} is {column}, but line {number} of {self.path} has {count} columns.")
        if count > 1 and layout.word_column % (count + 1) == layout.tag_column % (count + 1):
            raise UserError(
                f"word_column {layout.word_column} and tag_column {layout.tag_column} are the same of the {count} "
                f"columns of {self.path}: say where both are."
            )

    def _sentence(self, lines, separator, expected, layout, document):
        words, tags = [], []
        for number, line in lines:
            fields = _fields(line, separator)
            if "\r" in line.rstrip("\r\n"):
                raise UserError(f"Line {number} of {self.path} has a carriage return within: end lines as Unix does.")
            if len(fields) != expected[1]:
                raise UserError(
                    f"Line {number} of {self.path} has {len(fields)} columns ({line.strip()[:40]!r}); expected "
                    f"{expected[1]}, as line {expected[0]} has."
                )
            words.append(self._word(fields, layout, number))
            tags += [_at(fields, layout.tag_column)] if len(fields) > 1 else []
        return Sentence(tuple(words), tuple(tags) if tags else None, document, lines[0][0])

    def _word(self, fields, layout, number):
        word = _at(fields, layout.word_column)
        if not layout.position_digits:
            return word
        if not word[-1:].isdigit():
            raise UserError(
                f"In line {number} of {self.path} the word is {word!r}, without a digit at its end: leave out "
                "position_digits."
            )
        return word[:-1]

    def _scheme(self, wanted):
        for sentence in [] if wanted == "plain" else self.sentences:
            for place, tag in enumerate(sentence.tags):
                if tag_schemes.parsed(tag) is None:
                    raise UserError(
                        f"The tag {tag!r} in line {sentence.line + place} of {self.path} is none of IOB1, IOB2 or "
                        "BIOES; expected O, or B-, I-, E- or S- and a type. Tags that stand for themselves need "
                        "tag_scheme=plain."
                    )
        if wanted != "auto":
            return wanted, []
        try:
            return tag_schemes.detected(sentence.tags for sentence in self.sentences)
        except tag_schemes.Mixed as error:
            told = " and ".join(map(self._told, error.places))
            raise UserError(
                f"{self.path} mixes schemes: it {error}, as {told}. Mend it, or say how to read it as tag_scheme."
            ) from None

    def _told(self, place):
        sentence, word = self.sentences[place[0]], place[1]
        return f"{sentence.tags[word]} in line {sentence.line + word}"

    def warnings(self):
        """Sentences on tags that are not as the others."""
        if not self.slips:
            return []
        return [
            f"{len(self.slips):,} tags of {self.path} are not {self.scheme.upper()}, the first is "
            f"{self._told(self.slips[0])}: read as conlleval reads them."
        ]

    def write(self, path, tags):
        """Writes the file again with one more column, `tags` of each sentence; it appears whole or not at all.

        Documents and blank lines stay. Only the first sentences are written if there are tags for no more.
        """
        wanted = {
            sentence.line + place: tag
            for sentence, own in zip(self.sentences, tags, strict=False)
            for place, tag in enumerate(own)
        }
        last = max(wanted, default=0) if len(tags) < len(self.sentences) else len(self._lines)
        lines = []
        for number, line in self._lines[:last]:
            line = line.rstrip("\r\n")
            tag = wanted.get(number, tag_schemes.OUTSIDE if line.startswith(DOCUMENT) else None)
            lines.append(f"{line}\n" if tag is None else f"{line}{self.separator}{tag}\n")
        atomic_files.write_lines(path, lines)


def _is_word(line):
    return bool(line.strip()) and not line.startswith(DOCUMENT)


def _fields(line, separator):
    """Tabs part fields one by one, spaces beside them are no part of these; of spaces several count as one."""
    line = line.rstrip("\r\n")
    if separator == "\t":
        return [field.strip(" ") for field in line.split("\t")]
    return [field for field in line.split(" ") if field]


def _at(fields, column):
    return fields[column - 1 if column > 0 else column]


def joined(words):
    """A sentence's text, and where each word stands in it: (text, [(start, end)]) in characters.

    Words are parted by a space, but not ideographs, kana and their punctuation: joined(["我", "。", "I"]) -> "我。 I"
    """
    text, places = "", []
    for word in words:
        if places and not (word and text and _is_unspaced(text[-1]) and _is_unspaced(word[0])):
            text += " "
        places.append((len(text), len(text) + len(word)))
        text += word
    return text, places


def _is_unspaced(character):
    """Whether a character is of a script that puts no space between words."""
    return is_cjk(character) or "\u3000" <= character <= "\u30ff" or "\uff00" <= character <= "\uffef"
