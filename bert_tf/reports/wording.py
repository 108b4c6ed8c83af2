"""Readable names, numbers, times and commands, for pages and model cards."""

import html
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from bert_tf.errors import count_text
from bert_tf.reports.curves import PERCENTAGES, SHARES, is_number, number_text, percent_text
from bert_tf.runtime.terminal import printable

SUBSET_ACCURACY = "Subset accuracy: all labels of a text right"  # for multi-label models
IN_WORDS = {
    **{"lm": "LM", "id": "ID", "nsp": "NSP", "mlm": "MLM", "f1": "F1"},
    **{"HasAns": "answerable", "NoAns": "unanswerable", "thresh": "threshold"},  # in SQuAD's scores
}


def command(arguments: Any) -> str:
    """The recorded command line, quoted for a shell, one flag per line; for a program the equivalent command."""
    if not isinstance(arguments, list) or not arguments:
        return ""
    if arguments[0] == "bert_tf":
        recipe = "pretrain" if any(str(each).startswith("--input_file=") for each in arguments) else "finetune"
        arguments = ["bert-tf", recipe, *arguments[1:]]
    words = [shlex.quote(str(argument)) for argument in arguments]
    if words[0].endswith(".py"):
        words = [f"python {words[0]}", *words[1:]]
    elif len(words) > 1 and words[0] == "bert-tf":
        words = [" ".join(words[:2]), *words[2:]]
    return " \\\n    ".join(words)


def words(name: object) -> str:
    """A name as words: masked_lm_loss -> Masked LM loss."""
    text = " ".join(IN_WORDS.get(word, word) for word in str(name).split("_"))
    return text[:1].upper() + text[1:]


def value_text(value: Any) -> str:
    """Formats a value from a JSON file for reading."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number_text(value) if is_number(value) else "not a number"
    if isinstance(value, list):
        return ", ".join(value_text(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{name}: {value_text(item)}" for name, item in value.items())
    return str(value)


def exact_text(value: Any) -> str:
    """Formats a setting with all digits."""
    return "–" if value in (None, "") else str(value)


def refitted(run: Mapping[str, Any]) -> str:
    """A sentence on a model retrained on all rows, from its run.json; "" for others."""
    how = rows_of_refit(run)
    return f"The final model is {how}; the scores are from an earlier model, on held-out rows." if how else ""


def rows_of_refit(run: Mapping[str, Any]) -> str:
    """How a model was retrained: "trained on all 64 rows, 4 epochs"; "" if it was not."""
    again = run.get("refit")
    if not isinstance(again, dict):
        return ""
    rows, epochs = count_text(again.get("rows") or 0, "row"), again.get("epochs")
    return f"trained on all {rows}, {count_text(epochs, 'epoch')}" if epochs else f"with its head fitted to all {rows}"


def duration(seconds: float) -> str:
    """Formats seconds: 0.4 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60:,} h {minutes % 60} min"


def prose(text: object) -> str:
    """Text for Markdown on one line, escaped so that it starts no HTML, link, image, code or table cell."""
    return re.sub(r"([\[\]`|])", r"\\\1", html.escape(printable(" ".join(str(text).split())), quote=False))


def code(text: object) -> str:
    """Text for Markdown as code, on one line."""
    shown = printable(" ".join(str(text).split()))
    return f"`` {shown} ``" if "`" in shown else f"`{shown}`"


def deviation_text(name: str, value: Any, scores: Iterable[str] = ()) -> str:
    """The standard deviation of a score after its mean: " ± 1.2%"; "" if unknown."""
    return f" ± {score_text(name, value, scores)}" if is_number(value) else ""


def score_text(name: str, value: Any, scores: Iterable[str] = ()) -> str:
    """Formats a score: shares in percent, others as numbers.

    scores: the names of all scores of the run; if they include SQuAD's, F1 is already in percent.
    """
    if not (is_number(value) and name.endswith(SHARES)):
        return value_text(value)
    is_percentage = not name.endswith("accuracy") and any(other.endswith(PERCENTAGES) for other in scores)
    return f"{value:.1f}%" if is_percentage else percent_text(value)
