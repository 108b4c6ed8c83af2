"""BertConfig: the frozen dataclass that *is* `bert_config.json`, and the sizes published by google-research/bert."""

import dataclasses
import logging
import os
from collections.abc import Mapping
from typing import Any, Self

from bert_tf.config.encoder_traits import EncoderTraits, traits
from bert_tf.errors import UserError, leave_out
from bert_tf.runtime import atomic_files, json_files, machine, plugins
from bert_tf.runtime.settings import FLAG, TEXT, Kind, check, is_number, number, one_of, whole

# Layers and hidden size of the published models (google-research/bert README).
SIZES = {
    "tiny": (2, 128),
    "mini": (4, 256),
    "small": (4, 512),
    "medium": (8, 512),
    "base": (12, 768),
    "large": (24, 1024),
}
MAX_LAYERS = 10_000  # far above any published model
ACTIVATIONS = ("gelu_erf", "gelu_tanh", "relu", "silu")
# Additional names in files of transformers.
ALIASES = {
    "swish": "silu",
    "gelu_python": "gelu_erf",
    **dict.fromkeys(("gelu_new", "gelu_fast", "gelu_accurate", "gelu_pytorch_tanh", "gelu_python_tanh"), "gelu_tanh"),
}
POOLINGS = ("cls", "mean", "max", "mean_sqrt_len", "weighted_mean", "last")  # of token vectors into a text embedding
POSITIONS = ("absolute", "sinusoidal")  # learned vectors; fixed sines and cosines (Vaswani et al. 2017, section 3.5)

SOURCE = "The BERT configuration"
SIZE_NAMES = (
    *("vocab_size", "hidden_size", "num_attention_heads", "intermediate_size", "max_position_embeddings"),
    "type_vocab_size",
)
BELOW_1: Kind[float] = Kind("a number from 0 up to but not 1", lambda value: is_number(value) and 0 <= value < 1)
KINDS: Mapping[str, Kind[Any]] = {  # of the fields
    **dict.fromkeys(SIZE_NAMES, whole(1)),
    "num_hidden_layers": whole(0, MAX_LAYERS),
    **dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), BELOW_1),
    "initializer_range": number(0),
    "layer_norm_eps": number(above=0),
    "is_causal": FLAG,
    "pooling": one_of("cls", "mean"),
    "encoder": TEXT,
    "hidden_act": one_of(*ACTIVATIONS),
    "position_embedding_type": one_of(*POSITIONS),
}
MASKED_LM = {"masked_lm_act": "hidden_act", "masked_lm_eps": "layer_norm_eps"}  # the head's own values
OF_TYPE: Mapping[type, Kind[Any]] = {bool: FLAG, int: whole(0), float: number(0), str: TEXT}


@dataclasses.dataclass(frozen=True, kw_only=True)
class BertConfig:
    """BERT's configuration, named as in `bert_config.json` (google-research/bert `modeling.py: BertConfig`).

    `hidden_act` is explicit, unlike in the files: "gelu" is the tanh approximation in google-research/bert, but the
    exact error function in Hugging Face, so it is "gelu_tanh" or "gelu_erf" here, translated when a file is read.
    """

    vocab_size: int
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu_tanh"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2  # the default in google-research/bert is 16, but 2 in every released checkpoint
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    is_causal: bool = False  # causal attention, as in GPT; the last token then represents the text
    encoder: str = "bert"  # a folder of bert_tf.families, or a module elsewhere: "my_lab.my_encoder"
    position_embedding_type: str = "absolute"
    embedding_size: int | None = None  # None: hidden_size
    masked_lm_act: str | None = None  # activation of the masked-LM head; None: hidden_act
    masked_lm_eps: float | None = None  # epsilon of its LayerNorm; None: layer_norm_eps
    pooling: str = "cls"  # for heads on whole texts: "cls", by the pooler; "mean" of the tokens, without a pooler
    num_hidden_groups: int = 1  # number of distinct layers, for encoders that share weights
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)  # only for this encoder

    def __post_init__(self) -> None:
        for name, kind in KINDS.items():
            check(SOURCE, name, getattr(self, name), kind)
        for name, same in MASKED_LM.items():
            if getattr(self, name) is not None:
                check(SOURCE, name, getattr(self, name), KINDS[same])
        if self.position_embedding_type != "absolute" and not self.encoder_traits.may_be_sinusoidal:
            raise UserError(
                f"The encoder {self.encoder} has no sinusoidal positions: choose position_embedding_type=absolute."
            )
        if self.pooling == "mean" and not self.encoder_traits.may_pool_mean:
            raise UserError(f"The encoder {self.encoder} has its own pooling: choose pooling=cls.")
        check(SOURCE, "num_hidden_groups", self.num_hidden_groups, whole(1, max(self.num_hidden_layers, 1)))
        if self.embedding_size is not None:
            check(SOURCE, "embedding_size", self.embedding_size, whole(1))
            if self.embedding_size != self.hidden_size and not self.encoder_traits.has_narrow_embeddings:
                raise leave_out(
                    f"embedding_size is {self.embedding_size}, but the embeddings of the encoder {self.encoder} are as "
                    f"wide as its layers ({self.hidden_size})"
                )
        self._complete_settings()
        if self.encoder_traits.needs_even_hidden_size and self.hidden_size % 2:
            raise UserError(f"{SOURCE}: hidden_size is {self.hidden_size}; expected an even number, for LSTMs.")
        if self.is_causal and not self.encoder_traits.may_be_causal:
            raise UserError(f"The encoder {self.encoder} is bidirectional: omit left_to_right, or choose encoder=bert.")
        if self.hidden_size % self.num_attention_heads:
            raise UserError(
                f"hidden_size {self.hidden_size} cannot be split among {self.num_attention_heads} attention "
                "heads: choose num_attention_heads that divides it."
            )

    def _complete_settings(self) -> None:
        """Adds defaults for the encoder's own settings; UserError for unknown ones, and for values of a wrong type."""
        known = self.encoder_traits.settings
        defaults = {name: value[0] if isinstance(value, list) else value for name, value in known.items()}
        unknown = sorted(self.settings.keys() - defaults.keys())
        if unknown:
            raise leave_out(f"The encoder {self.encoder} has no setting {unknown[0]}")
        values = {**defaults, **self.settings}
        object.__setattr__(self, "settings", values)
        for name, value in values.items():
            is_choice = isinstance(known[name], list)
            check(SOURCE, name, value, one_of(*known[name]) if is_choice else OF_TYPE[type(defaults[name])])

    @property
    def of_masked_lm(self) -> Self:
        """The configuration of the masked-LM head."""
        own = {same: value for name, same in MASKED_LM.items() if (value := getattr(self, name)) is not None}
        return dataclasses.replace(self, **own) if own else self

    @property
    def pools_mean(self) -> bool:
        """Returns whether texts are represented by the mean of their tokens."""
        return "mean" in (self.pooling, self.settings.get("classifier_pooling"))

    def check_pooling(self, pooling: str, *, include_prompt: bool = True) -> None:
        """Raises UserError for a pooling of token vectors, or several joined by +, that this model does not support."""
        names = set(pooling.split("+"))
        if self.is_causal and "cls" in names:
            raise UserError("pooling is cls, but [CLS] of a left-to-right model sees no other token: choose last.")
        if "cls_token_id" in self.settings and (names & {"cls", "last", "weighted_mean"} or not include_prompt):
            chosen = f"pooling is {pooling}" if include_prompt else "include_prompt is false"
            raise UserError(
                f"{chosen}, which counts tokens from the ends of rows, but rows of the encoder {self.encoder} end "
                "in <cls> elsewhere and begin with it here: choose mean or max, with the prompt."
            )

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.num_attention_heads

    @property
    def embedding_width(self) -> int:
        """Width of the token, position and segment embeddings."""
        return self.embedding_size or self.hidden_size

    @property
    def layers_with_weights(self) -> int:
        """The number of layers with distinct weights."""
        return self.num_hidden_groups if self.encoder_traits.shares_layers else self.num_hidden_layers

    @property
    def num_embeddings(self) -> int:
        """The number of embedding weights."""
        return (self.vocab_size + self.max_position_embeddings + self.type_vocab_size) * self.embedding_width

    @property
    def num_weights(self) -> int:
        """The number of encoder weights, nearly all weights of a model."""
        layer = 4 * self.hidden_size**2 + 2 * self.hidden_size * self.intermediate_size
        return self.num_embeddings + self.layers_with_weights * layer

    def check_attention(self) -> None:
        """Raises UserError for an encoder without attention."""
        if not self.encoder_traits.has_attention:
            raise UserError(f"attention requires encoder=bert; {self.encoder} has none: remove the flag.")

    def check_room_for_weights(self) -> None:
        """Raises UserError if the weights, in float32, need more memory than the machine has."""
        required, (total, _) = 4 * self.num_weights, machine.memory()
        if required > total:
            raise UserError(
                f"A model of this configuration has {self.num_weights:,} weights, which need "
                f"{required / 2**30:,.1f} GiB of memory, and this machine has {total / 2**30:,.1f} GiB: use the "
                "configuration that belongs to the checkpoint, or a smaller model."
            )

    @property
    def middle_layers(self) -> range:
        """The layers subject to token dropping: half of many, none of two; see `model.token_dropping`."""
        traits = self.encoder_traits
        count = self.num_hidden_layers if traits.has_attention and traits.may_drop_tokens else 0
        return range(max(1, count // 2 - 1), count - 1)

    @property
    def layers_with_states(self) -> int:
        """The number of layers with hidden states, without the embeddings."""
        return self.num_hidden_layers * self.encoder_traits.has_layers + self.encoder_traits.extra_layers

    @property
    def padding_id(self) -> int:
        """The id of the padding token."""
        return int(self.settings.get("pad_token_id", self.encoder_traits.padding_id))

    @property
    def encoder_traits(self) -> EncoderTraits:
        """Traits of the encoder, known without importing it."""
        return traits(self.encoder)

    @classmethod
    def of_size(cls, size: str, **changes: Any) -> Self:
        """Returns the configuration of a published size: "tiny", "mini", "small", "medium", "base" or "large"."""
        if size not in SIZES:
            raise UserError(f"There is no model size {size!r}. Known: {', '.join(SIZES)}.")
        layers, hidden = SIZES[size]
        shape = {"num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": hidden // 64}
        return cls(**{**shape, "intermediate_size": 4 * hidden, **changes})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, gelu: str = "gelu_tanh", source: str = "The file") -> Self:
        """Reads the contents of a `bert_config.json`; unknown keys are logged and dropped.

        An encoder from another package must be trusted, see `runtime.plugins`.

        gelu: the meaning of "hidden_act": "gelu" in that file, "gelu_tanh" (google-research/bert) or "gelu_erf"
        (Hugging Face). source: the file, for messages.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        values = dict(values)
        plugins.check_trusted(str(values.get("encoder", "")), source)
        own = traits(str(values.get("encoder") or cls.encoder)).settings
        values["settings"] = {name: values.pop(name) for name in own if name in values}
        unknown = sorted(values.keys() - known)
        if unknown:
            logging.getLogger("bert_tf").debug("Not used from the BERT configuration: %s", ", ".join(unknown))
        act = values.get("hidden_act", "gelu")
        translated = {"gelu": gelu, **ALIASES}
        values["hidden_act"] = translated.get(act, act) if isinstance(act, str) else act
        if "vocab_size" not in values:
            raise UserError("The BERT configuration has no vocab_size; it is the number of lines of vocab.txt.")
        try:
            return cls(**{name: value for name, value in values.items() if name in known})
        except UserError as error:
            raise UserError(f"{source}: {error}") from None

    @classmethod
    def from_json_file(cls, path: str | os.PathLike[str]) -> Self:
        """Reads a `bert_config.json`; see `from_dict`."""
        values = json_files.require_json(path, "a BERT configuration such as bert_config.json")
        return cls.from_dict(values, source=os.fspath(path))

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as a plain dictionary."""
        values = dataclasses.asdict(self)
        values = {name: value for name, value in values.items() if value is not None or name not in MASKED_LM}
        return values | values.pop("settings")

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes `bert_config.json`, completely or not at all."""
        atomic_files.write_json(path, self.to_dict())
