"""Fine-tunes BERT to answer questions about texts: SQuAD 1.1, 2.0 or your own questions; evaluates, predicts, exports.

python run_squad.py --train_file=train-v1.1.json --predict_file=dev-v1.1.json --init_checkpoint=uncased_L-12_H-768_A-12
"""

import dataclasses
import textwrap

from bert_tf.config import flags
from bert_tf.config.flag_groups import RunFlags
from bert_tf.config.flags import changed, flag
from bert_tf.errors import UserError
from bert_tf.recipes import initialization
from bert_tf.recipes.finetuning import fine_tuning, fine_tuning_run, finished_run
from bert_tf.recipes.finetuning.fine_tuning_flags import FineTuningFlags
from bert_tf.runtime.json_files import read_json
from bert_tf.tasks.question_answering import answer_highlights, questions, squad_files, squad_scores
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
    """Prints and writes what was reached; with "no answer" possible, keeps the best threshold beside the model."""
    if not task.split("dev").is_known:
        print("The questions have no known answers: nothing to score.")
        return
    results = evaluator()
    fine_tuning_run.conclude(results, steps, folder)
    told = all_told(task, evaluator, folder)
    if task.search.has_null and "best_f1_thresh" in results and not flags.is_given("null_score_diff_threshold"):
        odds = dict(enumerate(one["null_odds"] for one in told["dev"]))
        found = squad_scores.best_f1_threshold(results, odds)
        folder.write_json(finished_run.THRESHOLD, {finished_run.THRESHOLD_FLAG: found})
        told = all_told(task, evaluator, folder)
    asked = {split: answer_highlights.details(task.split(split).questions, one) for split, one in told.items()}
    folder.write_json("eval_details.json", {split: {"questions": details} for split, details in asked.items()})
    for details in asked.values():
        print(*answer_highlights.sentences(details), sep="\n", flush=True)
    fine_tuning.warn_of_collapse(next(filter(None, map(collapse, told.values())), None), folder)


def all_told(task, evaluator, folder):
    """{split: what is answered to its questions} of each that was evaluated, with the best threshold."""
    from bert_tf.tasks.question_answering import answering

    search = with_best_threshold(task, folder).search
    return {split: answering.answered(task.split(split), found, search) for split, found in evaluator.answers.items()}


def with_best_threshold(task, folder):
    """The task with the threshold that an evaluation found, unless a flag gave one."""
    if flags.is_given(finished_run.THRESHOLD_FLAG):
        return task
    return finished_run.with_best_threshold(task, folder)


def collapse(told):
    """Why answers are worth nothing, in words, or None."""
    different = {one["answer"]["text"] for one in told}
    return f"all {len(told)} answers are {next(iter(different))!r}" if len(told) > 1 and len(different) == 1 else None


def predict(task, evaluator, folder):
    """Writes predictions.json, nbest_predictions.json and null_odds.json, and scores them where the truth is known."""
    from bert_tf.tasks.question_answering import answering

    task = with_best_threshold(task, folder)
    split = task.split("dev")
    answers = evaluator.answers.get("dev") or evaluator.over("dev")[1]
    told = answering.answered(split, answers, task.search)
    if folder.run["flags"]["parity"]:
        told = answering.realigned(split, told, task)
    if not folder.writes:
        return
    path = squad_files.write(folder.path, split.questions, told)
    print(f"{len(told):,} answers are in {path}.")
    scores = answering.scored(told, split, task.search)
    for name, value in scores.items():
        print(f"  {name:26} {value:.4f}")
    if scores and not folder.run["flags"]["do_eval"]:  # what is in the report then
        folder.write_json("eval_results.json", scores)
        folder.write_json("eval_details.json", {"dev": {"questions": answer_highlights.details(split.questions, told)}})


def show(options, task, model, tokenizer, folder):
    """Exports the model, compares the export with it, and lets it answer a few questions."""
    import tensorflow as tf

    from bert_tf.export.saved_model import export

    task = with_best_threshold(task, folder)
    asked = task.split((fine_tuning_run.wanted_splits(options, task) or ["dev"])[-1]).questions
    asked = asked[:: -(-len(asked) // 8)]
    texts = {"question": [q.question for q in asked], "context": [q.context for q in asked]}
    examples = {"serving_default": texts}
    given = {"about": fine_tuning.about_export(options, task), "with_attention": options.export_attention}
    export(task, model, tokenizer, folder.file("export"), examples=examples, **given)
    loaded = tf.saved_model.load(folder.file("export")).signatures["serving_default"]
    answers = loaded(**{name: tf.constant(values) for name, values in texts.items()})
    print(f"The export, {folder.file('export')}, answers as the model does:")
    for question, answer in list(zip(asked, answers["answer"].numpy(), strict=True))[:3]:
        truth = f" (it is {question.answers[0][0]!r})" if question.answers else ""
        print(f"  {textwrap.shorten(question.question, 90)}  ->  {answer.decode()!r}{truth}", flush=True)


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
        told = squad_files.joined(
            [f"{run}/{squad_files.N_BEST}" for run in runs],
            asked,
            n_best_size=options.n_best_size,
            has_null=has_null,
            threshold=options.null_score_diff_threshold,
        )
        folder.open(name="ensemble", flags=dataclasses.asdict(options), decisive={"ensemble": options.ensemble})
        path = squad_files.write(folder.path, asked, told)
        odds = folder.file(squad_files.NULL_ODDS) if has_null else None
        print(f"{len(told):,} answers are in {path}.")
    results, missing, surplus = squad_files.score(asked, path, has_null=has_null, null_odds_path=odds)
    for kind, ids in (("questions have no prediction", missing), ("predictions are of no question", surplus)):
        if ids:
            print(f"{len(ids):,} {kind}, the first: {ids[0]}")
    if not results:
        raise UserError(f"No question of {options.predict_file} that {path} answers has a known answer.")
    for name, value in results.items():
        print(f"  {name:26} {value}")
