"""Published scores by task and model size: Devlin et al. 2018, tables 1 to 4 and 7.

In the units of this package: fractions of 1, percentages for SQuAD.
"""

MODELS = {"BERT-base": 110e6, "BERT-large": 340e6}  # parameters
# {task: (data set, {score: values for BERT-base and BERT-large, None if not published})}
SCORES: dict[str, tuple[str, dict[str, tuple[float | None, float | None]]]] = {
    "cola": ("test", {"matthews": (0.521, 0.605)}),
    "sst-2": ("test", {"accuracy": (0.935, 0.949)}),
    "mrpc": ("test", {"f1": (0.889, 0.893)}),
    "sts-b": ("test", {"spearman": (0.858, 0.865)}),
    "qqp": ("test", {"f1": (0.712, 0.721)}),
    "mnli": ("test", {"matched_accuracy": (0.846, 0.867), "mismatched_accuracy": (0.834, 0.859)}),
    "qnli": ("test", {"accuracy": (0.905, 0.927)}),
    "rte": ("test", {"accuracy": (0.664, 0.701)}),
    "swag": ("development", {"accuracy": (0.816, 0.866)}),
    "ner/conll2003": ("development", {"f1": (0.964, 0.966)}),
    "squad/v1.1": ("development", {"exact_match": (80.8, 84.1), "f1": (88.5, 90.9)}),
    "squad/v2.0": ("development", {"best_exact": (None, 78.7), "best_f1": (None, 81.9)}),
}


def scores_of(task_name: object) -> dict[str, tuple[str, dict[str, float]]]:
    """{score: (data set, {model: value})} for a task name as recorded by a run; {} if nothing was published."""
    data_set, scores = SCORES.get(str(task_name).lower().removeprefix("glue/"), ("", {}))
    return {
        name: (data_set, {model: value for model, value in zip(MODELS, values, strict=True) if value is not None})
        for name, values in scores.items()
    }
