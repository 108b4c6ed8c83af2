r"""Seconds to export a pre-trained model of twelve narrow layers, to load the export, and to its first answer.

    python benchmarks/export_seconds.py --vocab_file=vocab.txt --clones=.,FOLDER

Several clones of this project, for example of two commits, take turns, ROUNDS times, each time in a new process. The
layers are narrow, so that the work on graphs is measured rather than the size of the weights.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 3
NAMES = ("export", "load", "first answer")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocab_file", required=True)
    parser.add_argument("--clones", default=".", help="folders, comma-separated")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(seconds(options.measure, options.vocab_file)))
        return
    rounds = {clone: [] for clone in options.clones.split(",")}
    for _ in range(ROUNDS):
        for clone, results in rounds.items():
            command = [sys.executable, __file__, f"--vocab_file={options.vocab_file}", f"--measure={clone}"]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            results.append(json.loads(output.splitlines()[-1]))
    for clone, results in rounds.items():
        medians = [statistics.median(each) for each in zip(*results, strict=True)]
        print(f"{clone}: " + ", ".join(f"{name} {median:.2f} s" for name, median in zip(NAMES, medians, strict=True)))


def seconds(clone, vocab_file):
    """Seconds of each of NAMES, in this process."""
    sys.path.insert(0, str(pathlib.Path(clone).resolve()))
    from bert_tf.runtime.tensorflow_startup import start_tensorflow

    start_tensorflow()
    import tensorflow as tf

    from bert_tf.config.bert_config import BertConfig
    from bert_tf.config.train_config import MaskingConfig
    from bert_tf.export.saved_model import export
    from bert_tf.tasks import catalog
    from bert_tf.tasks.pretraining.mask_filling import task_name
    from bert_tf.text import tokenizer_kinds

    tokenizer = tokenizer_kinds.from_file(vocab_file, True)
    shape = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64, "num_hidden_layers": 12}
    config = BertConfig(vocab_size=tokenizer.size, **shape)
    task = catalog.get(task_name(config))({}, tokenizer, MaskingConfig())
    model, times = task.create_model(config), [time.perf_counter()]
    texts = {"text": ["The fox [MASK] over the hill."]}
    examples = {"serving_default": texts, "next_sentence": {"text_a": ["A fox."], "text_b": ["It ran."]}}
    with tempfile.TemporaryDirectory() as folder:
        export(task, model, tokenizer, f"{folder}/export", examples=examples)
        times.append(time.perf_counter())
        loaded = tf.saved_model.load(f"{folder}/export")
        times.append(time.perf_counter())
        loaded.signatures["serving_default"](tf.constant(texts["text"]))["scores"].numpy()
        times.append(time.perf_counter())
    return [after - before for before, after in zip(times[:-1], times[1:], strict=True)]


if __name__ == "__main__":
    main()
