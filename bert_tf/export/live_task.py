"""The task of a run or a checkpoint with a head, and its functions on strings."""

from collections.abc import Callable, Mapping
from typing import Any

from bert_tf import heads
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config.train_config import MaskingConfig
from bert_tf.export import host_settings, live_model
from bert_tf.heads.classes import Classes
from bert_tf.heads.masked_lm import MaskedLm, lm_kind, task_name
from bert_tf.heads.tags import Tags
from bert_tf.heads.vectors import Vectors
from bert_tf.heads.vectors.extraction import Features
from bert_tf.runtime import plugins
from bert_tf.tasks import catalog
from bert_tf.tasks.task import FineTuningTask
from bert_tf.text.tokenizer import Tokenizer, tokenizer_of


def task_of(
    path: str,
    loaded: Checkpoint,
    texts: int | None = None,
    splits: Mapping[str, Callable[[], Any]] | None = None,
    tokenizer: Tokenizer | None = None,
) -> Any:
    """The task of a model, with its inputs and answers as in `live_model.answers_of`; texts: see there.

    splits: {split: function that reads it}, see FineTuningTask. tokenizer: the model's, if it is made already.
    """
    kind, tokenizer = live_model.kind_of(loaded), tokenizer or tokenizer_of(loaded)
    if kind == MaskedLm.kind:
        return _masked_lm_task(loaded, tokenizer)
    about, settings = live_model.answers_of(path, loaded, texts)
    if kind == Vectors.kind:
        return Features(live_model.vector_choice_of(path, loaded), loaded.sentence_vectors)
    if kind == Tags.kind:
        settings["crf"] = loaded.model.crf is not None
    plugins.check_trusted(kind or Classes.kind, path)
    with host_settings.refusing_damage(path):
        head = heads.get(kind or Classes.kind).recorded({**loaded.answers, **about}, settings)
    return FineTuningTask(str(about["task"]), splits or {}, head, tokenizer, test_splits=())


def _masked_lm_task(loaded: Checkpoint, tokenizer: Tokenizer) -> Any:
    name = loaded.answers.get("task")
    has_next = name.endswith("_nsp") if name else "next_sentence/bias" in loaded.report.loaded
    return catalog.get(task_name(loaded.config, loaded.report.loaded))(
        {"wanted": {"max_seq_length": loaded.config.max_position_embeddings}},  # no records are needed
        tokenizer,
        MaskingConfig(),
        next_sentence_weight=float(has_next),
        lm_kind=lm_kind(loaded.config),
    )


def signatures(path: str, texts: int | None = None) -> dict[str, Any]:
    """{name: signature on strings} of the checkpoint at a path; texts: see `live_model.answers_of`."""
    loaded = live_model.load(path)
    tokenizer = tokenizer_of(loaded)
    functions = task_of(path, loaded, texts, tokenizer=tokenizer).signatures(loaded.model, tokenizer)
    return {name: function.get_concrete_function() for name, function in functions.items()}
