"""Fine-tunes BERT to answer questions about texts: SQuAD 1.1, 2.0 or your own questions; evaluates, predicts, exports.

python run_squad.py --train_file=train-v1.1.json --predict_file=dev-v1.1.json --init_checkpoint=uncased_L-12_H-768_A-12
"""

import dataclasses

from bert_tf.config import flags
from bert_tf.config.flag_groups import RunFlags
from bert_tf.config.flags import changed, flag
from bert_tf.errors import UserError
from bert_tf.recipes import initialization
from bert_tf.recipes.finetuning import fine_tuning, fine_tuning_run, finished_run
from bert_tf.recipes.finetuning.fine_tuning_flags import FineTuningFlags
from bert_tf.runtime.json_files import read_json
from bert_tf.tasks.question_answering import questions, squad_files
from bert_tf.training.run_directory import RunFolder

# What stands for the defaults when no flag says what to learn: names left out of sentences of Python's manual.
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
    "keep_best": True,  # so few texts are soon known by heart
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Flags(FineTuningFlags):
    train_file: str = changed(FineTuningFlags, "train_file", help="Questions to train on, in SQuAD format.")
    predict_file: str = changed(
        FineTuningFlags, "predict_file", help="Questions to answer, and to evaluate on if they have answers."
    )
    version_2_with_negative: bool = flag(False, "Some questions have no answer (SQuAD 2.0).")
    output_dir: str = changed(RunFlags, "output_dir", "runs/squad")
    max_seq_length: int = changed(
        RunFlags, "max_seq_length", 384, help="Tokens per row: question, context window, [CLS] and [SEP]."
    )
    doc_stride: int = changed(
        FineTuningFlags, "doc_stride", 128, help="Tokens from the start of a window to the start of the next."
    )
    max_query_length: int = flag(64, "Maximum number of question tokens; longer questions are truncated.")
    n_best_size: int = flag(20, "Number of answers to list per question.")
    max_answer_length: int = flag(30, "Maximum number of tokens of an answer.")
    null_score_diff_threshold: float = flag(
        0.0,
        "Predict no answer if its score exceeds the best answer's by more than this. Default: the best "
        "threshold on the development set.",
    )
    parity: bool = flag(False, "Extract answer texts with the original's word alignment heuristic.")
    predictions_file: str = flag("", "Only score this predictions.json against predict_file.")
    null_odds_file: str = flag("", "With predictions_file: null_odds.json, for the best thresholds.")
    ensemble: str = flag("", "Only combine the answers of several runs: comma-separated run folders.")

    @property
    def task_name(self):
        """The task in bert_tf.tasks.catalog.squad."""
        if not (self.train_file or self.predict_file):
            return "squad/manual"
        return "squad/v2.0" if self.version_2_with_negative else "squad/v1.1"

    @property
    def is_threshold_fixed(self):
        """Whether the user gave the threshold, which is not to be calibrated then."""
        return flags.is_given("null_score_diff_threshold")


def main():
    if flags.is_given("predictions_file") or flags.is_given("ensemble"):
        score_files(flags.read(Flags))
        return
    fine_tuning_run.main(
        fine_tuning_run.Script(
            flags=Flags,
            free_flags=frozenset(
                "predict_file n_best_size max_answer_length null_score_diff_threshold parity predictions_file "
                "null_odds_file ensemble".split()
            ),
            model_flags=frozenset(("version_2_with_negative", "max_seq_length", "doc_stride", "max_query_length")),
            demonstration=demonstration,
            check=check,
            evaluate=evaluate,
            predict=predict,
            show=show,
        )
    )


def demonstration():
    """The settings of the demonstration, where no flag says what to learn."""
    said = any(map(flags.is_given, ("train_file", "predict_file")))
    question = "Which name was left out of a sentence?"
    return {} if said else initialization.demo_settings(DEMONSTRATION, question, "runs/squad")


def check(options):
    """Raises UserError for numbers that cannot be."""
    for name in ("n_best_size", "max_answer_length"):
        if getattr(options, name) < 1:
            raise UserError(f"{name} is {getattr(options, name)}; expected 1 or more.")


def evaluate(task, evaluator, steps, folder):
    """Prints and writes the scores; with "no answer" possible, writes the best threshold to the run folder."""
    if not task.split("dev").is_known:
        print("The questions have no known answers: nothing to score.")
        return
    fine_tuning_run.conclude(evaluator(), steps, folder)
    task, _ = task.calibrated(evaluator.answers)
    if task.calibration:
        folder.write_json(task.calibration_file, task.calibration)
    tables = {split: task.details(answers, split) for split, answers in evaluator.answers.items()}
    folder.write_json("eval_details.json", tables)
    for table in tables.values():
        print(*task.summary(table), sep="\n", flush=True)
    reasons = (task.collapse(answers, split) for split, answers in evaluator.answers.items())
    fine_tuning.warn_of_collapse(next(filter(None, reasons), None), folder)


def predict(task, evaluator, folder):
    """Writes the predicted answers, and scores them where the true ones are known."""
    task = finished_run.with_best_threshold(task, folder).aligned()
    predictions = evaluator.answers.get("dev") or evaluator.over("dev")[1]
    if not folder.writes:
        return
    print(*task.write_predictions(folder.path, "dev", predictions), sep="\n", flush=True)
    scores = task.scores(predictions, "dev")
    if scores and not folder.run["flags"]["do_eval"]:  # the report shows these then
        folder.write_json("eval_results.json", scores)
        folder.write_json("eval_details.json", {"dev": task.details(predictions, "dev")})


def show(options, task, model, tokenizer, folder):
    """Exports the model, compares the export with it, and prints its answers to a few questions."""
    from bert_tf.export import loaded_model
    from bert_tf.export.saved_model import export
    from bert_tf.tasks.text_classification.predictions import answered

    task = finished_run.with_best_threshold(task, folder)
    split = (fine_tuning_run.wanted_splits(options, task) or ["dev"])[-1]
    path, about = folder.file("export"), fine_tuning.about_export(options, task)
    given = {"about": about, "with_attention": options.export_attention}
    export(task, model, tokenizer, path, examples=task.serving_examples(split), **given)
    loaded, examples = loaded_model.Export(path), task.demo_examples(split)
    outputs = loaded.predict(examples)
    print(f"The export, {path}, answers as the model does:")
    for number, example in enumerate(examples):
        values = {name: column[number] for name, column in outputs.items()}
        row = answered(example, values, labels=loaded.labels, inputs=loaded.inputs)
        print(f"  {task.demo_line(example, row)}", flush=True)


def expect_no_run(folder):
    """Raises UserError where joined answers would take the place of what a run left."""
    run = read_json(folder.file("run.json")) or {}
    if run.get("name", "ensemble") != "ensemble" or fine_tuning.is_trained(folder):
        raise UserError(f"{folder.path} holds a run: choose another output_dir for the answers that are joined.")


def score_files(options):
    """Scores a predictions.json, or joins the answers of several runs and scores them; trains nothing."""
    if not options.predict_file:
        raise UserError("Give predict_file, the questions with their answers in SQuAD's layout.")
    asked, has_null = questions.read(options.predict_file), options.version_2_with_negative
    path, odds = options.predictions_file, options.null_odds_file or None
    if options.ensemble:
        folder = RunFolder(options.output_dir)
        expect_no_run(folder)
        runs = [name.strip() for name in options.ensemble.split(",") if name.strip()]
        answers = squad_files.ensemble(
            [f"{run}/{squad_files.N_BEST}" for run in runs],
            asked,
            n_best_size=options.n_best_size,
            has_null=has_null,
            threshold=options.null_score_diff_threshold,
        )
        folder.open(name="ensemble", flags=dataclasses.asdict(options), decisive={"ensemble": options.ensemble})
        path = squad_files.write(folder.path, asked, answers)
        odds = folder.file(squad_files.NULL_ODDS) if has_null else None
        print(f"{len(answers):,} answers are in {path}.")
    results, missing, surplus = squad_files.score(asked, path, has_null=has_null, null_odds_path=odds)
    for kind, ids in (("questions have no prediction", missing), ("predictions are of no question", surplus)):
        if ids:
            print(f"{len(ids):,} {kind}, the first: {ids[0]}")
    if not results:
        raise UserError(f"No question of {options.predict_file} that {path} answers has a known answer.")
    for name, value in results.items():
        print(f"  {name:26} {value}")
