"""Input patterns to documents: files, folders and globs of text become lists of sentences, one document at a time.

No TensorFlow here. A *document* is a list of sentences (str); a *source* is one input file and how it is to be read.
Nothing is read whole: a line of a gigabyte passes in pieces, a document above MAX_DOCUMENT characters is cut at the
end of a sentence into several. How a text file is laid out is decided by `bert_tf.text.sentence_splitting`.
"""

import dataclasses
import glob
import gzip
import hashlib
import json
import os
import zlib
from pathlib import Path

from bert_tf.errors import UserError
from bert_tf.text.sentence_splitting import PIECE, language_of, layout_of, sentences_of

MAX_DOCUMENT = 1_000_000  # characters; keeps memory bounded whatever the files hold
MAX_JSON_LINE = 64 * 1024 * 1024  # characters; json needs its line whole
SAMPLE = 65536  # characters from which the layout and the language of a file are decided
LAYOUTS = ("auto", "sentences", "paragraphs", "wrapped", "files")
ENDINGS = (".txt", ".txt.gz", ".jsonl", ".jsonl.gz")
GZIP_RATIO = 3  # text under gzip, roughly; only an estimate of the work


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """One input file and how it is read; `layout` is never "auto"."""

    path: str
    layout: str
    language: str
    text_field: str = "text"


def find_sources(input_file, *, text_layout="auto", language="auto", text_field="text"):
    """Comma-separated globs, files and folders (recursive) -> list of Source in a fixed order, each file once.

    text_layout: "sentences" (one a line, blank line between documents: the original's), "paragraphs" (one a line, blank
    line between documents), "wrapped" (hard-wrapped lines, blank line between paragraphs, the file is the document),
    "files" (the file is the document, each line a paragraph, blank lines mean nothing), or "auto": decided per file.
    language: for splitting sentences, as `sentencex` names it ("en", "de"), or "auto": "zh" or "ja" where the
    characters say so, else "en". text_field: the field of .jsonl files, where one line is one document.
    Raises UserError for a pattern that matches nothing, an ending that is not supported, and a file that is not text.
    """
    if text_layout not in LAYOUTS:
        raise UserError(f"text_layout={text_layout} was given; use one of {', '.join(LAYOUTS)}.")
    patterns = [pattern.strip() for pattern in str(input_file).split(",") if pattern.strip()]
    if not patterns:
        raise UserError("No input was given; give files, folders or globs of .txt, .txt.gz or .jsonl, with commas.")
    paths = dict.fromkeys(path for pattern in patterns for path in _matches(pattern))
    return [_inspect(path, text_layout=text_layout, language=language, text_field=text_field) for path in paths]


def read_documents(source):
    """Source -> its documents (lists of sentences) one after the other; raises UserError where the file is not text."""
    if _is_json(source.path):
        sentences = _json_sentences(source)
    else:
        sentences = sentences_of(_line_pieces(source.path), layout=source.layout, language=source.language)
    return documents_of(sentences)


def documents_of(sentences):
    """A stream of sentences with None at the end of each document -> documents, none empty, none above MAX_DOCUMENT."""
    document, size = [], 0
    for sentence in sentences:
        if sentence is not None:
            document.append(sentence)
            size += len(sentence)
        if document and (sentence is None or size >= MAX_DOCUMENT):
            yield document
            document, size = [], 0
    if document:
        yield document


def text_size(source):
    """Bytes of text in the file: exact for plain files, an estimate for .gz."""
    return os.path.getsize(source.path) * (GZIP_RATIO if source.path.endswith(".gz") else 1)


def fingerprint(source):
    """A short string that changes when the file's name, size, first or last 64 KB or its way of being read change."""
    size = os.path.getsize(source.path)
    digest = hashlib.blake2b(digest_size=8)
    with open(source.path, "rb") as file:
        digest.update(file.read(65536))
        file.seek(max(0, size - 65536))
        digest.update(file.read(65536))
    field = f" {source.text_field}" if _is_json(source.path) else ""
    return f"{os.path.basename(source.path)} {size} {digest.hexdigest()} {source.layout} {source.language}{field}"


def _matches(pattern):
    """One pattern -> sorted paths; hidden files and folders are passed over, as a shell does."""
    if os.path.isdir(pattern):
        found = sorted(str(path) for path in Path(pattern).rglob("*") if path.is_file())
        found = [path for path in found if not _is_hidden(os.path.relpath(path, pattern))]
    elif os.path.isfile(pattern):
        if not pattern.endswith(ENDINGS):
            raise UserError(f"{pattern} has an ending that is not supported; give {', '.join(ENDINGS)} files.")
        return [pattern]
    else:
        found = sorted(path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path))
    if not found and not os.path.isdir(pattern):
        raise UserError(f"No file matches {pattern}; give existing files, folders or globs, with commas between them.")
    supported = [path for path in found if path.endswith(ENDINGS)]
    if not supported:
        raise UserError(f"{pattern} holds no {', '.join(ENDINGS)} file ({len(found)} files of other kinds).")
    return supported


def _is_hidden(relative_path):
    return any(part.startswith(".") for part in Path(relative_path).parts)


def _is_json(path):
    return path.endswith((".jsonl", ".jsonl.gz"))


def _inspect(path, *, text_layout, language, text_field):
    """Looks at the beginning of a file and settles its layout and language."""
    with _reading(path) as file:
        sample = file.read(SAMPLE)
    if _is_json(path):
        first = sample.split("\n", 1)[0]
        try:
            sample = str(json.loads(first).get(text_field, ""))
        except (ValueError, AttributeError):
            sample = first  # cut off or wrong: reading will tell which
    language = language_of(sample) if language == "auto" else language
    if _is_json(path):
        layout = "files" if text_layout == "auto" else text_layout
    else:
        layout = layout_of(sample, language) if text_layout == "auto" else text_layout
    return Source(path=path, layout=layout, language=language, text_field=text_field)


class _reading:
    """Opens a text file (gzip by its ending) and turns every way of not being text into a UserError."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        opener = gzip.open if self.path.endswith(".gz") else open
        try:
            self.file = opener(self.path, "rt", encoding="utf-8-sig")  # drops a BOM; all line ends become \n
        except OSError as error:
            raise UserError(f"{self.path} cannot be read: {error.strerror or error}.") from error
        return self.file

    def __exit__(self, kind, error, trace):
        self.file.close()
        if isinstance(error, UnicodeDecodeError):
            raise UserError(_not_text(self.path)) from None
        if isinstance(error, gzip.BadGzipFile | EOFError | zlib.error):
            raise UserError(f"{self.path} is not a whole gzip file ({error}); write it again.") from None


def _not_text(path):
    """The sentence about a file that is not UTF-8 text: where the first wrong byte is."""
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as file:
        start, rest = 0, b""
        while block := file.read(1 << 20):
            block = rest + block
            if start == 0 and block[:2] in (b"\xff\xfe", b"\xfe\xff"):
                return f"{path} is UTF-16, not UTF-8 text; convert it, for example with iconv -f UTF-16 -t UTF-8."
            zero = block.find(b"\0")
            try:
                used = len(block.decode("utf-8", errors="strict"))
                wrong, rest = len(block), b""
            except UnicodeDecodeError as error:
                wrong, used = error.start, len(block) - error.start
                cut_off = used < 4 and "unexpected end" in error.reason
                rest = block[error.start :] if cut_off else b""
                wrong = len(block) if cut_off else wrong
            if 0 <= zero < wrong:
                return f"{path} is not text: byte {start + zero} is NUL; give UTF-8 text files."
            if wrong < len(block):
                return f"{path} is not UTF-8: byte {start + wrong} is 0x{block[wrong]:02x}; convert it to UTF-8."
            start += len(block) - len(rest)
    return f"{path} is not UTF-8: byte {start} begins a character that is cut off; convert it to UTF-8."


def _line_pieces(path):
    """A text file -> (text, ends) in order: its lines, a long one in pieces of which only the last has `ends` true."""
    with _reading(path) as file:
        while text := file.readline(PIECE):
            if "\0" in text:
                raise UserError(_not_text(path))
            ends = text.endswith("\n")
            yield (text[:-1] if ends else text), ends
        yield "", True  # closes a last line without a line end


def _json_sentences(source):
    """A .jsonl file -> sentences of its documents, None after each."""
    with _reading(source.path) as file:
        number = 0
        while line := file.readline(MAX_JSON_LINE):
            number += 1
            if len(line) == MAX_JSON_LINE:
                raise UserError(f"{source.path} line {number} is longer than {MAX_JSON_LINE >> 20} MB; split it up.")
            if not line.strip():
                continue
            text = _json_text(line, number, source)
            pieces = ((piece, True) for piece in text.split("\n"))
            for sentence in sentences_of(pieces, layout=source.layout, language=source.language):
                if sentence is not None:
                    yield sentence
            yield None


def _json_text(line, number, source):
    """The text of one line of a .jsonl file; raises UserError with the line number."""
    try:
        record = json.loads(line)
    except ValueError as error:
        raise UserError(f"{source.path} line {number} is not JSON ({error}); give one JSON object a line.") from None
    text = record.get(source.text_field) if isinstance(record, dict) else None
    if not isinstance(text, str):
        fields = ", ".join(record) if isinstance(record, dict) else f"none, it is a {type(record).__name__}"
        raise UserError(
            f'{source.path} line {number} has no text in the field "{source.text_field}" (its fields: {fields}); '
            "name the field with --text_field."
        )
    return text.encode("utf-8", "ignore").decode()  # escaped halves of surrogates are no characters
