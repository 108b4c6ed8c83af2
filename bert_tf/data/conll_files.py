"""Words and their tags in files: CoNLL columns, or tables of sentences. Free of TensorFlow.

In CoNLL columns, each line has a word and its tag, and a blank line follows each sentence.

-DOCSTART- lines separate documents. Columns are separated by tabs if the first line of a word has one, else by spaces.
A line that begins with # before a sentence is a comment, as in CoNLL-U, unless it has the columns of a word. A
line with only U+FEFF, as in WNUT17, is blank.

In a table, a row has the lists "tokens" or "words", and "ner_tags" or "tags"; or a word, its tag and the number of its
sentence, required for the first word only.
"""

import copy
import dataclasses
import itertools
import string
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from bert_tf.data import tables, tag_notations, tag_schemes, text_lines
from bert_tf.errors import UserError, listed
from bert_tf.runtime import atomic_files

DOCUMENT, COMMENT = "-DOCSTART-", "#"
FLAT = (".csv", ".tsv", ".xlsx")  # tables without list columns; .tsv only with a header
TABLES = (".jsonl", ".json", ".parquet", ".csv", ".xlsx")
WORDS, TAGS = ("tokens", "words"), ("ner_tags", "tags", "labels", "pos_tags", "chunk_tags")  # list columns
# Columns of a table with one word per row, in lower case; the first one that exists is used.
SENTENCES = ("sentence #", "sentence", "sentence_id", "sent_id")
COLUMNS = SENTENCES, ("word", "token", "words", "tokens"), ("tag", "ner", "label", "ner_tags", "tags", "labels")


@dataclasses.dataclass(frozen=True, slots=True)
class Sentence:
    """The words of a sentence, their tags (None for words only), and where they are.

    document: the number of its document. line: the line number of its first word, from 1, with one line per word; in a
    table, the number of the row.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...] | None
    document: int
    line: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnLayout:
    """The columns of a file.

    word_column, tag_column: from 1; -1 is the last. A file with one column has words only. scheme: "auto" or one of
    tag_schemes.SCHEMES. position_digits: whether words end in a digit that is not part of them (Weibo NER: 科0 技1).
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
        sentences: list of Sentence, with tags in the notation of `tag_schemes`.
        scheme: the scheme of the tags, None for a file without tags.
        notation: the notation of the tags in the file.
        exceptions: (sentence, word) of the few tags that do not fit the scheme.
        has_documents: whether the file marks documents; otherwise it is one.

    Raises UserError, with the line number, for a word with more or fewer columns than the first one, for invalid tags,
    for tags of different schemes, for words without a digit under position_digits, for a carriage return within a line;
    and for a file without words.
    """

    def __init__(self, path: str, layout: ColumnLayout) -> None:
        self.path, self._layout, self.separator = path, layout, " "
        self._lines: list[tuple[int, str]] = []
        self.is_table = path.lower().endswith(TABLES) or _has_header(path)
        self.sentences: list[Sentence] = []
        self.has_documents = False
        self._expected: tuple[int, int] | None = None  # line and number of columns of the first word
        self._read_table() if self.is_table else self._read_columns()
        if not self.sentences:
            raise UserError(f"{path} contains no words; expected a word and its tag per line.")
        self.notation = tag_notations.STANDARD
        self.scheme: str | None = None
        self.exceptions: list[tag_schemes.Position] = []
        if self.sentences[0].tags:
            self.scheme, self.exceptions = self._detect_scheme(layout.scheme)

    def _read_columns(self) -> None:
        rows = self._lines = list(enumerate(text_lines.read(self.path), 1))
        self.has_documents = any(line.startswith(DOCUMENT) for _, line in rows)
        document = 0
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

    def _read_table(self) -> None:
        has_tags = None
        for place, row in sentences(tables.read(self.path), self.path):
            number = int(place.split()[1])
            words = next((row[name] for name in WORDS if name in row), None)
            tags = next((row[name] for name in TAGS if name in row), None)
            if not _are_texts(words):
                raise UserError(f"In {place} there is no list of words; expected one in {' or '.join(WORDS)}.")
            if tags is not None and not (_are_texts(tags) and len(tags) == len(words)):
                raise UserError(
                    f"In {place} the tags are {str(tags)[:60]}; expected a list of names, one for each of the "
                    f"{len(words)} words."
                )
            if has_tags is None:
                has_tags = tags is not None
            if has_tags != (tags is not None):
                raise UserError(f"In {place} there are {'no ' * has_tags}tags, unlike in the rows before it.")
            if words:
                self.sentences.append(Sentence(tuple(words), None if tags is None else tuple(tags), 0, number))

    def place(self, sentence: Sentence, position: int = 0) -> str:
        """Location of a word: "line 5 of train.txt"."""
        return (
            f"row {sentence.line} of {self.path}"
            if self.is_table
            else f"line {sentence.line + position} of {self.path}"
        )

    def _is_comment(self, row: tuple[int, str]) -> bool:
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
                f"columns of {self.path}: pass both."
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
                f"In line {number} of {self.path} the word is {word!r}, without a digit at its end: remove "
                "position_digits."
            )
        return word[:-1]

    def _detect_scheme(self, scheme: str) -> tuple[str, list[tag_schemes.Position]]:
        if scheme == "plain":
            return scheme, []
        self._read_notation()
        if scheme != "auto":
            return scheme, []
        try:
            return tag_schemes.detect_scheme(sentence.tags or () for sentence in self.sentences)
        except tag_schemes.MixedSchemesError as error:
            examples = " and ".join(map(self._tag_with_place, error.positions))
            raise UserError(
                f"{self.path} mixes schemes: it {error}, such as {examples}. Correct it, or pass its scheme as "
                "tag_scheme."
            ) from None

    def _read_notation(self) -> None:
        """Converts the tags to the notation of `tag_schemes`."""
        try:
            self.notation = tag_notations.detect(tag for sentence in self.sentences for tag in sentence.tags or ())
        except tag_notations.UnknownTagError as error:
            sentence = next(sentence for sentence in self.sentences if error.tag in (sentence.tags or ()))
            position = (sentence.tags or ()).index(error.tag)
            raise UserError(
                f"The tag {error.tag!r} in {self.place(sentence, position)} does not fit IOB1, IOB2, BIOES, BMES or "
                "BILOU, or the scheme of the tags before it; expected O, or a letter and a type, such as B-PER. Tags "
                "that stand for themselves need tag_scheme=plain."
            ) from None
        standard = {tag: self.notation.standard(tag) or tag for s in self.sentences for tag in s.tags or ()}
        self.sentences = [
            dataclasses.replace(sentence, tags=tuple(standard[tag] for tag in sentence.tags or ()))
            for sentence in self.sentences
        ]

    def _tag_with_place(self, position: tag_schemes.Position) -> str:
        sentence, word = self.sentences[position[0]], position[1]
        place = self.place(sentence, word).removesuffix(f" of {self.path}")
        return f"{self.notation.written((sentence.tags or ())[word])} in {place}"

    def warnings(self) -> list[str]:
        """Warnings about tags that do not fit the scheme."""
        if not self.exceptions:
            return []
        scheme = self.notation.name_of(str(self.scheme))
        return [
            f"{len(self.exceptions):,} tags of {self.path} are not {scheme}, the first is "
            f"{self._tag_with_place(self.exceptions[0])}: read as conlleval reads them."
        ]

    def part(self, numbers: Sequence[int]) -> "ConllFile":
        """The file with only some sentences, by number from 0."""
        part, places = copy.copy(self), {number: place for place, number in enumerate(numbers)}
        part.sentences = [self.sentences[number] for number in numbers]
        part.exceptions = [(places[number], word) for number, word in self.exceptions if number in places]
        return part

    def write(self, path: str, tags: Sequence[Sequence[str]]) -> None:
        """Writes the file atomically with one more column, `tags` of each sentence in the file's notation.

        Documents and blank lines stay. If there are tags for the first sentences only, only these are written. A table
        becomes tab-separated columns.
        """
        if self.scheme != "plain" and self.scheme is not None:
            tags = [list(map(self.notation.written, row)) for row in tags]
        if self.is_table:
            atomic_files.write_lines(path, self._rows_with(tags))
            return
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

    def _rows_with(self, tags: Sequence[Sequence[str]]) -> Iterator[str]:
        """Lines with a word, its tag if any, and one of `tags`, with a blank line after each sentence."""
        for sentence, predicted in zip(self.sentences, tags, strict=False):
            own = [self.notation.written(tag) if self.scheme != "plain" else tag for tag in sentence.tags or ()]
            columns = [[" ".join(word.split()) for word in sentence.words], *([own] if own else []), predicted]
            yield from ("\t".join(row) + "\n" for row in zip(*columns, strict=True))
            yield "\n"


def _has_header(path: str) -> bool:
    """Returns whether a .tsv file names its columns."""
    if not path.lower().endswith(".tsv"):
        return False
    header = next(text_lines.read(path), "").rstrip("\r\n").lower().split("\t")
    return all(any(name in header for name in names) for names in COLUMNS[:2])


def are_tagged(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Returns whether the rows of a table have tagged words, see `tag_columns`, at least one tagged O."""
    columns = list(map(tag_columns, rows))
    if not rows or not all(columns[0] == each and len(each) == 2 + (not _has_lists(rows[0])) for each in columns):
        return False
    tags = [row[columns[0][-1]] for row in rows]
    if not _has_lists(rows[0]):
        return tag_schemes.OUTSIDE in tags
    return all(map(_are_texts, tags)) and any(tag_schemes.OUTSIDE in each for each in tags)


def tag_columns(row: Mapping[str, Any]) -> list[str]:
    """The existing columns with lists of words and tags, or with a sentence, a word and its tag."""
    lower = {name.lower(): name for name in reversed(list(row))}
    named = (WORDS, TAGS) if _has_lists(row) else COLUMNS
    return [lower[name] for name in (next((name for name in names if name in lower), "") for names in named) if name]


def _has_lists(row: Mapping[str, Any]) -> bool:
    """Returns whether a row's words are a list, or it has no column with a single word."""
    words = [row[name] for name in WORDS if name in row]
    return any(isinstance(each, list) for each in words) or not any(name.lower() in SENTENCES for name in row)


def sentences(rows: tables.Rows, path: str) -> tables.Rows:
    """The rows of a table, one sentence with lists per row; joins rows with one word each."""
    first = next(rows)
    rows = itertools.chain([first], rows)
    return rows if _has_lists(first[1]) and not path.lower().endswith(FLAT) else _sentences(rows, path)


def _sentences(rows: tables.Rows, path: str) -> tables.Rows:
    """Joins rows with one word to rows with one sentence, each with the place of its first word."""
    first, current = "", None
    sentence: dict[str, list[str]] = {}
    for place, row in rows:
        fields = {name.lower(): value for name, value in row.items()}
        found = [next((name for name in names if name in fields), "") for names in COLUMNS]
        number, word, tag = (fields.get(name) for name in found)
        if not (found[0] and found[1]):
            raise UserError(
                f"{path} needs the columns {SENTENCES[0]!r} and {COLUMNS[1][0]!r}, and {COLUMNS[2][0]!r} to train; its "
                f"columns: {listed(row)}."
            )
        if word is None or found[2] and tag is None:
            missing = "word" if word is None else "tag"
            raise UserError(f"In {place} there is no {missing}: correct or remove the row.")
        if not sentence or number not in (None, "", current):
            if sentence:
                yield first, sentence
            first, current = place, number
            sentence = {name: [] for name in (WORDS[0], *([TAGS[0]] if found[2] else []))}
        sentence[WORDS[0]].append(str(word))
        if found[2]:
            sentence[TAGS[0]].append(str(tag))
    if sentence:
        yield first, sentence


def _are_texts(values: Any) -> TypeGuard[list[str]]:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


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
