"""MRPC by `model.fit` and by this package's training loop, from the same checkpoint with the same recipe.

    python benchmarks/keras_fit.py --init_checkpoint=all-minilm-l6-v2 --data_dir=GLUE --work_dir=FOLDER

AdamW with bias correction, weight decay 0.01 except on LayerNorm and biases, gradients clipped to a norm of 1, linear
warm-up over a tenth of the steps and linear decay. Prints accuracy and F1 of every seed, means and deviations.
"""

import argparse
import csv
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BATCH, RATE, LENGTH, DECAY, WARMUP = 32, 5e-5, 128, 0.01, 0.1
SCORES = ("accuracy", "f1")


def read(path):
    """The two texts and the label of every row."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [[row[f"#{number} String"] for row in rows] for number in (1, 2)], [int(row["Quality"]) for row in rows]


def without_padding(inputs, labels):
    """The batch with rows as long as the longest text."""
    import tensorflow as tf

    longest = tf.reduce_max(inputs["lengths"])
    return {name: x[:, :longest] if len(x.shape) == 2 else x for name, x in inputs.items()}, labels


def by_fit(arguments, seed):
    """Trains with Keras alone: its optimizer, its loop, its dropout seeds."""
    import keras
    import numpy as np
    import sklearn.metrics
    import tensorflow as tf

    import bert_tf
    from bert_tf.model import heads, weights
    from bert_tf.text.tokenizer import pack

    loaded = bert_tf.load(arguments.init_checkpoint)
    keras.utils.set_random_seed(seed)
    model = heads.Classifier(loaded.config, 2)
    weights.assign(
        model, {name: variable.numpy() for name, variable in weights.variables_by_name(loaded.model).items()}
    )
    datasets = {}
    for split in ("train", "dev"):
        texts, labels = read(arguments.data_dir / "MRPC" / f"{split}.tsv")
        inputs = pack(loaded.tokenizer, texts, LENGTH)
        datasets[split] = tf.data.Dataset.from_tensor_slices((inputs, {"logits": labels})), labels
    steps = int(len(datasets["train"][1]) / BATCH * arguments.epochs)
    warmup = int(steps * WARMUP)
    decay = keras.optimizers.schedules.PolynomialDecay(RATE, steps - warmup, 0.0)
    optimizer = keras.optimizers.AdamW(RATE, weight_decay=DECAY, epsilon=1e-6, global_clipnorm=1.0)
    set_rate = keras.callbacks.LambdaCallback(
        on_train_batch_begin=lambda step, logs: setattr(
            optimizer, "learning_rate", RATE * step / warmup if step < warmup else float(decay(step - warmup))
        )
    )
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, {"logits": loss}, jit_compile=False)
    train, dev = datasets["train"][0], datasets["dev"][0]
    train = train.shuffle(4000, seed=seed).repeat().batch(BATCH).map(without_padding)
    model.fit(train, steps_per_epoch=steps, epochs=1, verbose=2, callbacks=[set_rate])
    expected = np.array(datasets["dev"][1])
    predicted = model.predict(dev.batch(64).map(without_padding), verbose=0)["logits"].argmax(-1)
    return {"accuracy": float(np.mean(predicted == expected)), "f1": sklearn.metrics.f1_score(expected, predicted)}


def by_loop(arguments, seed):
    """Trains with run_classifier.py."""
    folder = arguments.work_dir / f"loop-{seed}"
    flags = {
        "task_name": "MRPC",
        "data_dir": arguments.data_dir,
        "init_checkpoint": arguments.init_checkpoint,
        "output_dir": folder,
        "num_train_epochs": arguments.epochs,
        "train_batch_size": BATCH,
        "learning_rate": RATE,
        "max_seq_length": LENGTH,
        "warmup_proportion": WARMUP,
        "optimizer": "adamw_corrected",
        "head_learning_rate": "same",  # fit has one for all weights
        "keep_best": False,  # fit ends with the last weights too
        "precision": "float32",
        "random_seed": seed,
        "do_export": False,
    }
    command = [sys.executable, str(ROOT / "run_classifier.py"), *(f"--{name}={value}" for name, value in flags.items())]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    results = json.loads((folder / "eval_results.json").read_text())
    return {name: results[name] for name in SCORES}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("init_checkpoint", "data_dir", "work_dir"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--epochs", type=float, default=3.0)
    parser.add_argument("--seeds", default="1,2,3", help="comma-separated")
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    results = {"fit": [], "loop": []}
    for seed in map(int, arguments.seeds.split(",")):
        for side, train in (("loop", by_loop), ("fit", by_fit)):
            results[side].append(train(arguments, seed))
            print(f"seed {seed}  {side:4}  {results[side][-1]}", flush=True)
    for side, scores in results.items():
        for name in SCORES:
            values = [100 * score[name] for score in scores]
            spread = statistics.stdev(values) if len(values) > 1 else 0.0
            print(f"{side:4}  {name:8}  {statistics.mean(values):.1f} ± {spread:.1f}")


if __name__ == "__main__":
    main()
