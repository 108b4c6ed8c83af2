"""A run, an export or a checkpoint as a Keras model, and its predictor: content of about.json, settings of its rows.

A third-party checkpoint does not specify how many texts an example has: the caller does; the default is one, or a
pair if labels or configuration show a cross-encoder.
"""

import dataclasses
import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf import heads
from bert_tf.checkpoints import pretrained
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config import segments
from bert_tf.data.tag_schemes import TagSet
from bert_tf.errors import UserError
from bert_tf.export import host_settings, text_function
from bert_tf.export.keras_network import KerasNetwork
from bert_tf.export.predictor import Predictor, VectorExtractor
from bert_tf.export.text_function import Signatures, TextFunction
from bert_tf.heads import masked_lm
from bert_tf.heads.choice import MultipleChoice
from bert_tf.heads.classes import Classes
from bert_tf.heads.masked_lm import MaskedLm
from bert_tf.heads.span import SpanHead, answer_search
from bert_tf.heads.span.answer_search import Search
from bert_tf.heads.tags import Tags
from bert_tf.heads.vectors import Vectors, sentence_choice
from bert_tf.heads.vectors.vector_choice import VectorChoice
from bert_tf.model.heads import Pretrainer
from bert_tf.runtime import backend, files, plugins, run_files
from bert_tf.runtime.atomic_files import StrPath
from bert_tf.runtime.settings import read_settings
from bert_tf.text.truncation import LONGEST_FIRST

PAIR_LABEL = "entailment"  # a label that only cross-encoders have
PAIR_SETTINGS = ("sentence_transformers", "sbert_ce_default_activation_function")  # of cross-encoders, in config.json
OF_RUN = ("host", "calibration", "inputs")  # parts of `Checkpoint.answers` that are not in about.json, or are recreated
QUESTION_TOKENS = 384  # in a row with a question, as in google-research/bert


def load(path: str) -> Checkpoint:
    """The checkpoint with its head and its tokenizer; UserError if one of them is missing."""
    return _load(path, segments.chosen())


@functools.cache  # evaluation needs first labels, then functions
def _load(path: str, segments: str | None) -> Checkpoint:
    loaded = pretrained.load(path, segments=segments)
    check_answers(path, loaded)
    return loaded


def check_answers(path: str, loaded: Checkpoint) -> None:
    """Raises UserError if a model has no head or no tokenizer."""
    if kind_of(loaded) is None:
        raise UserError(
            f"{path} has no head for predictions{loaded.why_headless}: `bert-tf extract` returns its embeddings, "
            "`bert-tf finetune` adds a head."
        )
    loaded.check_vocabulary(path)


def forget() -> None:
    """Makes `load` read each checkpoint again."""
    _load.cache_clear()


def kind_of(loaded: Checkpoint) -> str | None:
    """The kind of a model's head; None if it cannot answer texts."""
    if loaded.new_head:
        return loaded.kind
    if isinstance(loaded.model, Pretrainer):
        return MaskedLm.kind if "masked_lm/output_bias" in loaded.report.loaded else None
    if loaded.report.loaded and {"classifier/bias", "span/bias"} & set(loaded.report.loaded):
        return loaded.kind or Classes.kind
    return Vectors.kind if loaded.sentence_vectors else None


def about(path: str) -> dict[str, Any]:
    """Content of an about.json for the checkpoint at a path, without the inputs."""
    return about_of(path, load(path))


def about_of(path: str, loaded: Checkpoint) -> dict[str, Any]:
    """Like `about`, for a loaded model."""
    kind = kind_of(loaded)
    if kind == MaskedLm.kind:
        return {"task": loaded.answers.get("task") or masked_lm.task_name(loaded.config)}
    name = f"checkpoint {os.path.basename(path.rstrip('/'))}"
    recorded = {key: value for key, value in loaded.answers.items() if key not in OF_RUN}
    labels = recorded.get("labels") or [] if "." in (kind or "") else []  # of an external head
    if kind in heads.kinds("is_labelled"):
        labels = _names(loaded)
    return {"task": name, **recorded, "kind": kind, "labels": labels}


def answers_of(path: str, loaded: Checkpoint, texts: int | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """How a model reads texts and answers: about.json content and `host_settings`. Runs and exports record it.

    For other checkpoints, rows have as many tokens as the model has positions, and longer texts are cut, or tagged
    in windows; questions are read in windows of QUESTION_TOKENS.

    texts: texts in an example: 2 for pairs, for choices one more than their number; None: guessed from the checkpoint.
    """
    kind, about = kind_of(loaded), about_of(path, loaded)
    if kind == MaskedLm.kind:
        return about, masked_lm.host_settings(masked_lm.lm_kind(loaded.config))
    with host_settings.refusing_damage(path):
        if kind == Vectors.kind:
            return about, vector_choice_of(path, loaded).host_settings()
        if not loaded.answers and not loaded.new_head and files.is_file(os.path.join(path, run_files.RUN)):
            raise UserError(
                f"The run in {path} does not record its prediction settings because an earlier version wrote it: run "
                "its command again with --do_train=false to record them."
            )
        recorded = loaded.answers.get("host") or {}
        settings = dict(recorded) if "stages" in recorded else _usual_settings(path, loaded, kind, texts)
        if kind == MultipleChoice.kind:
            about["labels"] = [str(number) for number in range(settings["texts"] - 1)]
    return about, settings


def vector_choice_of(path: str, loaded: Checkpoint) -> VectorChoice:
    """The embeddings of a model: as recorded in a run or an export, else as specified in the model's files."""
    options = sentence_choice.SentenceOptions()
    choice = sentence_choice.choose(loaded.sentence_vectors, options, path=path, config=loaded.config)
    if recorded := loaded.answers.get("host"):
        lengths = {name: recorded[name] for name in ("max_seq_length", "stride")}
        choice = dataclasses.replace(choice, **lengths)
    return choice


def _usual_settings(path: str, loaded: Checkpoint, kind: str | None, texts: int | None) -> dict[str, Any]:
    """The row settings for a checkpoint that does not record any."""
    length, names = loaded.config.max_position_embeddings, _names(loaded) if kind != SpanHead.kind else []
    if kind == Tags.kind:
        windows = {"max_seq_length": length, "stride": length // 2}
        return {"stages": "tags", "windows": windows, "scheme": TagSet.of(names).scheme}
    if kind == SpanHead.kind:
        length, separators = min(QUESTION_TOKENS, length), loaded.host_tokenizer.separators
        fewest = answer_search.fewest_positions(separators)
        if length < fewest:
            raise UserError(f"{path} has {length} positions; a question and its text need {fewest} or more.")
        windows = {"max_seq_length": length, "doc_stride": max(1, length // 3), "separators": separators}
        windows["max_query_length"] = min(64, length // 4)
        return {"stages": "questions", "windows": windows, "search": dataclasses.asdict(Search())}
    recorded = sum(count or 1 for count in (loaded.answers.get("inputs") or {}).values())
    texts = recorded or texts or _usual_texts(path, kind, names)
    if heads.text_counts(kind) == (1, 2) and texts > 2:
        raise UserError(f"Got {texts} texts for an example; {path} takes a text or a pair.")
    if heads.text_counts(kind) == (2,) and texts != 2:
        raise UserError(f"{path} takes pairs, a query and a text; got {texts} texts for an example.")
    if kind == MultipleChoice.kind and texts < 3:
        raise UserError(f"{path} takes a text and its choices, two or more: pass them.")
    length = min(length, loaded.max_seq_length or length)
    settings = {"texts": texts, "max_seq_length": length, "truncation": LONGEST_FIRST, "windows": None}
    return {"stages": "texts", **settings}


def labels_of(loaded: Checkpoint) -> list[str] | None:
    """The names of a head's outputs if it has named ones, numbers if the checkpoint does not name them."""
    is_labelled = kind_of(loaded) in heads.kinds("is_labelled") and hasattr(loaded.model, "classifier")
    return _names(loaded) if is_labelled else loaded.labels


def _names(loaded: Checkpoint) -> list[str]:
    """The labels, numbers if they have no names."""
    size = int(loaded.model.classifier.bias.shape[0])
    return list(loaded.labels or ()) or [f"LABEL_{number}" for number in range(size)]


def _usual_texts(path: StrPath, kind: str | None, labels: Sequence[str]) -> int:
    """The number of texts in an example if it is not specified."""
    if kind == MultipleChoice.kind:
        raise UserError(f"{path} takes a text and its choices: pass their total number as num_texts.")
    settings = read_settings(os.path.join(path, "config.json"))
    is_of_pairs = PAIR_LABEL in map(str.lower, labels) or any(name in settings for name in PAIR_SETTINGS)
    return 2 if is_of_pairs or heads.text_counts(kind) == (2,) else 1


def predictor_at(path: str, texts: int | None = None, *, jit_compile: str = "auto") -> TextFunction:
    """The predictor of the checkpoint at a path.

    texts: see `answers_of`. jit_compile: whether XLA compiles it with static shapes: "true", "false", or
    "auto", on accelerators.
    """
    return predictor_of(path, load(path), texts, jit_compile=jit_compile)


def predictor_of(path: str, loaded: Checkpoint, texts: int | None = None, *, jit_compile: str = "auto") -> TextFunction:
    """The predictor of a loaded model, with its current weights; texts, jit_compile: see `predictor_at`."""
    loaded.check_vocabulary(path)
    model, kind = loaded.model, kind_of(loaded) or ""
    about, own = answers_of(path, loaded, texts)
    if "." in kind:  # external heads need TensorFlow to answer
        plugins.check_trusted(kind, path)
        with host_settings.refusing_damage(path):
            head = heads.get(kind).recorded({**loaded.answers, **about}, own)
        return Signatures(path, head.training.live_signatures(loaded), about, heads.get(kind))
    choice = vector_choice_of(path, loaded) if kind == Vectors.kind else None
    batch_size = text_function.STATIC_BATCH_SIZE if backend.should_jit(jit_compile) else text_function.BATCH_SIZE
    with host_settings.refusing_damage(path):
        settings = settings_of(loaded, own)
        network = KerasNetwork(model, path, settings, jit_compile, choice)
        found = Predictor(path, network, settings, about, loaded.host_tokenizer, heads.get(kind), batch_size)
    if kind == MultipleChoice.kind:
        found.labels = ()  # choices are numbered
    return found


def settings_of(loaded: Checkpoint, own: Mapping[str, Any]) -> dict[str, Any]:
    """Settings for the stages of `export.host` and a KerasNetwork. own: `host_settings` of the task."""
    settings = host_settings.of_model(own, loaded.model, loaded.host_tokenizer.pad_id)
    if "last_layer" in settings:  # its weights may change
        settings["last_layer"] = lambda: host_settings.last_layer(loaded.model)
    return settings


def vectors_of(
    path: str, loaded: Checkpoint, choice: VectorChoice, *, splits_pairs: bool = False, jit_compile: str = "false"
) -> VectorExtractor:
    """An embedding predictor of a loaded model, which needs no head.

    splits_pairs, jit_compile: see VectorExtractor and KerasNetwork. Raises UserError if it has no vocabulary.
    """
    loaded.check_vocabulary(path)
    settings = {**settings_of(loaded, {}), "max_positions": choice.max_seq_length}
    network = KerasNetwork(loaded.model, path, settings, jit_compile, choice)
    return VectorExtractor(network, choice, loaded.host_tokenizer, splits_pairs=splits_pairs)
