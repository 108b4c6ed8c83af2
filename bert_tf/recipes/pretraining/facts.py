"""Facts that a phase of pre-training asks its files once: its text, records with masks, and the run that it resumes."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.data.pretraining import masked_records
from bert_tf.errors import UserError
from bert_tf.recipes.pretraining.pretraining_flags import Flags
from bert_tf.runtime import files
from bert_tf.text import corpus
from bert_tf.text.documents import read_documents
from bert_tf.text.sources import Source, text_size
from bert_tf.training.run_directory import RunFolder, recorded_flags

BYTES_PER_TOKEN = 5  # in English text, approximately
MASKED_BYTES_PER_BYTE = 2  # of text, in records masked by another program, approximately


@dataclasses.dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts.

    Attributes:
        sources: the files of input_file; [] for Python's manual.
        masked: the files in records_dir that another program masked; [] if there are none.
        text_bytes: the approximate size of the training text; 0 for Python's manual.
        recorded: the flags of the run in output_dir; {} if there is none.
        is_begun: whether that run has a checkpoint.
    """

    sources: Sequence[Source]
    masked: Sequence[str]
    text_bytes: int
    recorded: Mapping[str, Any]
    is_begun: bool

    @property
    def tokens(self) -> int:
        """The approximate number of tokens of the training text; 0 for Python's manual."""
        return self.text_bytes // BYTES_PER_TOKEN


def of_phase(options: Flags) -> Facts:
    """The facts about the files that flags name; UserError if the text cannot be found or has no known layout."""
    read_as = dataclasses.asdict(options.text)
    sources = corpus.find_sources(options.input_file, **read_as) if options.input_file else []
    masked = masked_records.find(options.records_dir)
    of_masked = sum(map(files.size, masked)) // MASKED_BYTES_PER_BYTE
    return Facts(
        sources=sources,
        masked=masked,
        text_bytes=of_masked if masked else sum(map(text_size, sources)),
        recorded=recorded_flags(options.output_dir),
        is_begun=bool(RunFolder(options.output_dir).last_step()),
    )


def check_has_text(name: str, patterns: str, sources: Sequence[Source]) -> None:
    """Raises UserError unless at least one of the files named by a flag, name=patterns, contains text."""
    if not any(next(read_documents(source), None) for source in sources):
        raise UserError(f"{name}={patterns} contains no text at all; pass files with sentences in them.")
