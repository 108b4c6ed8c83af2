"""Word vectors from word2vec, GloVe and fastText for the static encoder: text files, and word2vec's binary format.

In a text file, each line is a word and its numbers, separated by spaces. Files of word2vec and fastText begin with a
line that contains the numbers of words and dimensions; after it, a binary file has a word, a space and float32 numbers
for each word. Read only. V words, D dimensions.
"""

import gzip
import itertools
import re
from array import array
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config.bert_config import BertConfig
from bert_tf.errors import UserError
from bert_tf.runtime import files
from bert_tf.runtime.settings import MAX_WHOLE
from bert_tf.text.characters import basic_tokenize
from bert_tf.text.corpus_files import NOT_WHOLE
from bert_tf.text.vocabulary import SPECIAL_TOKENS

EXTENSIONS = (".txt", ".vec", ".bin")
HEADER = re.compile(rb"\s*(\d{1,12})\s+(\d{1,6})\s*")
UNKNOWN = ("[UNK]", "<unk>", "<UNK>", "unk", "UNK")  # names for the vector of unknown words
LONGEST_LINE, LONGEST_WORD = 1 << 20, 1 << 12  # bytes
LONGEST_TEXT = 8192  # tokens; only limits a sequence, since the encoder has no positions
SNIFFED = 512  # bytes after the header, read to distinguish text from binary

Row = tuple[int, bytes, np.ndarray]  # line or word number, word, float32 [D]


def recognizes(path: str) -> bool:
    """Returns whether a path is a file that starts with a header, or with a word and numbers."""
    name = path.removesuffix(".gz")
    if not (name.endswith(EXTENSIONS) and files.is_file(path)):
        return False
    try:
        with _opened(path) as file:
            line = file.readline(LONGEST_LINE)
    except (OSError, UserError, *NOT_WHOLE):
        return False
    return HEADER.fullmatch(line) is not None or _width(line) > 1


def read(path: str) -> Checkpoint:
    """Reads words and vectors one at a time; needs no more memory than the vectors.

    The tokens are the five special ones and the words that a text can contain: phrases and other words that a tokenizer
    splits are skipped; for repeated words the first counts. A file without capital letters is uncased. The vector
    of unknown words comes from the file, or is the mean of all; other special tokens have zeros.

    Raises:
        UserError: a line is damaged, or the machine has too little memory.
    """
    with _opened(path) as file:
        try:
            tokens, table, left_out = _table(_rows(file, path), path)
        except NOT_WHOLE as error:
            raise UserError(f"{path} is not a whole .gz file ({error}): fetch it again.") from None
    if left_out:
        print(f"{left_out:,} of the words in {path} are skipped: no text has them as one word.", flush=True)
    return Checkpoint(
        config=_config(*table.shape),
        weights={"encoder/embeddings/token_table": table},
        vocabulary=tokens,
        lower_case=all(token == token.lower() for token in tokens[len(SPECIAL_TOKENS) :]),
    )


def _config(size: int, width: int) -> BertConfig:
    return BertConfig(
        encoder="static",
        vocab_size=size,
        hidden_size=width,
        num_hidden_layers=0,
        num_attention_heads=1,
        intermediate_size=width,
        max_position_embeddings=LONGEST_TEXT,
        type_vocab_size=1,
    )


def _opened(path: str) -> Any:
    """Opens a file, possibly compressed, for reading bytes."""
    file = files.open_binary(path)
    return gzip.GzipFile(fileobj=file) if path.endswith(".gz") else file


def _table(rows: Iterable[Row], path: str) -> tuple[list[str], np.ndarray, int]:
    """Tokens, their vectors float32 [V, D], and the number of skipped words."""
    tokens, flat, known, left_out = list(SPECIAL_TOKENS), array("f"), set(SPECIAL_TOKENS), 0
    unknown: np.ndarray | None = None
    for number, raw, vector in rows:
        try:
            word = raw.decode("utf-8")
        except UnicodeDecodeError:
            raise _damaged(path, number, f"begins with {raw[:20]!r}, which is not UTF-8") from None
        flat = flat or array("f", bytes(len(tokens) * vector.nbytes))
        if unknown is None and word in UNKNOWN:
            unknown = vector
        if word in known or not _is_word(word):
            left_out += word not in SPECIAL_TOKENS
            continue
        known.add(word)
        tokens.append(word)
        flat.frombytes(vector.tobytes())
    if len(tokens) == len(SPECIAL_TOKENS):
        raise UserError(f"{path} has no word that a text can contain; expected a word and its numbers on each line.")
    table = np.frombuffer(flat, np.float32).reshape(len(tokens), -1)
    table[tokens.index("[UNK]")] = table[len(SPECIAL_TOKENS) :].mean(0) if unknown is None else unknown
    return tokens, table, left_out


def _is_word(word: str) -> bool:
    """Returns whether a tokenizer treats it as one word, not as a continuation of another."""
    return basic_tokenize(word, lower_case=False) == [word] and not (word.startswith("##") and len(word) > 2)


def _rows(file: Any, path: str) -> Iterator[Row]:
    """The rows of a file in any layout; UserError if their number differs from the header."""
    first = file.readline(LONGEST_LINE)
    header = HEADER.fullmatch(first)
    if header is None:
        _check_room(files.size(path) // max(len(first), 1), _width(first))
        yield from _text_rows(itertools.chain([first], _lines(file)), path, _width(first), first_number=1)
        return
    count, width = int(header[1]), int(header[2])
    if not count or not width:
        raise UserError(f"The first line of {path} promises {count} words of {width} numbers: fetch it again.")
    _check_room(count, width)
    if _is_text(file.peek(SNIFFED)[:SNIFFED]):
        rows = _text_rows(_lines(file), path, width, first_number=2)
    else:
        rows = _binary_rows(file, path, count, width)
    found = 0
    for row in rows:
        found += 1
        yield row
    if found != count:
        raise UserError(f"{path} has {found:,} words; its first line promises {count:,}: fetch it again.")


def _check_room(count: int, width: int) -> None:
    if width:
        _config(min(count + len(SPECIAL_TOKENS), MAX_WHOLE), width).check_room_for_weights()


def _lines(file: Any) -> Iterator[bytes]:
    return iter(lambda: file.readline(LONGEST_LINE), b"")


def _is_text(start: bytes) -> bool:
    """Returns whether the data after a header is text: UTF-8 without control characters; its end may be cut off."""
    text = start.decode("utf-8", "replace")
    return not any(character < " " and character not in "\t\r\n" for character in text) and "\ufffd" not in text[:-4]


def _width(line: bytes) -> int:
    """Number of numbers after the first field of a line, a word; 0 if the line has another form."""
    fields = line.split()[1:]
    try:
        return len([float(field) for field in fields])
    except ValueError:
        return 0


def _text_rows(lines: Iterable[bytes], path: str, width: int, *, first_number: int) -> Iterator[Row]:
    for number, line in enumerate(lines, first_number):
        fields = line.rstrip().rsplit(b" ", width)  # a word may contain spaces
        if len(fields) <= width:
            if not line.strip():
                continue
            raise _damaged(path, number, f"has {len(fields) - 1} numbers after a word; expected {width}")
        try:
            numbers = [float(field) for field in fields[1:]]
        except ValueError:
            raise _damaged(path, number, f"has something other than numbers after {fields[0][:20]!r}") from None
        with np.errstate(over="ignore"):  # infinity, which is refused
            vector = np.array(numbers, np.float32)
        if not np.isfinite(vector).all():
            raise _damaged(path, number, "has a number that is not finite")
        yield number, fields[0], vector


def _binary_rows(file: Any, path: str, count: int, width: int) -> Iterator[Row]:
    for number in range(1, count + 1):
        word = bytearray()
        while (character := file.read(1)) not in (b" ", b"") and len(word) < LONGEST_WORD:
            word += character
        data = file.read(4 * width)
        if character != b" " or len(data) < 4 * width:
            raise _damaged(path, number, "is cut short", unit="Word")
        vector = np.frombuffer(data, "<f4").astype(np.float32)
        if not np.isfinite(vector).all():
            raise _damaged(path, number, "has a number that is not finite", unit="Word")
        yield number, bytes(word).lstrip(b"\n"), vector


def _damaged(path: str, number: int, problem: str, *, unit: str = "Line") -> UserError:
    return UserError(f"{unit} {number:,} of {path} {problem}: fetch the file again, or correct it.")
