"""Chooses the embeddings of whole texts: as recorded in the model, or as requested. Free of TensorFlow."""

import dataclasses
from typing import Any

from bert_tf.config.bert_config import POOLINGS, BertConfig
from bert_tf.config.sentence_vectors import NORMALIZE, SentenceVectors
from bert_tf.errors import UserError
from bert_tf.heads.vectors import vector_choice
from bert_tf.heads.vectors.vector_choice import VectorChoice

DEFAULT_LENGTH = 128  # window size in tokens
SHORTEST = 3  # tokens: [CLS], one from the text, [SEP]
LONG_TEXTS = ("windows", "cut")
SEARCH_PROMPTS = QUERY, DOCUMENT = "query", "document"  # names of the prompts for search, "" if there is none


@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceOptions:
    """Options set by the user, named as in sentence-transformers; None: as recorded in the model.

    Attributes:
        pooling: one of `vector_choice.POOLINGS`, or several of `bert_config.POOLINGS` joined by "+".
        normalize: whether vectors are scaled to length 1; by default as recorded in the model.
        prompt_name: name of the prompt added before each text.
        prompt: the prompt itself.
        truncate_dim: number of dimensions kept.
        max_seq_length: tokens in a row; by default the model's, else DEFAULT_LENGTH.
        long_texts: "cut" truncates longer texts, "windows" reads them in several rows; by default they are truncated
            if the model specifies a length.
        doc_stride: tokens from one window to the next; 0: half of them.
    """

    pooling: str | None = None
    normalize: bool | None = None
    prompt_name: str | None = None
    prompt: str | None = None
    truncate_dim: int | None = None
    max_seq_length: int | None = None
    long_texts: str | None = None
    doc_stride: int = 0


def choose(
    recorded: SentenceVectors | None,
    options: SentenceOptions,
    *,
    path: str,
    config: BertConfig,
    layers: str = "last",
    layer_weights: str = "",
    **other: Any,
) -> VectorChoice:
    """Chooses the text embeddings of a model.

    Args:
        recorded: settings recorded in the model; None: nothing.
        options: the user's options.
        path: the model folder, for errors.
        config: the encoder's configuration.
        layers: see `choose_layers`.
        layer_weights: see `choose_layers`.
        other: additional fields of VectorChoice.

    Raises:
        UserError: something is unsupported, unknown, or does not fit the model.
    """
    said = recorded or SentenceVectors()
    said.check_supported(path)
    pooling = options.pooling or said.pooling
    check_pooling(pooling)
    config.check_pooling(pooling, include_prompt=said.include_prompt)
    size = said.truncate_dim if options.truncate_dim is None else options.truncate_dim
    if size is not None and size < 1:
        raise UserError(f"truncate_dim is {size}; expected 1 or more.")
    length, stride = _length(said, options, path, config)
    is_normalized = said.normalize and options.normalize is not False
    choice = VectorChoice(
        layers=vector_choice.choose_layers(layers, config.layers_with_states, layer_weights),
        pooling=pooling,
        normalize=vector_choice.UNITS if options.normalize else (),
        max_seq_length=length,
        stride=stride,
        after=(*said.layers, NORMALIZE) if is_normalized else said.layers,
        truncate_dim=size,
        prompt=prompt_of(said, path, prompt_name=options.prompt_name, prompt=options.prompt),
        include_prompt=said.include_prompt,
        **{"unit": "sentence", **other},
    )
    width = dataclasses.replace(choice, truncate_dim=None).width(config.hidden_size)  # raises if layers do not fit
    if options.truncate_dim is not None and options.truncate_dim > width:
        raise UserError(f"truncate_dim is {options.truncate_dim}, but the vectors have {width} dimensions: pass fewer.")
    return choice


def as_recorded(choice: VectorChoice, recorded: SentenceVectors | None) -> SentenceVectors | None:
    """The about.json content for an export of a choice; None if the file cannot express it."""
    pooling = choice.pooling.replace("mean_max", "mean+max")
    if not set(pooling.split("+")) <= set(POOLINGS) or choice.layers.names not in ((-1,), ("last",)):
        return None
    after, size, is_last = choice.after, choice.truncate_dim, "sentence" in choice.normalize
    if size is not None and is_last:  # these files cannot describe layers after a truncation
        return None
    is_normalized = is_last or after[-1:] == (NORMALIZE,)
    said = recorded or SentenceVectors()
    prompts = dict(said.prompts)
    name = next((name for name, text in prompts.items() if text == choice.prompt), "default" if choice.prompt else None)
    return dataclasses.replace(
        said,
        pooling=pooling,
        normalize=is_normalized,
        layers=after[:-1] if after[-1:] == (NORMALIZE,) else after,
        max_seq_length=None if choice.stride else choice.max_seq_length,
        prompts={**prompts, name: choice.prompt} if choice.prompt and name else prompts,
        default_prompt_name=name if choice.prompt else None,
        truncate_dim=size,
    )


def check_pooling(name: str) -> None:
    """Raises UserError for a pooling that does not exist."""
    if name not in vector_choice.POOLINGS and not set(name.split("+")) <= set(POOLINGS):
        raise UserError(
            f"pooling is {name!r}; expected one of {', '.join(vector_choice.POOLINGS)}, or several joined by +."
        )


def prompt_of(
    recorded: SentenceVectors, path: str, *, prompt_name: str | None = None, prompt: str | None = None
) -> str:
    """The prompt with this name, or the given text; by default the model's prompt, "" if it has none.

    Raises UserError for an unknown name, and if both are passed.
    """
    if prompt is not None:
        if prompt_name is not None:
            raise UserError("prompt and prompt_name cannot be combined: pass one of them.")
        return prompt
    prompts = {QUERY: "", DOCUMENT: "", **recorded.prompts}  # always present in sentence-transformers
    name = recorded.default_prompt_name if prompt_name is None else prompt_name
    if name is None:
        return ""
    if name not in prompts:
        raise UserError(f"{path} has no prompt {name!r}, only {', '.join(prompts)}: pass one of these, or prompt.")
    return prompts[name]


def check_length(length: int | None, doc_stride: int) -> None:
    """Raises UserError for a max_seq_length or a stride out of range."""
    if length is not None and length < SHORTEST:
        raise UserError(f"max_seq_length is {length}; expected {SHORTEST} or more.")
    most = (length or doc_stride + 2) - 2
    if not 0 <= doc_stride <= most:
        raise UserError(
            f"doc_stride is {doc_stride}; expected 1 to {most}, the number of tokens in a window of max_seq_length "
            f"{most + 2}."
        )


def _length(said: SentenceVectors, options: SentenceOptions, path: str, config: BertConfig) -> tuple[int, int]:
    """(tokens of a row, tokens from one window to the next or 0)."""
    given, positions = options.max_seq_length, config.max_position_embeddings
    how = options.long_texts or ("windows" if said.max_seq_length is None or options.doc_stride else "cut")
    if how not in LONG_TEXTS:
        raise UserError(f"long_texts is {how!r}; expected one of {', '.join(LONG_TEXTS)}.")
    if given is not None and given > positions:
        raise UserError(
            f"max_seq_length is {given}, but the model has {positions} positions: choose a smaller one; longer texts "
            "can be read in windows."
        )
    length = given or said.max_seq_length or min(DEFAULT_LENGTH, positions)
    check_length(length, options.doc_stride)
    return length, 0 if how == "cut" else options.doc_stride or length // 2
