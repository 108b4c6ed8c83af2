"""Fine-tunes BERT on sentences, pairs and words: GLUE, SWAG, named entities, your own; evaluates, predicts, exports.

python run_classifier.py --task_name=MRPC --data_dir=glue/MRPC --init_checkpoint=uncased_L-12_H-768_A-12
"""

import dataclasses

from bert_tf.config import flags
from bert_tf.config.flag_groups import RunFlags
from bert_tf.config.flags import changed, flag
from bert_tf.errors import UserError
from bert_tf.recipes import initialization
from bert_tf.recipes.finetuning import fine_tuning, fine_tuning_run, finished_run
from bert_tf.recipes.finetuning.fine_tuning_flags import FineTuningFlags
from bert_tf.tasks.embeddings.vector_choice import FEATURES
from bert_tf.tasks.token_classification import tag_schemes

MOST_SHOWN = 12  # labels of which the thresholds are printed
# What stands for the defaults when no flag says what to learn: which part of Python's manual a passage comes from.
DEMONSTRATION = {
    "task_name": "python_manual",
    "model_size": "tiny",
    "dropout_prob": 0.0,  # as in the demonstration of run_pretraining.py
    "vocab_size": 1500,
    "learning_rate": 1e-3,
    "num_train_epochs": 12.0,
    "eval_steps": 64,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Flags(FineTuningFlags):
    task_name: str = flag("", "Task: MRPC or another GLUE task, swag, table, ner/conll2003, or my_package.module/name.")
    data_dir: str = flag("", "Folder with the task's files.")
    use_tfds: bool = flag(False, "Load GLUE from tensorflow-datasets instead of data_dir; downloads missing data.")
    tfds_dir: str = flag("", "Folder of tensorflow-datasets. Default: ~/tensorflow_datasets.")
    output_dir: str = changed(RunFlags, "output_dir", "runs/classifier")
    eval_file: str = flag("", "Evaluation table. Default: dev.* in data_dir.")
    eval_fraction: float = flag(
        0.1, "Fraction of the training table held out for evaluation if there is no evaluation table."
    )
    text_columns: str = flag("", "Comma-separated table columns: a text, a pair of texts, or a text and its choices.")
    label_column: str = flag("label", "Table column with the label.")
    id_column: str = flag("", "Table column with the ids for predictions. Default: row numbers.")
    label_type: str = flag(
        "class",
        "Type of a table's labels: one class, several labels per text, a number, or the column with the right choice.",
        ("class", "several", "number", "choice"),
    )
    label_separator: str = flag(",", "Separator between labels in one cell (tables with --label_type=several).")
    label_threshold: str = flag(
        "",
        "Probability above which a label is predicted (--label_type=several); best: per label, the threshold "
        "with the best F1 on the development set.",
    )
    labels: str = flag("", "Comma-separated labels of a table or tags, in order. Default: those of the training data.")
    class_weights: str = flag("none", "balanced: weight classes inversely to their frequency.", ("none", "balanced"))
    criterion: str = flag(
        "", "Metric that selects the best weights and the best run, such as macro_f1. Default: the task's first metric."
    )
    word_column: int = flag(1, "Tagging: column with the word; -1: the last.")
    tag_column: int = flag(-1, "Tagging: column with the tag; -1: the last.")
    tag_scheme: str = flag(
        "auto", "Tagging: scheme of the tags; plain: each tag stands for itself.", ("auto", *tag_schemes.SCHEMES)
    )
    position_digits: bool = flag(False, "Tagging: strip the digit that ends every word, as in Weibo NER.")
    document_context: bool = flag(False, "Tagging: fill rows with the sentences of the document around each sentence.")
    feature_layers: str = flag("", "Tagging: train a BiLSTM on these vectors of the frozen encoder.", ("", *FEATURES))
    lstm_size: int = flag(768, "With feature_layers: output size of each BiLSTM layer, both directions together.")
    feature_cache: str = flag(
        "", "With feature_layers: folder to cache the vectors in. Default: a folder in output_dir."
    )
    long_texts: str = flag(
        "cut", "Texts longer than a row: truncate, or read whole in overlapping windows.", ("cut", "windows")
    )
    max_windows: int = flag(8, "Maximum number of windows per text; the rest is not read.")
    window_pooling: str = flag("mean", "How to combine the pooled vectors of a text's windows.", ("mean", "max"))


def main():
    fine_tuning_run.main(
        fine_tuning_run.Script(
            flags=Flags,
            free_flags=frozenset(("eval_file", "predict_file", "feature_cache", "label_threshold")),
            model_flags=frozenset(("task_name", "label_type", "document_context")),
            demonstration=demonstration,
            check=check,
            evaluate=evaluate,
            predict=predict,
            show=show,
        )
    )


def demonstration():
    """The settings of the demonstration, where no flag says what to learn."""
    said = any(map(flags.is_given, ("task_name", "data_dir", "train_file", "predict_file")))
    question = "Which part of it is a passage from?"
    return {} if said else initialization.demo_settings(DEMONSTRATION, question, "runs/classifier")


def check(options):
    """Raises UserError where nothing is to be learned."""
    if not options.task_name:
        raise UserError("Say what to learn: task_name=MRPC, swag, table ... and data_dir, the folder with its files.")
    if options.label_threshold and options.label_type != "several":
        raise UserError("label_threshold goes with label_type=several; leave it out.")


def evaluate(task, evaluator, steps, folder):
    """Prints and writes what was reached on the development set; keeps the best thresholds of labels, if asked."""
    results = evaluator()
    if task.kind == "several":
        if folder.run["flags"]["label_threshold"] == "best":
            keep_best_thresholds(task, evaluator.answers["dev"], folder)
        task = with_best_thresholds(task, folder)
        results |= task.scores(evaluator.answers["dev"], "dev")
    fine_tuning_run.conclude(results, steps, folder)
    fine_tuning.warn_of_collapse(collapse(task, evaluator.answers), folder)
    tables = {split: task.details(answers, split) for split, answers in evaluator.answers.items()}
    folder.write_json("eval_details.json", tables)
    for table in tables.values():
        for row in table.get("per_class", []):
            print("  {label:26} precision {precision:.3f}  recall {recall:.3f}  F1 {f1:.3f}  of {count}".format(**row))


def keep_best_thresholds(task, answers, folder):
    """Finds the best threshold of each label on answers to the development set, and writes them beside the model."""
    from bert_tf.training import metrics

    truth = task.split("dev").truth
    found = metrics.best_thresholds(truth, answers["probabilities"]).tolist()
    folder.write_json(finished_run.LABEL_THRESHOLDS, dict(zip(task.labels, found, strict=True)))
    before = ", ".join(f"{name} {value:.4f}" for name, value in task.scores(answers, "dev").items())
    told = ", ".join(f"{label} {value:.2f}" for label, value in list(zip(task.labels, found, strict=True))[:MOST_SHOWN])
    print(f"Labels hold above {told}{' ...' * (len(found) > MOST_SHOWN)}; with 0.5 for all of them: {before}.")


def with_best_thresholds(task, folder):
    """The task with the thresholds that an evaluation found, unless a flag gave one."""
    from bert_tf.tasks.text_classification.goals import given_threshold

    threshold = given_threshold(folder.run["flags"]["label_threshold"])
    return finished_run.with_best_threshold(task, folder) if threshold is None else task


def collapse(task, answers):
    """Why the answers of {split: {name: array}} are worth nothing, in words, or None."""
    from bert_tf.recipes.finetuning import sweep

    reasons = (sweep.collapse(*task.compare(found, split)) for split, found in answers.items())
    return next(filter(None, reasons), None)


def predict(task, evaluator, folder):
    """Writes predictions for each test set."""
    task = with_best_thresholds(task, folder)
    for split in task.test_splits:
        answers = evaluator.over(split)[1]
        if folder.writes:
            print(*task.write_predictions(folder.path, split, answers), sep="\n", flush=True)


def show(options, task, model, tokenizer, folder):
    """Exports the model and compares the export with it on the first texts."""
    from bert_tf.export.saved_model import export

    task = with_best_thresholds(task, folder)
    split = (fine_tuning_run.wanted_splits(options, task) or [*task.eval_splits.values(), *task.test_splits])[-1]
    about = fine_tuning.about_export(options, task)
    given = {"examples": task.serving_examples(split), "about": about, "with_attention": options.export_attention}
    export(task, model, tokenizer, folder.file("export"), **given)
    print(f"The export, {folder.file('export')}, answers as the model does:")
    fine_tuning.show_answers(folder.file("export"), task.split(split).examples)
