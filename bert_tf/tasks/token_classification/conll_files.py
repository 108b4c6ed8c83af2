"""Files in CoNLL columns: a word and its tag per line, a blank line after each sentence. Free of TensorFlow.

-DOCSTART- lines separate documents. Columns are separated by tabs if the first line of a word has one, else by spaces.
A line that begins with # in front of a sentence is a comment, as in CoNLL-U, unless it has the columns of a word. A
line of U+FEFF alone, as in WNUT17, is blank.
"""

import dataclasses
import itertools
import string
from collections.abc import Sequence

from bert_tf.data import text_lines
from bert_tf.errors import UserError
from bert_tf.runtime import atomic_files
from bert_tf.tasks.token_classification import tag_schemes
from bert_tf.text.characters import is_cjk

DOCUMENT, COMMENT = "-DOCSTART-", "#"


@dataclasses.dataclass(frozen=True, slots=True)
class Sentence:
    """The words of a sentence, their tags as the file writes them (None for words only), and where they are.

    document: the number of its document. line: the line number of its first word, from 1; words have one line each.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...] | None
    document: int
    line: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnLayout:
    """What the columns of a file are.

    word_column, tag_column: from 1; -1 is the last. A file of one column has words only. scheme: "auto" or one of
    tag_schemes.SCHEMES. position_digits: every word ends in a digit that is no part of it (Weibo NER writes 科0 技1).
    """

    word_column: int = 1
    tag_column: int = -1
    scheme: str = "auto"
    position_digits: bool = False

    def __post_init__(self) -> None:
        for name in ("word_column", "tag_column"):
            if not getattr(self, name):
                raise UserError(f"{name} is 0; expected 1 for the first column, or -1 for the last.")


class ConllFile:
    """The sentences of a file.

    Attributes:
        sentences: list of Sentence.
        scheme: the scheme of their tags, None for a file without tags.
        exceptions: (sentence, word) of the few tags that this scheme would not write.
        has_documents: whether the file marks documents; otherwise it is one.

    Raises UserError, with the line number, for a word with more or fewer columns than the first one, for invalid tags,
    for tags of different schemes, for words without a digit under position_digits, for a carriage return within a line;
    and for a file without words.
    """

    def __init__(self, path: str, layout: ColumnLayout) -> None:
        self.path = path
        rows = [(number, line) for number, line in enumerate(text_lines.read(path), 1)]
        self._lines = rows
        self.sentences: list[Sentence] = []
        self.has_documents = any(line.startswith(DOCUMENT) for _, line in rows)
        self._layout, self.separator, document = layout, " ", 0
        self._expected: tuple[int, int] | None = None  # line and number of columns of the first word
        for is_word, group in itertools.groupby(rows, lambda row: _is_word(row[1])):
            lines = list(group)
            if not is_word:
                document += sum(line.startswith(DOCUMENT) for _, line in lines)
                continue
            if self._expected is None:
                number, line = next((row for row in lines if not row[1].startswith(COMMENT)), lines[0])
                self.separator = "\t" if "\t" in line else " "
                self._expected = number, len(_fields(line, self.separator))
                self._check_columns(*self._expected)
            if lines := list(itertools.dropwhile(self._is_comment, lines)):
                self.sentences.append(self._sentence(lines, document, *self._expected))
        if not self.sentences:
            raise UserError(f"{path} holds no words; expected a word and its tag a line.")
        self.scheme: str | None = None
        self.exceptions: list[tag_schemes.Position] = []
        if self.sentences[0].tags:
            self.scheme, self.exceptions = self._detect_scheme(layout.scheme)

    def _is_comment(self, row: tuple[int, str]) -> bool:
        """Whether a line in front of a sentence is no word."""
        columns = self._expected[1] if self._expected else 0
        return row[1].startswith(COMMENT) and len(_fields(row[1], self.separator)) != columns

    def _check_columns(self, number: int, count: int) -> None:
        layout = self._layout
        for name in ("word_column", "tag_column"):
            column = getattr(layout, name)
            if abs(column) > count and not (count == 1 and name == "tag_column"):
                raise UserError(f"{name} is {column}, but line {number} of {self.path} has {count} columns.")
        if count > 1 and layout.word_column % (count + 1) == layout.tag_column % (count + 1):
            raise UserError(
                f"word_column {layout.word_column} and tag_column {layout.tag_column} are the same of the {count} "
                f"columns of {self.path}: give both."
            )

    def _sentence(self, lines: list[tuple[int, str]], document: int, first_line: int, columns: int) -> Sentence:
        words, tags = [], []
        for number, line in lines:
            fields = _fields(line, self.separator)
            if "\r" in line.rstrip("\r\n"):
                raise UserError(f"Line {number} of {self.path} has a carriage return within: use Unix line endings.")
            if len(fields) != columns:
                raise UserError(
                    f"Line {number} of {self.path} has {len(fields)} columns ({line.strip()[:40]!r}); expected "
                    f"{columns}, as in line {first_line}."
                )
            words.append(self._word(fields, number))
            tags += [_column(fields, self._layout.tag_column)] if len(fields) > 1 else []
        return Sentence(tuple(words), tuple(tags) if tags else None, document, lines[0][0])

    def _word(self, fields: list[str], number: int) -> str:
        word = _column(fields, self._layout.word_column)
        if not self._layout.position_digits:
            return word
        if not word[-1:].isdigit():
            raise UserError(
                f"In line {number} of {self.path} the word is {word!r}, without a digit at its end: leave out "
                "position_digits."
            )
        return word[:-1]

    def _detect_scheme(self, scheme: str) -> tuple[str, list[tag_schemes.Position]]:
        if scheme != "plain":
            self._check_tags()
        if scheme != "auto":
            return scheme, []
        try:
            return tag_schemes.detect_scheme(sentence.tags or () for sentence in self.sentences)
        except tag_schemes.MixedSchemesError as error:
            examples = " and ".join(map(self._tag_with_line, error.positions))
            raise UserError(
                f"{self.path} mixes schemes: it {error}, as {examples}. Correct it, or give its scheme as tag_scheme."
            ) from None

    def _check_tags(self) -> None:
        for sentence in self.sentences:
            for position, tag in enumerate(sentence.tags or ()):
                if tag_schemes.parse_tag(tag) is None:
                    raise UserError(
                        f"The tag {tag!r} in line {sentence.line + position} of {self.path} is none of IOB1, IOB2 or "
                        "BIOES; expected O, or B-, I-, E- or S- and a type. Tags that stand for themselves need "
                        "tag_scheme=plain."
                    )

    def _tag_with_line(self, position: tag_schemes.Position) -> str:
        sentence, word = self.sentences[position[0]], position[1]
        return f"{(sentence.tags or ())[word]} in line {sentence.line + word}"

    def warnings(self) -> list[str]:
        """Sentences on tags that differ from the scheme."""
        if not self.exceptions:
            return []
        return [
            f"{len(self.exceptions):,} tags of {self.path} are not {str(self.scheme).upper()}, the first is "
            f"{self._tag_with_line(self.exceptions[0])}: read as conlleval reads them."
        ]

    def write(self, path: str, tags: Sequence[Sequence[str]]) -> None:
        """Writes the file with one more column, `tags` of each sentence, atomically.

        Documents and blank lines stay. Where there are tags for the first sentences only, only those are written.
        """
        tag_of_line = {
            sentence.line + position: tag
            for sentence, sentence_tags in zip(self.sentences, tags, strict=False)
            for position, tag in enumerate(sentence_tags)
        }
        last = max(tag_of_line, default=0) if len(tags) < len(self.sentences) else len(self._lines)
        lines = []
        for number, line in self._lines[:last]:
            line = line.rstrip("\r\n")
            tag = tag_of_line.get(number, tag_schemes.OUTSIDE if line.startswith(DOCUMENT) else None)
            lines.append(f"{line}\n" if tag is None else f"{line}{self.separator}{tag}\n")
        atomic_files.write_lines(path, lines)


def _is_word(line: str) -> bool:
    return bool(line.strip(string.whitespace + "\ufeff")) and not line.startswith(DOCUMENT)


def _fields(line: str, separator: str) -> list[str]:
    """Every tab separates fields, which are stripped of spaces; consecutive spaces count as one separator."""
    line = line.rstrip("\r\n")
    if separator == "\t":
        return [field.strip(" ") for field in line.split("\t")]
    return [field for field in line.split(" ") if field]


def _column(fields: list[str], column: int) -> str:
    return fields[column - 1 if column > 0 else column]


def join_words(words: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """A sentence's text, and the span of each word in it: (text, [(start, end)]) in characters.

    Words are joined by a space, but not ideographs, kana and their punctuation.

    join_words(["我", "。", "I"])[0]  ->  "我。 I"
    """
    text = ""
    spans: list[tuple[int, int]] = []
    for word in words:
        if spans and not (word and text and _is_unspaced(text[-1]) and _is_unspaced(word[0])):
            text += " "
        spans.append((len(text), len(text) + len(word)))
        text += word
    return text, spans


def _is_unspaced(character: str) -> bool:
    """Whether a character is of a script that puts no space between words."""
    return is_cjk(character) or "\u3000" <= character <= "\u30ff" or "\uff00" <= character <= "\uffef"
