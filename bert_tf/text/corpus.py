"""Resolves input patterns (files, folders and globs of text) to sources with layout and language.

No TensorFlow here. A *document* is a list of sentences (str); a *source* is one input file, or a range of one, and how
to read it (`bert_tf.text.sources`). `bert_tf.text.documents` reads it, `bert_tf.text.sentence_splitting` detects the
layout of a text file, `bert_tf.text.corpus_files` opens it.
"""

import dataclasses
import os
import re

from bert_tf.errors import UserError
from bert_tf.runtime import files, json_files
from bert_tf.text import wikipedia
from bert_tf.text.corpus_files import open_text
from bert_tf.text.documents import parquet_texts
from bert_tf.text.sentence_splitting import detect_language, detect_layout
from bert_tf.text.sources import Source, is_json_name, kind_of

SAMPLE_SIZE = 65536  # characters used to detect a file's layout and language
LAYOUTS = ("auto", "sentences", "paragraphs", "lines", "wrapped", "files", "wikipedia")
EXTENSIONS = tuple(kind + end for kind in (".txt", ".jsonl") for end in ("", ".gz", ".bz2", ".zst")) + (".parquet",)
EXTRACTED = re.compile(r"wiki_\d+(\.(gz|bz2|zst))?")  # file names of wikiextractor


def find_sources(
    input_file: str | os.PathLike[str], *, text_layout: str = "auto", language: str = "auto", text_field: str = "text"
) -> list[Source]:
    """Resolves comma-separated globs, files and folders (recursive) to sources in a fixed order, each file once.

    Args:
        input_file: the patterns.
        text_layout: "sentences" (one per line, a blank line between documents: the original's), "paragraphs" (one per
            line, a blank line between documents), "lines" (each line is a document), "wrapped" (hard-wrapped lines, a
            blank line between paragraphs, the file is the document), "files" (the file is the document, each line is a
            paragraph, blank lines are ignored), "wikipedia" (articles as wikiextractor writes them, cleaned), or
            "auto": detected per file, but a single file is not one document: "paragraphs" replaces "files" for a single
            file, and "lines" for several.
        language: the language for sentence splitting as a `sentencex` code ("en", "de"), or "auto": "zh" or "ja"
            depending on the characters, else "en".
        text_field: the field in .jsonl files, where each line is a document, and the column in .parquet files.

    Raises:
        UserError: a pattern matches nothing, an extension is not supported, or a file is not text.
    """
    if text_layout not in LAYOUTS:
        raise UserError(f"text_layout={text_layout} is unknown; expected one of {', '.join(LAYOUTS)}.")
    patterns = [pattern.strip() for pattern in str(input_file).split(",") if pattern.strip()]
    if not patterns:
        raise UserError("There is no input; pass files, folders or globs of .txt, .jsonl or .parquet, with commas.")
    paths = dict.fromkeys(path for pattern in patterns for path in _matches(pattern))
    sources = [_inspect(path, text_layout=text_layout, language=language, text_field=text_field) for path in paths]
    divided = "files" if len(sources) == 1 else "lines"
    return [
        dataclasses.replace(source, layout="paragraphs")
        if text_layout == "auto" and kind_of(source) == divided
        else source
        for source in sources
    ]


def _matches(pattern: str) -> list[str]:
    """The sorted paths that match one pattern."""
    if files.is_file(pattern):
        if not _is_supported(pattern):
            raise UserError(f"{pattern} has an unsupported extension; pass {', '.join(EXTENSIONS)} files.")
        return [pattern]
    paths = _paths(pattern)
    if not paths and not files.is_folder(pattern):
        raise UserError(f"No file matches {pattern}; pass existing files, folders or globs, separated by commas.")
    supported = [path for path in paths if _is_supported(path)]
    if not supported:
        raise UserError(f"{pattern} contains no {', '.join(EXTENSIONS)} file ({len(paths)} files of other types).")
    return supported


def left_out(input_file: str | os.PathLike[str]) -> list[str]:
    """The paths in folders, and matches of globs, that `find_sources` skips because of their type."""
    patterns = [pattern.strip() for pattern in str(input_file).split(",") if pattern.strip()]
    return [path for pattern in patterns for path in _paths(pattern) if not _is_supported(path)]


def _paths(pattern: str) -> list[str]:
    """The paths of all files that match a pattern; skips hidden files in folders, as in a shell."""
    if files.is_folder(pattern):
        return [path for path in files.walk(pattern) if not _is_hidden(path.removeprefix(pattern))]
    return [path for path in files.glob(pattern) if files.is_file(path)]


def _is_hidden(relative_path: str) -> bool:
    return any(part.startswith(".") for part in relative_path.split(os.sep))


def _is_supported(path: str) -> bool:
    return path.endswith(EXTENSIONS) or EXTRACTED.fullmatch(os.path.basename(path)) is not None


def _inspect(path: str, *, text_layout: str, language: str, text_field: str) -> Source:
    """Detects the layout and language of a file from its beginning, unless they are specified."""
    sample = _sample(path, text_field)
    layout = text_layout
    if path.endswith(".parquet"):
        layout = "files" if text_layout == "auto" else text_layout
    elif is_json_name(path) or EXTRACTED.fullmatch(os.path.basename(path)) and sample[:1] == "{":
        if text_layout == "wikipedia" or not is_json_name(path):
            layout = "wikipedia_json"
        elif text_layout == "auto":
            layout = "files"
        sample = _text_of_first_line(sample, text_field)
    language = detect_language(sample) if language == "auto" else language
    if layout == "auto":
        layout = "wikipedia" if wikipedia.is_extracted(sample) else detect_layout(sample, language)
    return Source(path=path, layout=layout, language=language, text_field=text_field)


def _sample(path: str, text_field: str) -> str:
    if path.endswith(".parquet"):
        return next(parquet_texts(Source(path=path, layout="files", language="en", text_field=text_field)), "")
    with open_text(path) as file:
        return file.read(SAMPLE_SIZE)


def _text_of_first_line(sample: str, text_field: str) -> str:
    first_line = sample.split("\n", 1)[0]
    try:
        return str(json_files.parse(first_line, lone_surrogates=True).get(text_field, ""))
    except (ValueError, AttributeError):
        return first_line  # truncated or malformed: reading the file will show which
