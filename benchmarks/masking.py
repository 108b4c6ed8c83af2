"""Measures how many pre-training rows per second are masked, compared with Hugging Face's collator.

    python benchmarks/masking.py --records=RUN/records --vocab_file=vocab.txt --work_dir=FOLDER

RUN is a run folder of run_pretraining.py (--prepare_only suffices), with rows of 128 tokens and up to 20 masks. A round
is ROWS rows in batches of 32. The peer does less: its rows are in memory, and it has no next-sentence labels.
"""

import argparse
import json
import pathlib
import statistics
import sys

import race

ROWS, BATCH, ROUNDS = 8192, 32, 7


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("records", "vocab_file", "work_dir"):
        parser.add_argument(f"--{name}", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.work_dir.mkdir(parents=True, exist_ok=True)
    ids = arguments.work_dir / "masking_ids.json"
    ids.write_text(json.dumps(first_rows(arguments.records)))
    known = {"records": str(arguments.records), "vocab_file": str(arguments.vocab_file), "ids": str(ids)}
    contenders = []
    for side, environment in (("bert_tf", None), ("transformers", "torch")):
        file = arguments.work_dir / f"masking_{side}.json"
        file.write_text(json.dumps({**known, "side": side, "rows": ROWS, "batch": BATCH}))
        contenders.append(race.Contender(side, "race_masking.py", (f"--work={file}",), environment))
    runners = race.race(contenders, ROUNDS, arguments.work_dir)
    rates = [f"{each.contender.name} {ROWS / statistics.median(each.seconds):,.0f} rows/s" for each in runners]
    text = f"{race.table(runners)}\n\n{', '.join(rates)}."
    print(text)
    race.save_section(f"Masking on the fly, {ROWS:,} rows", text)


def first_rows(folder):
    """Lists of ids of the first ROWS training rows."""
    sys.path.insert(0, str(race.HERE.parent))
    from bert_tf.data.pretraining import records

    files = records.open_records(folder)["train_files"]
    import tensorflow as tf

    rows = []
    for raw in tf.data.TFRecordDataset(files).take(ROWS):
        features = tf.train.Example.FromString(raw.numpy()).features.feature
        rows.append(list(features["token_ids"].int64_list.value))
    return rows


if __name__ == "__main__":
    main()
