"""Defaults for pre-training on your own text if only the text is specified: size, recipe and time.

BERT's recipe (AdamW, learning rate 5e-5, a million steps) suits a model of 100 million weights and days of training. A
small model that trains for minutes needs far larger updates.
"""

import math
from collections.abc import Mapping
from typing import Any

from bert_tf.config.bert_config import BertConfig
from bert_tf.recipes import advice

MODEL_FLAGS = frozenset("model_size bert_config_file init_checkpoint recipe parity teacher".split())
LENGTH_FLAGS = frozenset(("num_train_steps", "num_warmup_steps"))
COFFEE_BREAK = 10.0  # minutes of training, unless the user has a different time
FEWEST_MINUTES = 0.5
VOCABULARIES = ((2_000_000, 8_000), (20_000_000, 16_000))  # (below this many tokens of text, size); else the default
RECIPE = {
    "optimizer": "muon",
    "learning_rate": 1e-2,
    "warmup_proportion": 0.1,
    "train_batch_size": 16,
    "dropout_prob": 0.0,
    "save_checkpoints_steps": 250,  # each is followed by an evaluation
}
ROWS = {"next_sentence_weight": 0.0, "keep_pairs": True}  # these determine the records
FLAGS = ("model_size", "vocab_size", "budget_minutes", *RECIPE, *ROWS)  # possible choices of `defaults`
REASONS = {
    "model_size": "the largest that text and time suffice for",
    "vocab_size": "the amount of text",
    "budget_minutes": f"about {advice.PASSES} passes over the text, {COFFEE_BREAK:g} minutes at most",
    "optimizer": "learns more in few steps than adamw",
    "learning_rate": "a small model needs large updates",
    "warmup_proportion": "training is short",
    "train_batch_size": "more steps in the same time",
    "dropout_prob": "training is too short to overfit",
    "save_checkpoints_steps": "each is followed by an evaluation",
    "next_sentence_weight": "all time goes into masked LM",
    "keep_pairs": "rows of two segments, for tasks with pairs of texts",
}


def defaults(tokens: int, given: Mapping[str, Any], *, gpus: int = 0, processes: int = 1) -> dict[str, Any]:
    """{flag: value} of FLAGS for a text of about this many tokens; {} if the user chose a model or a recipe.

    given: {flag: value} from the user. gpus, processes: used for training; several processes cannot share a clock.
    """
    if MODEL_FLAGS & given.keys():
        return {}
    counts_steps = processes > 1 or LENGTH_FLAGS & given.keys()
    minutes = math.inf if counts_steps else given.get("budget_minutes", COFFEE_BREAK) or math.inf
    size = advice.model_size(tokens, operations=60 * minutes * advice.speed(gpus))
    chosen = {"model_size": size, **RECIPE}
    if "records_dir" not in given:
        chosen |= ROWS | {"vocab_size": next((size for most, size in VOCABULARIES if tokens < most), 30522)}
    if minutes < math.inf:
        config = BertConfig.of_size(size, vocab_size=1)
        needed = advice.training_seconds(config, advice.PASSES * tokens, gpus=gpus) / 60
        chosen["budget_minutes"] = round(max(FEWEST_MINUTES, min(minutes, needed)), 1)
    return {name: value for name, value in chosen.items() if name not in given}


def lines(tokens: int, chosen: Mapping[str, Any]) -> list[str]:
    """The choices as flags, and flags to choose differently."""
    named = " ".join(f"--{name}={value}".removesuffix(".0").removesuffix("=True") for name, value in chosen.items())
    longer = "--budget_minutes=480 trains overnight; " if "budget_minutes" in chosen else ""
    return [f"For about {tokens:,} tokens of text: {named}.", f"{longer}--recipe=google uses BERT's own values."]
