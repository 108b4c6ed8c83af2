"""Fine-tunes BERT to answer questions about texts: SQuAD 1.1, 2.0 or your own questions; evaluates, predicts, exports.

python run_squad.py --train_file=train-v1.1.json --predict_file=dev-v1.1.json --init_checkpoint=uncased_L-12_H-768_A-12
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

from bert_tf.config.flag_groups import RunOptions
from bert_tf.config.flag_parsers import comma_separated
from bert_tf.config.options import changed, flag
from bert_tf.data import preprocessed_examples, questions
from bert_tf.errors import UserError, count_text, leave_out
from bert_tf.heads.base.table_options import TaskOptions
from bert_tf.heads.span import squad_files
from bert_tf.recipes import finetune, initialization
from bert_tf.recipes.finetuning import preprocessed, starting_point
from bert_tf.recipes.finetuning.finetuning_flags import FineTuningFlags
from bert_tf.runtime import run_files
from bert_tf.tasks.task_options import QuestionOptions
from bert_tf.training.run_directory import RunFolder

# Defaults without flags that name data: find the name missing from a sentence of Python's manual.
DEMONSTRATION = {
    "model_size": "tiny",
    "dropout_prob": 0.0,  # as in the demonstration of run_pretraining.py
    "vocab_size": 1500,
    "max_seq_length": 128,
    "doc_stride": 64,
    "max_query_length": 48,
    "learning_rate": 1e-3,
    "num_train_epochs": 1.5,
    "eval_batch_size": 32,
    "eval_steps": 40,
    "keep_best": True,  # this few texts are soon memorized
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Flags(FineTuningFlags, QuestionOptions):
    """Questions and answers."""

    MOST_USED: ClassVar[tuple[str, ...]] = tuple(
        "train_file predict_file init_checkpoint output_dir version_2_with_negative num_train_epochs learning_rate "
        "train_batch_size max_seq_length doc_stride".split()
    )

    train_file: str = changed(
        TaskOptions, "train_file", help="Questions to train on, in SQuAD format, or preprocessed examples (.tf_record)."
    )
    predict_file: str = changed(
        FineTuningFlags, "predict_file", help="Questions to answer, and to evaluate on if they have answers.", free=True
    )
    version_2_with_negative: bool = flag(False, "Some questions have no answer (SQuAD 2.0).")
    output_dir: str = changed(RunOptions, "output_dir", "runs/squad")
    max_seq_length: int = changed(
        RunOptions, "max_seq_length", 384, help="Tokens per row: question, context window, [CLS] and [SEP]."
    )
    doc_stride: int = changed(
        TaskOptions, "doc_stride", 128, help="Tokens from the start of a window to the start of the next."
    )
    predictions_file: str = flag("", "Only score this predictions.json against predict_file.", free=True)
    null_odds_file: str = flag("", "With predictions_file: null_odds.json, for the best thresholds.", free=True)
    ensemble: str = flag("", "Only combine the answers of several runs: comma-separated run folders.", free=True)

    @property
    def task_name(self) -> str:
        if not (self.train_file or self.predict_file):
            return "squad/manual"
        return "squad/v2.0" if self.version_2_with_negative else "squad/v1.1"

    MODEL: ClassVar[frozenset[str]] = frozenset(
        ("version_2_with_negative", "max_seq_length", "doc_stride", "max_query_length")
    )

    def computed_defaults(self) -> tuple[dict[str, Any], dict[str, str]]:
        if preprocessed_examples.is_file_of_them(self.train_file):
            return preprocessed.default_flags(self.train_file)
        if self.given & {"train_file", "predict_file"}:
            return {}, {}
        return initialization.demo_settings(self, DEMONSTRATION, "Which name is missing from a sentence?", "runs/squad")

    def check(self) -> None:
        """Raises UserError for impossible numbers."""
        super().check()
        for name in ("n_best_size", "max_answer_length"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}; expected 1 or more.")


def main(options: Flags) -> None:
    """Fine-tunes on questions, or only scores or combines answers."""
    if options.given & {"predictions_file", "ensemble"}:
        if options.dry_run:
            raise leave_out("dry_run requires training, and predictions_file and ensemble only score answers")
        score_files(options)
    else:
        finetune.main(options)


def check_no_run(folder: RunFolder) -> None:
    """Raises UserError if combined answers would overwrite a run."""
    run = run_files.read_run(folder.path)
    if run.get("name", "ensemble") != "ensemble" or starting_point.is_trained(folder):
        raise UserError(f"{folder.path} is a run: choose another output_dir for the combined answers.")


def score_files(options: Flags) -> None:
    """Scores a predictions.json, or combines the answers of several runs and scores them; trains nothing."""
    if not options.predict_file:
        raise UserError("Pass predict_file: questions with answers in SQuAD format.")
    labelled, has_null = questions.read(options.predict_file), options.version_2_with_negative
    path, odds = options.predictions_file, options.null_odds_file or None
    if options.ensemble:
        folder = RunFolder(options.output_dir)
        path = write_ensemble(options, labelled, folder)
        odds = folder.file(squad_files.NULL_ODDS) if has_null else None
    results, missing, surplus = squad_files.score(labelled, path, has_null=has_null, null_odds_path=odds)
    for kind, ids in (("questions have no prediction", missing), ("predictions match no question", surplus)):
        if ids:
            print(f"{len(ids):,} {kind}, the first: {ids[0]}")
    if not results:
        raise UserError(f"{path} has no predictions for labeled questions in {options.predict_file}.")
    for name, value in results.items():
        print(f"  {name:26} {value}")


def write_ensemble(options: Flags, labelled: Sequence[questions.Question], folder: RunFolder) -> str:
    """Writes the combined answers of several runs into a folder; returns the path of predictions.json."""
    check_no_run(folder)
    runs = comma_separated(options.ensemble)
    answers = squad_files.ensemble(
        [f"{run}/{squad_files.N_BEST}" for run in runs],
        labelled,
        n_best_size=options.n_best_size,
        has_null=options.version_2_with_negative,
        threshold=options.null_score_diff_threshold or 0.0,
    )
    folder.open(name="ensemble", decisive={"ensemble": options.ensemble}, **options.recorded())
    path = squad_files.write(folder.path, labelled, answers)
    print(f"Wrote {count_text(len(answers), 'answer')} to {path}.")
    return path
