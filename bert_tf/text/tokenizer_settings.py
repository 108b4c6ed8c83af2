"""How a tokenizer differs from the original's, kept with its vocabulary, see `vocabulary.settings_of`."""

import dataclasses
from typing import Any

from bert_tf.errors import UserError
from bert_tf.runtime import json_files

MAX_TOKEN_BYTES = 200  # of tokens that a vocabulary may have
FILE = "tokenizer_settings.json"  # next to vocab.txt, where a tokenizer differs


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    """What Hugging Face's tokenizers of BERT can be told besides `do_lower_case`; the defaults are the original's.

    Attributes:
        strip_accents: whether accents are dropped (NFD without Mn); None: where the tokenizer lower-cases.
        split_ideographs: whether each ideograph is a word by itself, `tokenize_chinese_chars`.
        max_word_characters: of a word; a longer one is unknown. 100 in Hugging Face's tokenizers.
    """

    strip_accents: bool | None = None
    split_ideographs: bool = True
    max_word_characters: int = 200

    def strips_accents(self, lower_case: bool) -> bool:
        """Whether accents are dropped by a tokenizer that lower-cases or does not."""
        return lower_case if self.strip_accents is None else self.strip_accents

    def to_dict(self) -> dict[str, Any]:
        """The settings that differ from the defaults, for JSON."""
        values = dataclasses.asdict(self)
        return {name: value for name, value in values.items() if value != getattr(DEFAULT, name)}

    @classmethod
    def from_file(cls, path: str) -> "TokenizerSettings":
        """Reads what `to_dict` gave; UserError for another file."""
        values = json_files.require_json(path, "the settings of a tokenizer")
        unknown = sorted(values.keys() - {field.name for field in dataclasses.fields(cls)})
        if unknown:
            raise UserError(
                f"{path} has {unknown[0]!r}, which is no setting of a tokenizer: mend it, or update bert_tf."
            )
        return cls(**values)


DEFAULT = TokenizerSettings()
