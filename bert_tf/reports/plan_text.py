"""The plan of a command as text, with the reason for each flag."""

from collections.abc import Iterable, Mapping

from bert_tf.config.bert_config import BertConfig
from bert_tf.config.options import Options
from bert_tf.config.train_config import TrainConfig
from bert_tf.runtime.progress import duration

GIVEN = "given"


def show(lines: Mapping[str, str], options: Options) -> None:
    """Prints a plan.

    lines: {topic: sentence}. options: given and chosen flags, printed with their reasons.
    """
    width = max(map(len, lines))
    print("", "Plan (nothing was written):", *(f"  {name:{width}}  {text}" for name, text in lines.items()), sep="\n")
    values, given = options.values(), dict.fromkeys(sorted(options.given - {"dry_run"}), GIVEN)
    chosen = {name: reason for name, reason in {**given, **options.reasons}.items() if name in values}
    flags = {f"--{name}={_text(values[name])}": reason for name, reason in chosen.items()}
    width = max(map(len, flags), default=0)
    shown = [f"  {name:{width}}  {reason}".rstrip() for name, reason in flags.items()]
    print(*["Flags:"] * bool(shown), *shown, sep="\n", flush=True)


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else ",".join(value) if isinstance(value, list) else str(value)


def model(config: BertConfig, checkpoint: str) -> str:
    """The size of a model, and its checkpoint."""
    size = (
        f"{config.num_hidden_layers} layers, hidden size {config.hidden_size}, {config.num_weights:,} weights, "
        f"vocabulary of {config.vocab_size:,}"
    )
    return f"{checkpoint}: {size}" if checkpoint else f"none, a new model: {size}"


def rates(training: TrainConfig) -> str:
    """Optimizer, learning rate and warm-up."""
    head = f", {training.head_learning_rate:g} for the head" if training.head_learning_rate > 0 else ""
    share = f"{100 * training.warmup_proportion:g}% of the training"
    steps = training.warmup_steps
    warm_up = share if training.budget_minutes else f"{steps:,} step{'s' * (steps != 1)}"
    return f"{training.optimizer}, learning rate {training.learning_rate:g}{head}, warm-up {warm_up}"


def joined(texts: Iterable[str]) -> str:
    """The distinct ones among several texts."""
    return " or ".join(dict.fromkeys(texts))


def time(seconds: float) -> str:
    """An estimate of the training time."""
    return f"about {duration(seconds)} of training"
