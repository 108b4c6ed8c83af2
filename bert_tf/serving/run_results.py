"""Facts about an export from its run: score, date, and examples from its validation set."""

import os
from collections.abc import Iterator, Mapping
from typing import Any, TypedDict

from bert_tf.runtime import files
from bert_tf.runtime.json_files import read_object

MAX_CHARACTERS = 20_000  # per example
PRETRAINING = "masked_lm_accuracy"  # the score to show for pre-training, which has no criterion


class RunResults(TypedDict):
    """`score` is {"name": str, "value": float}, `date` YYYY-MM-DD; an example is {input: text or list of texts}."""

    score: dict[str, Any] | None
    date: str | None
    examples: list[dict[str, Any]]


def read(export: str, inputs: Mapping[str, int | None]) -> RunResults:
    """The results of the run that contains the export.

    Everything is missing if the export is outside a run folder; values not written by earlier versions are missing.

    Args:
        export: the export's folder.
        inputs: the inputs of its signature, {name: None, or the number of texts per example}.
    """
    folder = os.path.dirname(files.absolute(export))
    names = ("run.json", "sweep.json", "eval_results.json", "examples.json")  # damaged files do not stop a server
    run, sweep, scores, examples = (read_object(os.path.join(folder, name)) for name in names)
    if not run:
        return {"score": None, "date": None, "examples": []}
    name = run.get("criterion") or sweep.get("criterion") or PRETRAINING
    value = scores.get(name)
    return {
        "score": {"name": name, "value": value} if isinstance(value, int | float) else None,
        "date": str(run.get("finished") or "")[:10] or None,
        "examples": [example for example in _examples(examples) if _fits(example, inputs)],
    }


def _examples(content: Mapping[str, Any]) -> Iterator[Any]:
    """The inputs of the run's sample predictions by the export."""
    for example in content.get("export") or content.get("fill_mask") or ():
        if isinstance(example, dict):
            yield example.get("inputs", {"text": example.get("text")})


def _fits(example: Any, inputs: Mapping[str, int | None]) -> bool:
    if not isinstance(example, dict) or set(example) != set(inputs) or len(str(example)) > MAX_CHARACTERS:
        return False
    for name, count in inputs.items():
        texts = example[name] if count else [example[name]]
        if (
            not isinstance(texts, list)
            or len(texts) != (count or 1)
            or not all(isinstance(text, str) for text in texts)
        ):
            return False
    return True
