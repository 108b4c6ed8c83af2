r"""Fine-tunes one checkpoint on questions here and with Hugging Face transformers, with the same recipe.

    python benchmarks/squad_reproduction.py --train_file=A.json --train_file=B.json --eval_file=C.json \
        --init_checkpoint=FOLDER --work_dir=FOLDER

Training files are concatenated, and of the evaluation files the questions that have an answer; SQuAD 1.1's scores are
computed by the same code for both sides. One epoch (--epochs), batch 32, learning rate 5e-5, a tenth of warm-up and
linear decay, Adam with bias correction, weight decay 0.01, clipping at 1, rows of 384 tokens, a new head. Ours is
run_squad.py. The peer follows the library's own question answering example: every row padded to 384, windows that
overlap by 128 tokens, answers by the offsets of its tokenizer. It runs in a virtual environment of its own, created in
work_dir; or use --peer_python.

Runs of both sides alternate. Results are stored in work_dir, so the same command resumes; it ends by printing a table,
--table prints it for the results so far. --max_steps=N trains only N steps on each side, alternating, three times, and
prints the median seconds per step. --precision=bfloat16 applies to both sides.
"""

import functools
import json
import pathlib

import reproduction
from reproduction import SIDES

SCORES = ("exact_match", "f1")


def main():
    parser = reproduction.parser_of(__doc__)
    for name in ("train_file", "eval_file"):
        parser.add_argument(f"--{name}", type=pathlib.Path, action="append", required=True)
    reproduction.add_step_flags(parser, epochs=1.0)
    options = parser.parse_args()
    if options.only_time:
        reproduction.time_our_steps(*task_of(options), options)
        return
    options.work_dir.mkdir(parents=True, exist_ok=True)
    if not options.table:
        join_files(options)
        run_peer = functools.partial(peer, options)
        if options.max_steps:
            output = options.work_dir / "steps.json"
            reproduction.compare_steps(options, lambda seed, steps: run_peer(seed, output, max_steps=steps)[1])
            return
        runs = {"bert_tf": functools.partial(ours, options), "transformers": run_peer}
        reproduction.measure_seeds(options, {side: scoring(options, run) for side, run in runs.items()})
    print_table(options)


def scoring(options, run):
    """The run with the scores of its answers instead of these."""

    def scored(seed, output):
        answers, seconds = run(seed, output)
        return scores_of(options, answers), seconds

    return scored


def join_files(options):
    """Makes train.json and eval.json in work_dir: the latter of questions with answers, ids with their file's name."""
    for name, paths in (("train", options.train_file), ("eval", options.eval_file)):
        joined = []
        for path in paths:
            for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
                for paragraph in article["paragraphs"] if name == "eval" else ():
                    answerable = [qa for qa in paragraph["qas"] if qa["answers"] and not qa.get("is_impossible")]
                    paragraph["qas"] = [{**qa, "id": f"{path.stem}/{qa['id']}"} for qa in answerable]
                joined.append(article)
        if name == "train" and options.train_rows:
            left = options.train_rows
            for paragraph in (paragraph for article in joined for paragraph in article["paragraphs"]):
                paragraph["qas"] = paragraph["qas"][: max(0, left)]
                left -= len(paragraph["qas"])
        (options.work_dir / f"{name}.json").write_text(json.dumps({"data": joined}), encoding="utf-8")


def task_of(options):
    """The task as run_squad.py makes it, and the checkpoint."""
    from bert_tf.runtime.tensorflow_startup import start_tensorflow

    start_tensorflow()
    from bert_tf.checkpoints import formats
    from bert_tf.recipes.finetune_squad import Flags
    from bert_tf.tasks import catalog
    from bert_tf.text.tokenizer import Tokenizer

    start = formats.read(str(options.init_checkpoint))
    flags = Flags(train_file=str(options.work_dir / "train.json"))
    return catalog.get("squad/v1.1")(flags, lambda texts: Tokenizer(start.vocabulary, start.lower_case)), start


def ours(options, seed, output):
    folder = output.with_suffix("")
    flags = {
        "train_file": options.work_dir / "train.json",
        "predict_file": options.work_dir / "eval.json",
        "init_checkpoint": options.init_checkpoint,
        "output_dir": folder,
        "num_train_epochs": options.epochs,
        "random_seed": seed,
        "precision": options.precision,
        "do_eval": False,
        "do_predict": True,
    }
    reproduction.run_ours(options, ["run_squad.py"], flags)
    answers = json.loads((folder / "predictions.json").read_text(encoding="utf-8"))
    return answers, reproduction.seconds_of_training(folder)


def peer(options, seed, output, *, max_steps=0):
    flags = {"checkpoint": options.init_checkpoint, "data": options.work_dir, "epochs": options.epochs}
    flags |= {"seed": seed, "max_steps": max_steps, "precision": options.precision, **reproduction.recipe_of(options)}
    result = reproduction.run_peer(options, "transformers_squad.py", flags, output.with_suffix(".answers.json"))
    return result["answers"], result["seconds"]


def scores_of(options, answers):
    """{file: {score: number}}."""
    from bert_tf.data import questions
    from bert_tf.heads.span import squad_scores

    eval_questions = questions.read(str(options.work_dir / "eval.json"))
    files = {path.stem: [q for q in eval_questions if q.id.startswith(f"{path.stem}/")] for path in options.eval_file}
    return {name: squad_scores.evaluate(of_file, answers) for name, of_file in files.items()}


def print_table(options):
    done = reproduction.results(options)
    if not done[SIDES[0]]:
        print("Nothing is done on both sides yet.")
        return
    reproduction.print_head("file, score")
    for path in options.eval_file:
        for name in SCORES:
            scores = [[run["scores"][path.stem][name] for run in done[side]] for side in SIDES]
            reproduction.print_row(f"{path.stem} {name}", scores, reproduction.mean_seconds(done))


if __name__ == "__main__":
    main()
