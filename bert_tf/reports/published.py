"""What the paper reached on a task, by the size of the model: Devlin et al. 2018, tables 1 to 4 and 7.

Scores are in the units of this package: shares of 1, of SQuAD percentages.
"""

MODELS = {"BERT-base": 110e6, "BERT-large": 340e6}  # parameters
# {task: (what was scored, {score: what BERT-base and BERT-large reached, None where the paper does not say it})}
SCORES = {
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


def of(task_name):
    """{score: (which set, {model: what it reached})} of a task by its name in a run; {} of one the paper has not."""
    which, scores = SCORES.get(str(task_name).lower().removeprefix("glue/"), ("", {}))
    return {
        name: (which, {model: value for model, value in zip(MODELS, values, strict=True) if value is not None})
        for name, values in scores.items()
    }
