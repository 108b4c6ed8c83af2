"""Whether a model truncates texts, determined by tokenizing them without TensorFlow or any computation."""

import os
from collections.abc import Callable, Sequence
from typing import Any

from bert_tf.checkpoints.checkpoint_files import TOKENIZER, max_length_in
from bert_tf.export import about_file, engine_network, host, loaded_model, opening
from bert_tf.heads.vectors import sentence_choice
from bert_tf.runtime import files
from bert_tf.runtime.settings import read_settings

ENDLESS = 1 << 30  # tokens, or windows
Cuts = Callable[[Sequence[str]], bool]  # for the texts of an example


def of(folder: str, prompt: str | None = None) -> Cuts | None:
    """A function that returns whether an export or checkpoint truncates the texts of an example; None if unknown.

    Known for exports with a model for an engine, and for text encoders and heads on whole texts in any form. prompt:
    the name of one that is not the default.
    """
    if prompt is None and engine_network.available(folder):
        settings = engine_network.settings_of(folder)
        return _cuts(settings, about_file.read(folder), opening.tokenizer_of(folder))
    if loaded_model.is_export(folder):
        extra = os.path.join(folder, about_file.EXTRA)
        if not files.is_file(os.path.join(extra, "bert_config.json")):
            return None  # a third-party or older one
        about = about_file.read(folder)
        settings = {
            "stages": "texts",
            "texts": len(about.get("inputs") or ()),
            "max_seq_length": max_length_in(read_settings(os.path.join(extra, TOKENIZER))),
        }
        config, recorded = opening.encoder_of(folder)
        tokenizer = opening.tokenizer_of(folder)
    else:
        from bert_tf.export import checkpoint_predictor

        loaded = checkpoint_predictor.load(folder)
        about, settings = checkpoint_predictor.answers_of(folder, loaded)
        config, recorded = loaded.config, loaded.sentence_vectors
        tokenizer = loaded.host_tokenizer
    if recorded is None:
        is_of_texts = settings.get("stages") == "texts" and settings["max_seq_length"]
        return _cuts(settings, about, tokenizer) if is_of_texts else None
    options = sentence_choice.SentenceOptions(prompt_name=prompt)
    choice = sentence_choice.choose(recorded, options, path=folder, config=config).host_settings()
    return _cuts(choice, {}, tokenizer) if choice else None


def _cuts(settings: dict[str, Any], about: dict[str, Any], tokenizer: Any) -> Cuts | None:
    """Compares the rows of a model with its rows without a limit."""
    if "max_seq_length" not in settings:  # taggers, question answering and mask filling
        return None
    if settings.get("stride"):  # long texts are read in several rows
        return lambda _: False
    windows = settings.get("windows")
    endless = {"windows": {**windows, "most": ENDLESS}} if windows else {"max_seq_length": ENDLESS}
    own, whole = (host.stages(each, about, tokenizer) for each in (settings, {**settings, **endless}))
    return lambda texts: own.read([texts])[0] != whole.read([texts])[0]
