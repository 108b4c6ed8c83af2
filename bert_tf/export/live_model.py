"""A run, an export or a checkpoint as a Keras model: its predictor, and the content of an about.json.

A checkpoint from elsewhere does not say how many texts an example has: its caller does, or it is one, or a pair if
labels or configuration are those of a model of pairs.
"""

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bert_tf import heads
from bert_tf.checkpoints import pretrained
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config import segments
from bert_tf.config.train_config import MaskingConfig
from bert_tf.data.tag_schemes import TagSet
from bert_tf.errors import UserError
from bert_tf.export import host_settings, tagged_words, text_function
from bert_tf.export.keras_network import KerasNetwork
from bert_tf.export.predictor import Predictor, VectorExtractor
from bert_tf.export.text_function import Signature, TextFunction
from bert_tf.heads.choice import MultipleChoice
from bert_tf.heads.classes import Classes
from bert_tf.heads.masked_lm import MaskedLm, mask_filling
from bert_tf.heads.span import SpanHead
from bert_tf.heads.span.answer_search import Search
from bert_tf.heads.span.question_windows import QuestionWindows
from bert_tf.heads.tags import Tags
from bert_tf.heads.vectors import Vectors, sentence_choice
from bert_tf.heads.vectors.extraction import Features
from bert_tf.heads.vectors.vector_choice import VectorChoice
from bert_tf.model.heads import Pretrainer
from bert_tf.runtime import backend, files, plugins, run_files
from bert_tf.runtime.atomic_files import StrPath
from bert_tf.runtime.settings import read_settings
from bert_tf.tasks import catalog
from bert_tf.tasks.task import FineTuningTask
from bert_tf.text.truncation import LONGEST_FIRST

PAIR_LABEL = "entailment"  # a label that only models of pairs have
PAIR_SETTINGS = ("sentence_transformers", "sbert_ce_default_activation_function")  # of cross-encoders, in config.json
OF_RUN = ("host", "calibration", "inputs")  # parts of `Checkpoint.answers` that about.json does not have, or anew
QUESTION_TOKENS = 384  # in a row with a question, as in the original


def load(path: str) -> Checkpoint:
    """The checkpoint with its head and its tokenizer; UserError if one of them is missing."""
    return _load(path, segments.chosen())


@functools.cache  # evaluation asks for labels, then for functions
def _load(path: str, segments: str | None) -> Checkpoint:
    loaded = pretrained.load(path, segments=segments)
    check_answers(path, loaded)
    return loaded


def check_answers(path: str, loaded: Checkpoint) -> None:
    """Raises UserError if a model has no head or no tokenizer."""
    if kind_of(loaded) is None:
        raise UserError(
            f"{path} has no head that answers{loaded.why_headless}: `bert-tf extract` gives its vectors, and `bert-tf "
            "finetune` a head."
        )
    loaded.require_tokenizer(path)


def forget() -> None:
    """Lets `load` read each checkpoint again."""
    _load.cache_clear()


def kind_of(loaded: Checkpoint) -> str | None:
    """The kind of the head of a model; None if nothing answers a text."""
    if loaded.new_head:
        return loaded.kind
    if isinstance(loaded.model, Pretrainer):
        return MaskedLm.kind if "masked_lm/output_bias" in loaded.report.loaded else None
    if loaded.report.loaded and {"classifier/bias", "span/bias"} & set(loaded.report.loaded):
        return loaded.kind or Classes.kind
    return Vectors.kind if loaded.sentence_vectors else None


def predictor_at(path: str, texts: int | None = None, *, jit_compile: str = "auto") -> TextFunction:
    """The predictor of the checkpoint at a path.

    texts: see `task_of`. jit_compile: whether XLA compiles it, in static shapes: "true", "false", or "auto", on
    accelerators.
    """
    loaded = load(path)
    return predictor_of(path, loaded, task_of(path, loaded, texts), jit_compile=jit_compile)


def predictor_of(path: str, loaded: Checkpoint, task: Any, *, jit_compile: str = "auto") -> TextFunction:
    """The predictor of a loaded model, with its current weights; task: what it was trained for."""
    model, own, kind = loaded.model, task.host_settings, kind_of(loaded)
    own_about = about_of(path, loaded)
    about = {**own_about, **(task.about() if isinstance(task, FineTuningTask) else {})}
    is_static = backend.should_jit(jit_compile)
    batch_size = text_function.STATIC_BATCH_SIZE if is_static else text_function.BATCH_SIZE
    if own is None or "." in (kind or ""):  # answers of heads from outside are TensorFlow's
        return by_signatures(path, task.signatures(model, loaded.require_tokenizer(path)), kind, about)
    settings = settings_of(loaded, own)
    network = KerasNetwork(model, path, settings, jit_compile, task.vector_choice(model.config))
    found = Predictor(path, network, settings, about, loaded.host_tokenizer, heads.get(kind or ""), batch_size)
    found.labels = tuple(own_about.get("labels") or ())  # () of choices, which have numbers
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
    """A predictor of vectors of a loaded model, which needs no head.

    splits_pairs, jit_compile: see VectorExtractor and KerasNetwork. Raises UserError if it has no vocabulary.
    """
    loaded.require_tokenizer(path)
    settings = {**settings_of(loaded, {}), "max_positions": choice.max_seq_length}
    network = KerasNetwork(loaded.model, path, settings, jit_compile, choice)
    return VectorExtractor(network, choice, loaded.host_tokenizer, splits_pairs=splits_pairs)


def by_signatures(path: str, functions: dict[str, Any], kind: str | None, about: Mapping[str, Any]) -> TextFunction:
    """A model whose task has functions on strings only."""
    found = Signature(functions["serving_default"], path)
    if tagged_words.SIGNATURE in functions:
        found.word_tagger = tagged_words.WordTagger(functions[tagged_words.SIGNATURE])
    found.labels, found.task = tuple(about.get("labels") or ()), str(about["task"])
    found.head = heads.get(kind) if kind else None
    return found


def signatures(path: str, texts: int | None = None) -> dict[str, Any]:
    """{name: tf.function on strings} of the checkpoint at a path.

    texts: of an example: 2 for pairs, for choices one more than there are; None: as the checkpoint lets guess.
    """
    loaded = load(path)
    return signatures_of(path, loaded, texts)


def signatures_of(path: str, loaded: Checkpoint, texts: int | None = None) -> dict[str, Any]:
    """As `signatures`, of a model that is loaded."""
    return task_of(path, loaded, texts).signatures(loaded.model, loaded.tokenizer)


def about(path: str) -> dict[str, Any]:
    """Content of an about.json for the checkpoint at a path, but for the inputs."""
    return about_of(path, load(path))


def about_of(path: str, loaded: Checkpoint) -> dict[str, Any]:
    """As `about`, for a loaded model."""
    kind = kind_of(loaded)
    if kind == MaskedLm.kind:
        return {"task": loaded.answers.get("task") or mask_filling.task_name(loaded.config)}
    name = f"checkpoint {os.path.basename(path.rstrip('/'))}"
    recorded = {key: value for key, value in loaded.answers.items() if key not in OF_RUN}
    labels = recorded.get("labels") or [] if "." in (kind or "") else []  # of a head from outside
    if kind in heads.kinds("is_labelled"):
        labels = _names(loaded)
    return {"task": name, **recorded, "kind": kind, "labels": labels}


def task_of(
    path: str, loaded: Checkpoint, texts: int | None = None, splits: Mapping[str, Callable[[], Any]] | None = None
) -> Any:
    """The task of a model: a run and an export record how it reads texts and answers.

    Of other checkpoints rows have as many tokens as the model has positions, and longer texts are cut, or tagged in
    windows; questions are read in windows of QUESTION_TOKENS.

    texts: see `signatures`. splits: {split: function that reads it}, see FineTuningTask.
    """
    kind, tokenizer = kind_of(loaded), loaded.require_tokenizer(path)
    if kind == MaskedLm.kind:
        return _masked_lm_task(loaded)
    with host_settings.refusing_damage(path):
        if kind == Vectors.kind:
            return _features(path, loaded)
        about = {**loaded.answers, **about_of(path, loaded)}
        settings = loaded.answers.get("host")
        if not loaded.answers and not loaded.new_head and files.is_file(os.path.join(path, run_files.RUN)):
            raise UserError(
                f"The run in {path} does not record how it answers, as it was written by an earlier version: start its "
                "command again with --do_train=false, which records it."
            )
        if settings is None or "stages" not in settings:
            settings = _usual_settings(path, loaded, kind, tokenizer, texts)
        if kind == MultipleChoice.kind:
            about["labels"] = [str(number) for number in range(settings["texts"] - 1)]
        if kind == Tags.kind:
            settings = {**settings, "crf": loaded.model.crf is not None}
        plugins.check_trusted(kind or Classes.kind, path)
        head = heads.get(kind or Classes.kind).tuned(about, settings)
    return FineTuningTask(str(about["task"]), splits or {}, head, tokenizer, test_splits=())


def _features(path: str, loaded: Checkpoint) -> Features:
    """Vectors as a run or an export records them; else as the files of the model say."""
    options, vectors = sentence_choice.SentenceOptions(), loaded.sentence_vectors
    choice = sentence_choice.choose(vectors, options, path=path, config=loaded.config)
    if recorded := loaded.answers.get("host"):
        choice = dataclasses.replace(choice, max_seq_length=recorded["max_seq_length"], stride=recorded["stride"])
    return Features(choice, vectors)


def _usual_settings(
    path: str, loaded: Checkpoint, kind: str | None, tokenizer: Any, texts: int | None
) -> dict[str, Any]:
    """The settings of rows of a checkpoint that does not record any."""
    length, names = loaded.config.max_position_embeddings, _names(loaded) if kind != SpanHead.kind else []
    if kind == Tags.kind:
        windows = {"max_seq_length": length, "stride": length // 2}
        return {"windows": windows, "scheme": TagSet.of(names).scheme}
    if kind == SpanHead.kind:
        length = min(QUESTION_TOKENS, length)
        own = QuestionWindows(length, max(1, length // 3), min(64, length // 4), tokenizer.separators)
        return {"windows": dataclasses.asdict(own), "search": dataclasses.asdict(Search())}
    recorded = sum(count or 1 for count in (loaded.answers.get("inputs") or {}).values())
    texts = recorded or texts or _usual_texts(path, kind, names)
    if kind in heads.kinds("takes_any_number") and texts > 2:
        raise UserError(f"{texts} texts were given for an example; {path} takes a text or a pair.")
    if kind in heads.kinds("is_of_pairs") and texts != 2:
        raise UserError(f"{path} takes pairs, a query and a text; {texts} texts were given for an example.")
    if kind == MultipleChoice.kind and texts < 3:
        raise UserError(f"{path} takes a text and its choices, two or more: pass them.")
    length = min(length, loaded.max_seq_length or length)
    return {"texts": texts, "max_seq_length": length, "truncation": LONGEST_FIRST, "windows": None}


def _masked_lm_task(loaded: Checkpoint) -> Any:
    name = loaded.answers.get("task")
    has_next = name.endswith("_nsp") if name else "next_sentence/bias" in loaded.report.loaded
    return catalog.get(mask_filling.task_name(loaded.config, loaded.report.loaded))(
        {"wanted": {"max_seq_length": loaded.config.max_position_embeddings}},  # the records themselves are not needed
        loaded.tokenizer,
        MaskingConfig(),
        next_sentence_weight=float(has_next),
        lm_kind=mask_filling.lm_kind(loaded.config),
    )


def labels_of(loaded: Checkpoint) -> list[str] | None:
    """The names of the outputs of a head that has such, by number if the checkpoint does not name them."""
    is_labelled = kind_of(loaded) in heads.kinds("is_labelled") and hasattr(loaded.model, "classifier")
    return _names(loaded) if is_labelled else loaded.labels


def _names(loaded: Checkpoint) -> list[str]:
    """The labels, by number if they have no names."""
    size = int(loaded.model.classifier.bias.shape[0])
    return list(loaded.labels or ()) or [f"LABEL_{number}" for number in range(size)]


def _usual_texts(path: StrPath, kind: str | None, labels: Sequence[str]) -> int:
    """The number of texts of an example, if nobody says it."""
    if kind == MultipleChoice.kind:
        raise UserError(f"{path} takes a text and its choices: say how many texts that are, num_texts.")
    settings = read_settings(os.path.join(path, "config.json"))
    is_of_pairs = PAIR_LABEL in map(str.lower, labels) or any(name in settings for name in PAIR_SETTINGS)
    return 2 if is_of_pairs or kind in heads.kinds("is_of_pairs") else 1
