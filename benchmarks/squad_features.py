"""Measures question windows per second, and the memory of the pipeline that makes them.

    python benchmarks/squad_features.py --vocab_file=vocab.txt --file=train-v1.1.json [--file=MORE] [--work_dir=FOLDER]

Reads the files together, builds the batches that run_squad.py trains and evaluates on (rows of 384 tokens, stride 128),
and prints one row for each: windows per second, the median of --repeats passes of --seconds, and the peak memory of the
process, in MiB. With --work_dir (where the peer's environment is created) it then races the recipe of transformers,
from questions to batches of windows, and writes the table to benchmarks/README.md.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import sys
import time

import race

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", action="append", required=True)
    parser.add_argument("--vocab_file", required=True)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--work_dir", type=pathlib.Path)
    options = parser.parse_args()
    from bert_tf.runtime.tensorflow_startup import start_tensorflow

    start_tensorflow()
    from bert_tf.tasks.question_answering import question_splits, questions
    from bert_tf.tasks.question_answering.question_splits import QuestionSplit
    from bert_tf.tasks.question_answering.question_windows import QuestionWindows
    from bert_tf.text import vocabulary
    from bert_tf.text.tokenizer import Tokenizer

    all_questions = [question for path in options.file for question in questions.read(path)]
    tokenizer, windows = Tokenizer(vocabulary.read(options.vocab_file)), QuestionWindows()
    print(
        f"{len(all_questions):,} questions, {os.cpu_count()} cores; {memory():,.0f} MiB with TensorFlow and the files"
    )
    start = time.perf_counter()
    split = QuestionSplit(all_questions, tokenizer, windows)
    seconds = time.perf_counter() - start
    print("| pass | windows/s | peak memory, MiB |\n|--|--:|--:|")
    count = len(split.owners)
    print(f"| preparation, {count:,} windows in {seconds:.1f} s | {count / seconds:,.0f} | {memory():,.0f} |")
    for name, part, seed in (("training", split.trainable(), 1), ("evaluation", split, None)):
        dataset = question_splits.batches(part, options.batch_size, tokenizer=tokenizer, windows=windows, seed=seed)
        speeds = [speed(dataset, options) for _ in range(options.repeats)]
        print(f"| {name} | {statistics.median(speeds):,.0f} | {memory():,.0f} |", flush=True)

    if options.work_dir:
        race_with_transformers(options, count)


def race_with_transformers(options, count):
    """From all questions to their windows in batches, in turns."""
    options.work_dir.mkdir(parents=True, exist_ok=True)
    contenders = []
    for side, environment in (("bert_tf", None), ("transformers", "torch")):
        work = options.work_dir / f"squad_features_{side}.json"
        work.write_text(json.dumps({"side": side, "files": options.file, "vocab_file": options.vocab_file}))
        flags = (f"--work={work}",)
        contenders.append(race.Contender(side, "race_squad_features.py", flags, environment))
    runners = race.race(contenders, options.repeats, options.work_dir)
    rates = [f"{each.contender.name} {count / statistics.median(each.seconds):,.0f} windows/s" for each in runners]
    text = f"{race.table(runners)}\n\n{', '.join(rates)}."
    print(text)
    race.save_section("Question windows, from text to batches", text)


def speed(dataset, options):
    """Windows in a second, without the first batch, which sets everything up."""
    batches = iter(dataset.repeat())
    next(batches)
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < options.seconds:
        next(batches)
        count += options.batch_size
    return count / (time.perf_counter() - start)


def memory():
    """The most memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
