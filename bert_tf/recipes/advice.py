"""Advice before and after a run: whether model, text and steps fit, and whether the model has learned anything."""

import math
import os
from typing import TYPE_CHECKING

from bert_tf.config.bert_config import SIZES, BertConfig
from bert_tf.config.train_config import TrainConfig

if TYPE_CHECKING:
    from bert_tf.recipes.pretraining.pretraining_flags import Flags

# A Transformer needs about 20 tokens per parameter (Hoffmann et al. 2022), which may be the same text repeated for
# about 40 passes, as many as BERT made over its corpus (Devlin et al. 2018, appendix A.2).
PASSES, TOKENS_PER_PARAMETER = 40, 20
MIN_STEPS, MAX_STEPS = 100, 100_000  # limits, whatever the text
LARGEST_BY_DEFAULT = "base"
CLEARLY = 0.1  # nats below the loss of guessing by frequency; less is negligible
TOO_LARGE = 10  # times the parameters suited to the text
CPU_SPEED, GPU_SPEED = 2.5e10, 2e13  # approximate training operations per second on a core and on a GPU


def model_size(tokens: int, operations: float = math.inf) -> str:
    """The name of the largest model, up to base, whose layers can be trained; at least tiny.

    tokens: number of tokens in the text. operations: floating-point operations available for training.
    """
    sizes = list(SIZES)
    fitting = "tiny"
    for size in sizes[: sizes.index(LARGEST_BY_DEFAULT) + 1]:
        config = BertConfig.of_size(size, vocab_size=1)
        parameters = _layer_parameters(config)
        is_affordable = _operations(config, TOKENS_PER_PARAMETER * parameters) <= operations
        if parameters <= _trainable_parameters(tokens) and is_affordable:
            fitting = size
    return fitting


def training_seconds(config: BertConfig, tokens: float, *, gpus: int = 0) -> float:
    """The approximate time to train a model's layers on this many tokens, on that many GPUs or on all cores."""
    return _operations(config, tokens) / speed(gpus)


def speed(gpus: int = 0) -> float:
    """The approximate floating-point operations per second in training."""
    return gpus * GPU_SPEED or (os.cpu_count() or 1) * CPU_SPEED


def _operations(config: BertConfig, tokens: float) -> float:
    """The floating-point operations to train a model's layers: 6 per weight and token."""
    passes = config.num_hidden_layers / max(config.layers_with_weights, 1)  # ALBERT's layers share their weights
    return 6 * _layer_parameters(config) * passes * tokens


def number_of_steps(tokens: int, tokens_per_step: int) -> int:
    """The number of steps for PASSES over a text of this many tokens, from MIN_STEPS to MAX_STEPS."""
    return min(MAX_STEPS, max(MIN_STEPS, round(PASSES * tokens / tokens_per_step)))


def _trainable_parameters(tokens: int) -> float:
    return tokens * PASSES / TOKENS_PER_PARAMETER


def _layer_parameters(config: BertConfig) -> int:
    return config.num_weights - config.num_embeddings


def before_pretraining(config: BertConfig, options: "Flags", tokens: int) -> list[str]:
    """Lines on how well the model, the text and the number of steps fit each other.

    options: the flags of `bert-tf pretrain`. tokens: number of tokens in the training text.
    """
    positions = options.training.num_train_steps * options.training.train_batch_size * options.max_seq_length
    passes, dashes = positions / max(tokens, 1), "" if options.from_program else "--"
    chosen = "" if "num_train_steps" in options.given or not options.input_file else ", chosen for this text,"
    lines = [
        f"{tokens:,} tokens of text; {options.training.num_train_steps:,} steps{chosen} are "
        f"{_rounded(passes)} passes over the text"
    ]
    if not options.model.init_checkpoint and _layer_parameters(config) > TOO_LARGE * _trainable_parameters(tokens):
        smaller = model_size(tokens)
        is_smaller = smaller != options.model.model_size
        fits = f"{dashes}model_size={smaller} fits it better, " if is_smaller else "more text, "
        lines.append(
            f"Warning: the model is too large for this little text and will memorize it: {fits}or start from a "
            f"published model, as with {dashes}init_checkpoint=bert-base-uncased."
        )
    if passes > 5 * PASSES:
        steps = number_of_steps(tokens, options.training.train_batch_size * options.max_seq_length)
        if steps < options.training.num_train_steps:
            lines.append(
                f"Warning: {_rounded(passes)} passes are a lot; BERT made {PASSES} over its text, which would be "
                f"{dashes}num_train_steps={steps} here."
            )
    return lines


def _rounded(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def after_pretraining(loss: float, unigram: float, training: TrainConfig) -> list[str]:
    """Warnings about the masked LM loss on held-out text, compared with guessing tokens by frequency, in nats."""
    if loss < unigram - CLEARLY:
        return []
    length = "budget_minutes" if training.budget_minutes else "num_train_steps"
    return [
        f"Warning: the loss, {loss:.4f}, is not clearly below {unigram:.4f}, the loss of guessing tokens by their "
        "frequency: the model has not learned to use the context. Raise "
        f"--{length} (now {getattr(training, length):g}) or --learning_rate."
    ]
