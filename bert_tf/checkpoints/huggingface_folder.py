"""The tokenizer files of a Hugging Face folder: each is read once."""

import fnmatch
import functools
import os
from typing import Any

from bert_tf.checkpoints import torch_folders
from bert_tf.errors import UserError
from bert_tf.runtime import files
from bert_tf.runtime.settings import FLAG, LIST, TEXT, Kind, Settings, read_settings, whole

JSON, CONFIG, NAMES = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"
BY_FILE = ("PreTrainedTokenizerFast", "PreTrainedTokenizer", "TokenizersBackend")  # tokenizer.json has every step
IN_SEQUENCE = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers"}  # keys of its steps
CLASSES_OF_MODELS = {"mpnet": "MPNetTokenizer", "camembert": "CamembertTokenizer", "xlnet": "XLNetTokenizer"}


class OtherSteps(UserError):
    """A tokenizer.json, which has every step of its tokenizer, has steps that no kind of this package supports."""


class TokenizerFolder:
    """The files of a tokenizer.

    Attributes:
        path: the folder.
        file: the path of tokenizer.json, for messages.
    """

    def __init__(self, path: files.StrPath) -> None:
        self.path = os.fspath(path)
        self.file = self.place(JSON)

    def place(self, name: str) -> str:
        """The path of a file."""
        return os.path.join(self.path, name)

    def has(self, name: str) -> bool:
        """Returns whether the folder has such a file."""
        return files.is_file(self.place(name))

    def read(self, name: str) -> bytes:
        """The content of a file."""
        with files.open_binary(self.place(name)) as opened:
            return opened.read()

    @functools.cached_property
    def model(self) -> Settings:
        """The entries of config.json."""
        return torch_folders.settings(self.path)

    @functools.cached_property
    def config(self) -> Settings:
        """The entries of tokenizer_config.json; empty without one."""
        return read_settings(self.place(CONFIG))

    @functools.cached_property
    def names(self) -> Settings:
        """The entries of special_tokens_map.json; empty without one."""
        return read_settings(self.place(NAMES))

    @functools.cached_property
    def steps(self) -> Settings:
        """The entries of tokenizer.json; empty without one."""
        return read_settings(self.file)

    @functools.cached_property
    def has_steps(self) -> bool:
        """Returns whether there is a tokenizer.json."""
        return self.has(JSON)

    def steps_in(self, name: str) -> list[Settings]:
        """The steps of the normalizer or pre_tokenizer in tokenizer.json; for a sequence, its steps."""
        step = self.steps.inside(name)
        if step.get("type") == "Sequence":
            return step.each(IN_SEQUENCE[name])
        return [step] if step else []

    @property
    def added_tokens(self) -> list[Any]:
        """The added tokens in tokenizer.json."""
        return self.steps.value("added_tokens", LIST, [])

    @property
    def special(self) -> list[Settings]:
        """The files that name special tokens; special_tokens_map.json only without the newer added_tokens_decoder."""
        return [self.config] if "added_tokens_decoder" in self.config else [self.config, self.names]

    @functools.cached_property
    def class_name(self) -> str | None:
        """The tokenizer class named in the files, without "Fast"; None if they name none."""
        name = self.config.value("tokenizer_class", TEXT) or self.model.value("tokenizer_class", TEXT)
        return name if name is None or name in BY_FILE else name.removesuffix("Fast")

    @property
    def likely_class(self) -> str:
        """`class_name`, or else the class for the type of model; "" for BERT and others."""
        return self.class_name or self.default_class

    @property
    def default_class(self) -> str:
        """The tokenizer class for the type of model in config.json; "" for BERT and others."""
        return CLASSES_OF_MODELS.get(self.model.value("model_type", TEXT, ""), "")

    @property
    def is_by_file(self) -> bool:
        """Returns whether tokenizer.json has every step."""
        return self.class_name in BY_FILE and self.has_steps

    @property
    def error(self) -> type[UserError]:
        """The error for steps that no kind of this package has: the library `tokenizers` computes those in a file."""
        return OtherSteps if self.is_by_file else UserError

    @functools.cached_property
    def of_sentences(self) -> dict[str, Settings]:
        """The entries of the files with the settings of sentence-transformers for an encoder, by name."""
        names = fnmatch.filter(files.names(self.path), "sentence_*_config.json")
        return {name: read_settings(self.place(name)) for name in names}

    @functools.cached_property
    def lower_cases_first(self) -> bool:
        """Returns whether sentence-transformers lower-cases a text before its tokenizer gets it."""
        folders = (self.path, os.path.dirname(self.path))  # an encoder may have its own folder
        if not any(files.is_file(os.path.join(folder, "modules.json")) for folder in folders):
            return False
        return any(values.value("do_lower_case", FLAG) for values in self.of_sentences.values())

    @functools.cached_property
    def rows(self) -> tuple[str, ...]:
        """The sequences for a text and a pair by the post_processor, with :1 at tokens of the second segment."""
        processor = self.steps.inside("post_processor")
        if processor.get("type") == "Sequence":  # others, such as ByteLevel, only move offsets
            each = [step for step in processor.each("processors") if step.get("type") != "ByteLevel"]
            processor = each[0] if len(each) == 1 else processor
        kind = processor.value("type", TEXT, "none")
        if kind == "TemplateProcessing":
            rows = [[each.inside(next(iter(each), "")) for each in processor.each(name)] for name in ("single", "pair")]
            pairs = [
                [(piece.value("id", TEXT, "none"), piece.value("type_id", whole(0), 0)) for piece in row]
                for row in rows
            ]
        elif kind in ("BertProcessing", "RobertaProcessing"):
            cls, sep = (str(next(iter(processor.value(name, LIST, [])), None)) for name in ("cls", "sep"))
            second, between = (0, [sep, sep]) if kind == "RobertaProcessing" else (1, [sep])
            single = [(token, 0) for token in (cls, "A", sep)]
            pair = [*single[:2], *((token, 0) for token in between), ("B", second), (sep, second)]
            pairs = [single, pair]
        else:
            return (kind,)
        return tuple(" ".join(f"{token}:{n}" if n else token for token, n in row) for row in pairs)


def content_of(token: Any) -> Any:
    """The text of a token that is a text or an object with flags."""
    return token.get("content") if isinstance(token, dict) else token


TOKEN: Kind[Any] = Kind(
    "a token, a text or an object with its content", lambda value: isinstance(content_of(value), str)
)
