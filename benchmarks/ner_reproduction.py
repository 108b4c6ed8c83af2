"""Fine-tunes one checkpoint on CoNLL-2003 here and with Hugging Face transformers, with the same recipe.

    python benchmarks/ner_reproduction.py --data_dir=CONLL2003 --init_checkpoint=FOLDER --work_dir=FOLDER

Three epochs, batch 32, learning rate 5e-5, a tenth of warm-up and linear decay, Adam with bias correction, weight
decay 0.01, clipping at 1, labels on first tokens, rows of up to 512 tokens; entity F1 on testa and testb, computed from
the tags of both sides by the same code. A seed determines the same on both sides: the peer's initial head and order of
sentences. Ours is run_classifier.py with that order (in_given_order.py). The peer follows the library's own token
classification example; it runs in a virtual environment of its own, created in work_dir; or use --peer_python=PYTHON.

Runs of both sides alternate. Results are stored in work_dir, so the same command resumes; it ends by printing a table,
--table prints it for the results so far. --max_steps=N trains only N steps on each side, alternating, three times, and
prints the median seconds per step. --precision=bfloat16 applies to both sides.
"""

import functools
import json
import pathlib
import shutil

import reproduction
from reproduction import SIDES

SETS = {"testa": "dev", "testb": "test"}  # its name in CoNLL-2003: ours


def main():
    parser = reproduction.parser_of(__doc__)
    parser.add_argument("--data_dir", type=pathlib.Path, required=True)
    reproduction.add_step_flags(parser, epochs=3.0)
    options = parser.parse_args()
    options.checkpoint = options.work_dir / "checkpoint"
    if options.train_rows:
        options.data_dir = with_fewer_sentences(options)
    if options.only_time:
        reproduction.time_our_steps(*task_of(options), options)
        return
    if not options.table:
        reproduction.without_pooler(options.init_checkpoint, options.checkpoint)
        write_rows(options)
        run_peer = functools.partial(peer, options)
        if options.max_steps:
            output = options.work_dir / "steps.json"
            reproduction.compare_steps(options, lambda seed, steps: run_peer(seed, output, max_steps=steps)["seconds"])
            return
        runs = {"bert_tf": functools.partial(ours, options), "transformers": run_peer}
        reproduction.measure_seeds(options, {side: scoring(options, run) for side, run in runs.items()})
    print_table(options)


def with_fewer_sentences(options):
    """A copy of the data with the first sentences of eng.train only."""
    folder, left = options.work_dir / "conll2003", options.train_rows
    if not folder.exists():
        shutil.copytree(options.data_dir, folder)
        kept = []
        for block in (folder / "eng.train").read_text(encoding="utf-8").split("\n\n"):
            left -= not block.startswith("-DOCSTART-")
            if left < 0:
                break
            kept.append(block)
        (folder / "eng.train").write_text("\n\n".join(kept) + "\n", encoding="utf-8")
    return folder


def scoring(options, run):
    """The run with the scores of its tags instead of these."""

    def scored(seed, output):
        result = run(seed, output)
        return scores_of(options, result["tags"]), result["seconds"]

    return scored


def task_of(options):
    """The task as run_classifier.py makes it, and the checkpoint."""
    from bert_tf.runtime.tensorflow_startup import start_tensorflow

    start_tensorflow()
    from bert_tf.checkpoints import formats
    from bert_tf.recipes.finetune import Flags
    from bert_tf.tasks import catalog
    from bert_tf.text.tokenizer import Tokenizer

    start = formats.read(str(options.checkpoint))
    tokenizer = Tokenizer(start.vocabulary, start.lower_case)
    return catalog.get("ner/conll2003")(Flags(data_dir=str(options.data_dir)), lambda texts: tokenizer), start


def write_rows(options):
    """Writes what the peer reads: {"words": [...], "labels": [numbers]} a line, and labels.json."""
    folder = options.work_dir / "data"
    if (folder / "labels.json").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    task, _ = task_of(options)
    for split in ("train", "dev", "test"):
        source = task.split(split)
        rows = zip(source.sentences, source.by_sentence(source.word_labels), strict=True)
        lines = (json.dumps({"words": s.words, "labels": labels.tolist()}) + "\n" for s, labels in rows)
        (folder / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
    (folder / "labels.json").write_text(json.dumps(task.head.labels))


def ours(options, seed, output):
    """Runs run_classifier.py, once more for the other set; returns {"tags": {set: rows}, "seconds"}."""
    folder, tags = output.with_suffix(""), {}
    start = options.work_dir / f"start-{seed}-{options.epochs:g}"
    reproduction.initialized_by_peer(options, "transformers_ner.py", flags_of_peer(options, seed), start)
    flags = {
        "task_name": "ner/conll2003",
        "data_dir": options.data_dir,
        "init_checkpoint": start,
        "output_dir": folder,
        "max_seq_length": 512,  # no sentence is longer, so that rows are sentences on both sides
        "num_train_epochs": options.epochs,
        "random_seed": seed,
        "precision": options.precision,
        "save_checkpoints_steps": 100_000,
        "do_eval": False,
        "do_predict": True,
    }
    for name in ("testb", "testa"):
        file = {"predict_file": options.data_dir / f"eng.{name}", "do_train": name == "testb"}
        reproduction.run_ours(options, reproduction.in_order_of(start, "run_classifier.py"), {**flags, **file})
        tags[name] = read_column(folder / "predictions.txt")
    return {"tags": tags, "seconds": reproduction.seconds_of_training(folder)}


def read_column(path):
    """The last column of each sentence."""
    from bert_tf.data.conll_files import ColumnLayout, ConllFile

    return [list(sentence.tags) for sentence in ConllFile(str(path), ColumnLayout(scheme="iob1")).sentences]


def flags_of_peer(options, seed):
    data = options.work_dir / "data"
    flags = {"checkpoint": options.checkpoint, "data": data, "epochs": options.epochs, "seed": seed}
    return flags | {"precision": options.precision, **reproduction.recipe_of(options)}


def peer(options, seed, output, *, max_steps=0):
    flags = flags_of_peer(options, seed) | {"max_steps": max_steps}
    return reproduction.run_peer(options, "transformers_ner.py", flags, output.with_suffix(".answers.json"))


def scores_of(options, tags):
    """{set: F1 of entities} of {set: tags of each sentence}."""
    from bert_tf.data.conll_files import ColumnLayout, ConllFile
    from bert_tf.heads.tags import entity_scores

    result = {}
    for name in SETS:
        labels = ConllFile(str(options.data_dir / f"eng.{name}"), ColumnLayout()).sentences
        result[name] = entity_scores.scores([list(s.tags) for s in labels], tags[name])["f1"]
    return result


def print_table(options):
    done = reproduction.results(options)
    if not done[SIDES[0]]:
        print("Nothing is done on both sides yet.")
        return
    reproduction.print_head("F1 of entities")
    for name in SETS:
        scores = [[100 * run["scores"][name] for run in done[side]] for side in SIDES]
        reproduction.print_row(name, scores, reproduction.mean_seconds(done))


if __name__ == "__main__":
    main()
