"""Hugging Face folders: `config.json` with `model.safetensors`, `pytorch_model.bin`, `tf_model.h5`, or their shards."""

import dataclasses
import logging
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from bert_tf import heads
from bert_tf.checkpoints import (
    cross_encoders,
    huggingface_added_tokens,
    huggingface_rules,
    huggingface_tokenizers,
    sentence_transformers,
    torch_folders,
)
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.checkpoints.checkpoint_files import (
    max_length_in,
    new_folder,
    with_masked_lm_head,
    write_safetensors,
)
from bert_tf.checkpoints.huggingface_layouts import LAYOUTS, NOT_SUPPORTED, encoder_of, written_by_class
from bert_tf.checkpoints.sentence_transformers import SentenceFolder
from bert_tf.config.bert_config import BertConfig
from bert_tf.errors import UserError
from bert_tf.families.base.huggingface import CLASSES, Layout
from bert_tf.heads.base import format_names
from bert_tf.heads.choice import MultipleChoice
from bert_tf.heads.masked_lm import MaskedLm
from bert_tf.heads.multi_label import THRESHOLD, MultiLabel
from bert_tf.heads.span import SpanHead
from bert_tf.heads.tags import Tags
from bert_tf.model.weights import from_canonical_names, to_canonical_names
from bert_tf.runtime.atomic_files import write_json
from bert_tf.runtime.settings import TEXT, TEXTS, Kind, Settings, map_of, one_of, shortened, whole
from bert_tf.text.special_tokens import SETTING
from bert_tf.text.vocabulary import kind_of, settings_of, special_tokens, with_settings

NAMES = LAYOUTS["bert"].names  # for BERT; the names of other encoders are in `bert_tf.families`
ENCODERS = tuple(LAYOUTS)
# The output matrix and bias of a masked LM head, usually copies of the token table and of the head's bias.
OUTPUT = re.compile(
    r"(cls\.|lm_head\.|)(predictions\.)?decoder\.(?P<part>weight|bias)|"
    r"(vocab_projector|generator_lm_head)\.(?P<matrix>weight)"
)
POSITION_IDS = "embeddings.position_ids"  # 0, 1, 2, ...
POOLER = "encoder/pooler/"
TOKENS = "encoder/embeddings/token_table"
IS_NO_MATRIX = re.compile(r"LayerNorm|layer_norm|\bln\.|[a-z]_embeddings?\b|relative_attention_bias")
MAX_LABELS = 1_000_000  # labels that config.json may count without naming them
LABELS: Kind[dict[str, Any]] = map_of(
    Kind("a label", lambda value: isinstance(value, str | int | float)), "labels, which are texts or numbers"
)
MAX_TOKENS = 2  # tokens in a vocabulary per row of the table; vocabularies slightly larger than the table do occur
LABELLED, CLASSIFIERS = heads.kinds("is_labelled"), ("classes", "multi_label", "regression")


def recognizes(path: str) -> bool:
    """Returns whether a path is a folder with a configuration and weights, or a TensorFlow file in such a folder."""
    return torch_folders.is_model(SentenceFolder(path).encoder.path)


def read(path: str) -> Checkpoint:
    """Reads the folder, for sentence-transformers the one with the encoder; "gelu" means the exact error function.

    Heads that this package would compute differently are dropped: their weights keep the names in the file.

    Raises:
        UserError: a file is missing or damaged, the configuration has an unsupported setting, or the encoder lacks
            weights.
    """
    folder, file = torch_folders.split(path)
    of_sentences = SentenceFolder(folder)
    tokenizer = of_sentences.encoder
    path, values = tokenizer.path, tokenizer.model
    config = _read_config(values)
    layout, kind = LAYOUTS[config.encoder], _kind(values)
    if layout.has_fixed_gelu and config.hidden_act != "gelu_erf":
        config = dataclasses.replace(config, masked_lm_act="gelu_erf")
    prefixes = {each.prefix for each in LAYOUTS.values()} - {"model."}  # "model." may also wrap other models
    table_name = str(layout.names[TOKENS])
    found = torch_folders.read(path, file)
    arrays, beside = torch_folders.without_prefixes(found, layout.prefix, prefixes, path, table_name)
    arrays = layout.renamed_arrays(arrays)
    arrays = {name: array for name, array in arrays.items() if name not in (POSITION_IDS, *layout.unused)}
    is_of_texts = bool(layout.of_texts) and arrays.keys() >= set(layout.of_texts.values())
    table = layout.table(config, is_of_texts=is_of_texts, is_of_spans=kind == SpanHead.kind)
    _check_whole_encoder(config, table, arrays, path, has_head=kind is not None)
    left_out, why_not = [], ""
    size = sum(arrays[name].size for name in table.get("classifier/bias", ()) if name in arrays)
    if kind is None and size:
        has_pooler = arrays.keys() >= set(table.get(f"{POOLER}kernel", ("",)))
        kind = _kind_without_class(values, size, has_pooler=has_pooler)
    elif kind in CLASSIFIERS:
        kind = _kind_of_texts(values, size)
    if kind in CLASSIFIERS:
        kind, why_not = cross_encoders.kind_of(of_sentences, values, kind)
    reasons = _left_out(config, layout, arrays, kind, written_by_class(values))
    for prefix, reason in (*reasons, *([("classifier/", why_not)] if why_not else [])):
        if any(ours.startswith(prefix) and any(name in arrays for name in table[ours]) for ours in table):
            left_out.append(f"the head {prefix.rstrip('/')} is dropped {reason}")
        table = {ours: theirs for ours, theirs in table.items() if not ours.startswith(prefix)}
    weights, used = to_canonical_names(table, arrays, _is_transposed)
    weights.update((name, array) for name, array in {**arrays, **beside}.items() if name not in used)
    vocabulary, lower_case = huggingface_tokenizers.read(tokenizer)
    if vocabulary is not None and len(vocabulary) > MAX_TOKENS * config.vocab_size:
        raise UserError(
            f"The vocabulary of {path} has {len(vocabulary):,} tokens, but its model has {config.vocab_size:,}: pass "
            "the vocabulary that belongs to it."
        )
    kind_of_tokens = kind_of(vocabulary or ())
    vocabulary, recognized = huggingface_tokenizers.with_added_tokens(tokenizer, vocabulary, lower_case)
    vocabulary = huggingface_tokenizers.as_long_as_table(vocabulary, len(weights.get(TOKENS, ())))
    if SETTING in tokenizer.config:  # written by `write`
        chosen = tuple(tokenizer.config.value(SETTING, TEXTS, []))
    else:
        chosen = huggingface_added_tokens.found_in_lower_case(tokenizer, recognized)
    if vocabulary is not None and "cls_token_id" in config.settings:
        cls_id = vocabulary.index(special_tokens(vocabulary)[2])
        config = dataclasses.replace(config, settings={**config.settings, "cls_token_id": cls_id})
    kind = kind if "classifier/bias" in weights or "span/bias" in weights else None
    segments, differ = "two", ""
    if vocabulary is not None:
        vocabulary = with_settings(vocabulary, dataclasses.replace(settings_of(vocabulary), odd_to_longer=True))
        segments, differ = huggingface_rules.segments_of(tokenizer, kind_of_tokens)
    read = Checkpoint(
        config=config,
        weights=weights,
        vocabulary=vocabulary,
        lower_case=lower_case,
        special_tokens=chosen,
        added_tokens=tuple(name for name in recognized if name not in special_tokens(vocabulary or ())),
        labels=_labels(values, len(weights["classifier/bias"])) if kind in LABELLED else None,
        kind=kind,
        max_seq_length=max_length_in(tokenizer.config),
        sentence_vectors=sentence_transformers.read(of_sentences, config.max_position_embeddings),
        left_out=tuple(left_out),
    )
    changes_answers = read.reads_segments and (kind not in (None, Tags.kind) or "cls_has_segment" in config.settings)
    return dataclasses.replace(read.with_segments(segments), segments_differ=differ if changes_answers else "")


def _check_whole_encoder(
    config: BertConfig,
    table: Mapping[str, tuple[str, ...]],
    arrays: Mapping[str, np.ndarray],
    path: str,
    *,
    has_head: bool,
) -> None:
    """Raises UserError if a weight of the encoder is missing.

    Not every encoder has a pooler.
    """
    optional = (*([] if config.encoder_traits.shares_head and has_head else [POOLER]),)
    optional += LAYOUTS[config.encoder].optional(config)
    names = [
        name for ours in table if ours.startswith("encoder/") and not ours.startswith(optional) for name in table[ours]
    ]
    missing = [name for name in names if name not in arrays]
    if missing:
        raise UserError(
            f"{path} lacks {len(missing)} of the {len(names)} weights of the encoder that its configuration "
            f"describes, such as {missing[0]}: pass the configuration and the weights of the same model."
        )


def _left_out(
    config: BertConfig, layout: Layout, arrays: dict[str, np.ndarray], kind: str | None, written_by: str
) -> Iterator[tuple[str, str]]:
    """Yields (prefix of canonical names, reason) for each part that this package would compute differently.

    Removes arrays that only repeat others.
    """
    name_of_bias = str(layout.names.get("masked_lm/output_bias", ""))
    table, bias = arrays.get(str(layout.names[TOKENS])), arrays.get(name_of_bias)
    for match in list(filter(None, map(OUTPUT.fullmatch, arrays))):
        name, array = match[0], arrays[match[0]]
        is_matrix = match["matrix"] or match["part"] == "weight"
        if name == name_of_bias:
            continue
        if not is_matrix and bias is None and name_of_bias:
            arrays[name_of_bias] = arrays.pop(name)
        elif np.array_equal(array, np.asarray(table if is_matrix else bias)):
            del arrays[name]
        else:
            yield "masked_lm/", f"because {name} differs from the weight it is tied to in other models"
            break
    yield from layout.heads_left_out(config, arrays)
    if config.is_causal:
        reason = "because it uses the first token of a causal model; this package uses the last"
        yield from ((prefix, reason) for prefix in (POOLER, "next_sentence/"))
        if kind not in heads.kinds("reads_tokens"):
            yield "classifier/", reason
        if written_by.endswith(("ForMaskedLM", "ForPreTraining")):
            yield "masked_lm/", "because it predicts tokens that a causal model has seen"


def labels(path: str) -> list[str] | None:
    """The labels in config.json, in the order of the outputs; LABEL_0, LABEL_1, ... if it has none."""
    path, _ = torch_folders.split(path)
    values = torch_folders.settings(path)
    return _labels(values) if _kind(values) in LABELLED else None


def _labels(values: Settings, size: int = 0) -> list[str]:
    """See `labels`, for a head with `size` outputs. UserError if the number of names differs."""
    names, count = values.value("id2label", LABELS, {}), values.value("num_labels", whole(1, MAX_LABELS))
    if all(name == f"LABEL_{number}" for number, name in names.items()):
        names = {str(i): f"LABEL_{i}" for i in range(size or count or len(names) or 2)}
    if set(names) != {str(i) for i in range(len(names))}:
        raise UserError(f"{values.source} has an id2label without the numbers 0, 1, 2, ...: correct it.")
    if size not in (0, len(names)):
        raise UserError(
            f"{values.source} describes {len(names)} labels, and the head has {size} outputs: correct its id2label."
        )
    return [str(names[str(i)]) for i in range(len(names))]


def _kind(values: Settings) -> str | None:
    """The kind of a fine-tuned model's head; None if it has none."""
    layout = LAYOUTS[encoder_of(values)]
    task = written_by_class(values).removeprefix(layout.classes)
    if task == layout.ends["span",]:
        return SpanHead.kind
    if (kind := format_names.of_architecture(task)) not in (None, SpanHead.kind):
        return kind
    return _kind_of_texts(values) if task == CLASSES["classifier",] else None


def _kind_without_class(values: Settings, size: int, *, has_pooler: bool) -> str:
    """The kind of a classifier of unknown class, inferred from the names of class and labels and from other weights.

    A warning names the class, which may compute something else.
    """
    named = written_by_class(values)
    kind = _kind_of_texts(values, size)
    if not has_pooler or any(name[:2] in ("B-", "I-") for name in _labels(values, size)):
        kind = Tags.kind
    elif "multilabel" in named.lower() and not values.value("problem_type", TEXT):
        kind = MultiLabel.kind
    if named:
        logging.getLogger("bert_tf").warning(
            "%s names the class %s, whose head is unknown: it is read as kind %s.",
            values.source,
            named,
            kind,
        )
    return kind


def _kind_of_texts(values: Settings, size: int = 0) -> str:
    """The kind of a text classifier, from its problem_type or its number of outputs."""
    known = {names.problem_type for names in format_names.FORMATS.values()} - {""}
    problem = values.value("problem_type", one_of(*sorted(known)))
    return (
        problem and format_names.kind_with("problem_type", problem) or format_names.of_size(len(_labels(values, size)))
    )


def write(checkpoint: Checkpoint, folder: str) -> list[str]:
    """Writes `config.json`, `model.safetensors`, `vocab.txt` and `tokenizer*.json` as a new folder.

    `transformers` loads it with the class named in config.json.

    Returns:
        The names of weights that the format cannot store.
    """
    config, layout = checkpoint.config, LAYOUTS[checkpoint.config.encoder]
    _warn_of_calibration(checkpoint)
    act = "gelu_erf" if layout.has_fixed_gelu else config.hidden_act
    checkpoint = with_masked_lm_head(checkpoint, act, config.layer_norm_eps, "transformers")
    weights = {name: array for name, array in checkpoint.weights.items() if _means_the_same(name, checkpoint)}
    others = (Tags.kind,) if layout.has_choices_of_texts else (Tags.kind, MultipleChoice.kind)
    is_of_texts = "classifier/bias" in weights and checkpoint.kind not in others
    table = layout.table(config, is_of_texts=is_of_texts, is_of_spans="span/bias" in weights)
    arrays, used = from_canonical_names(table, weights, _is_transposed)
    parts = tuple(sorted({name.split("/")[0] for name in used} - {"encoder", "crf"}))
    prefix = layout.prefix if parts else ""
    arrays = {name: layout.write_array(name, array, config) for name, array in arrays.items()}
    arrays = {name if name.startswith(layout.outside) else prefix + name: array for name, array in arrays.items()}
    values = {
        "architectures": [_architecture(parts, config, layout)],
        "model_type": layout.model_type,
        **layout.config_values(config),
        "is_decoder": config.is_causal,
    }
    if parts == ("classifier",):
        values |= _head_values(checkpoint, layout, len(weights["classifier/bias"]))
    with new_folder(folder) as partial:
        write_json(os.path.join(partial, "config.json"), values)
        write_safetensors(os.path.join(partial, "model.safetensors"), arrays, framework="pt")
        huggingface_tokenizers.write(partial, checkpoint)
        sentence_transformers.write(partial, checkpoint.sentence_vectors, checkpoint.config.hidden_size)
    return sorted(checkpoint.weights.keys() - used)


def _warn_of_calibration(checkpoint: Checkpoint) -> None:
    """Warns about a temperature or thresholds, which the layout cannot store."""
    temperature, thresholds = (checkpoint.answers.get(name) for name in ("temperature", "thresholds"))
    lost = [f"the temperature {temperature:g} of its logits"] if temperature not in (None, 1) else []
    lost += ["the thresholds of its labels"] if any(value != THRESHOLD for value in thresholds or ()) else []
    if lost:
        logging.getLogger("bert_tf").warning(
            "transformers cannot store %s: probabilities or labels there differ.", " and ".join(lost)
        )


def _architecture(parts: tuple[str, ...], config: BertConfig, layout: Layout) -> str:
    """The transformers class with these heads."""
    is_language_model = config.is_causal and parts == (MaskedLm.weights,)
    return layout.classes + ("LMHeadModel" if is_language_model else layout.ends.get(parts, "ForPreTraining"))


def _means_the_same(name: str, checkpoint: Checkpoint) -> bool:
    """Returns whether transformers uses a weight as we do: its causal models pool the first token, ours the last one.

    The generator of an ELECTRA is a separate checkpoint there.
    """
    if name.startswith("masked_lm/") and any(each.startswith("generator/") for each in checkpoint.weights):
        return False
    of_texts = ("encoder/pooler/", "next_sentence/", *(["classifier/"] if checkpoint.kind != Tags.kind else []))
    return not (checkpoint.config.is_causal and name.startswith(of_texts))


def _head_values(checkpoint: Checkpoint, layout: Layout, size: int) -> dict[str, Any]:
    """The entries of config.json for a head with `size` outputs."""
    if checkpoint.kind == MultipleChoice.kind:
        return {"architectures": [f"{layout.classes}ForMultipleChoice"]}
    names = list(checkpoint.labels or ())
    if len(names) != size:  # transformers makes the head as large as this list
        names = [f"LABEL_{i}" for i in range(size)]
    values: dict[str, Any] = {
        "id2label": {str(i): name for i, name in enumerate(names)},
        "label2id": {name: i for i, name in enumerate(names)},
    }
    if checkpoint.kind == Tags.kind:
        return values | {"architectures": [f"{layout.classes}ForTokenClassification"]}
    kind = checkpoint.kind or format_names.of_size(size)
    problem = heads.get(kind).format_names().problem_type or None
    return values | {"problem_type": problem, **cross_encoders.values_of(kind)}


def _read_config(values: Settings) -> BertConfig:
    encoder = encoder_of(values)
    constants = {**NOT_SUPPORTED, **LAYOUTS[encoder].constants}
    for name, expected in constants.items():
        if values.get(name) not in (None, expected):
            raise UserError(f"{values.source}: {name} is {shortened(values[name])}; expected {expected!r}.")
    return LAYOUTS[encoder].config(encoder, Settings(values, values.source))  # a copy, which layouts may complete


def _is_transposed(name: str) -> bool:
    """Linear layers are stored [out, in], embeddings as here."""
    return name.endswith(".weight") and not IS_NO_MATRIX.search(name)
