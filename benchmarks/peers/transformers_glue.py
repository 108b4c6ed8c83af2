r"""Fine-tunes a BERT with Hugging Face transformers and torch, for glue_reproduction.py; needs no bert_tf.

    python transformers_glue.py --checkpoint=FOLDER --data=FOLDER --size=2 --epochs=3 --seed=1 --precision=float32 \
        --output=FILE

The data folder holds train.jsonl and dev.jsonl, {"texts": [...], "label": number} per line. size 1: a regression.
The recipe: AdamW with bias correction, weight decay 0.01 except for LayerNorm and biases, a tenth of the steps of
warm-up, then linear decay, clipping at 1, rows padded to the longest of their batch. Writes logits on dev and seconds
as JSON.

With --start=FOLDER instead of --output it writes what the seed determines, and stops: the model before the first step,
with the initial pooler and head, and order.json, the row numbers of each batch.
"""

import argparse
import json
import os
import pathlib
import time

import torch
import transformers

MAX_LENGTH, BATCH, RATE, WARM_UP = 128, 32, 5e-5, 0.1


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def inputs_of(tokenizer, rows):
    texts = list(zip(*(row["texts"] for row in rows), strict=True))
    return tokenizer(*map(list, texts), truncation=True, max_length=MAX_LENGTH, padding=True, return_tensors="pt")


def parser_of(description):
    """The flags that all of these programs have; --start and --output are not needed both."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("checkpoint", "data"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    for name in ("output", "start"):
        parser.add_argument(f"--{name}", type=pathlib.Path)
    for name, kind in (("epochs", float), ("seed", int), ("precision", str)):
        parser.add_argument(f"--{name}", type=kind, required=True)
    parser.add_argument("--max_steps", type=int, default=0)
    parser.add_argument("--train_batch_size", type=int, default=BATCH)
    parser.add_argument("--learning_rate", type=float, default=RATE)
    return parser


def parse(parser):
    """The flags of the command line, after which torch draws by their seed, on all cores."""
    arguments = parser.parse_args()
    transformers.set_seed(arguments.seed)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    return arguments


def optimizer_of(model, rate=RATE):
    """AdamW as in the original's groups: no decay of LayerNorm and biases."""
    groups = {True: [], False: []}
    for name, parameter in model.named_parameters():
        groups["bias" in name or "LayerNorm" in name].append(parameter)
    return torch.optim.AdamW(
        [{"params": groups[False], "weight_decay": 0.01}, {"params": groups[True], "weight_decay": 0.0}],
        lr=rate,
        eps=1e-6,
    )


def order_of(count, epochs, seed, size=BATCH):
    """The numbers of the rows of each batch; one may hold the end of an epoch and the beginning of the next."""
    order, queue = torch.Generator().manual_seed(seed), []
    batches = []
    for _ in range(max(1, int(count / size * epochs))):
        while len(queue) < size:
            queue += torch.randperm(count, generator=order).tolist()
        batches.append(queue[:size])
        queue = queue[size:]
    return batches


def computing_in(precision):
    """The context of a model's calls; bfloat16 is torch's mixed precision."""
    return torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16")


def train(model, inputs_of_batch, batches, arguments):
    """Trains on `inputs_of_batch(numbers of rows)`; returns the seconds of every step."""
    optimizer, seconds = optimizer_of(model, arguments.learning_rate), []
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, int(len(batches) * WARM_UP), len(batches))
    model.train()
    for step, numbers in enumerate(batches[: arguments.max_steps or None]):
        start = time.perf_counter()
        inputs = inputs_of_batch(numbers)
        with computing_in(arguments.precision):
            loss = model(**inputs).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - start)
        if step % 50 == 0:
            print(f"step {step}/{len(batches)} loss {loss.item():.3f}", flush=True)
    return seconds


def write_start(arguments, model, batches):
    """Writes what the seed determines."""
    model.save_pretrained(arguments.start)
    (arguments.start / "order.json").write_text(json.dumps(batches))


def predict(model, tokenizer, rows, precision):
    model.eval()
    logits = []
    with torch.no_grad(), computing_in(precision):
        for first in range(0, len(rows), BATCH):
            logits += model(**inputs_of(tokenizer, rows[first : first + BATCH])).logits.tolist()
    return logits


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--size", type=int, required=True)
    arguments = parse(parser)
    kind = transformers.AutoModelForSequenceClassification
    model = kind.from_pretrained(arguments.checkpoint, num_labels=arguments.size)
    rows = read(arguments.data / "train.jsonl")
    batches = order_of(len(rows), arguments.epochs, arguments.seed, arguments.train_batch_size)
    if arguments.start:
        return write_start(arguments, model, batches)
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.checkpoint)

    def inputs_of_batch(numbers):
        batch = [rows[number] for number in numbers]
        labels = [row["label"] for row in batch]
        labels = torch.tensor(labels, dtype=torch.float32 if arguments.size == 1 else torch.long)
        return {**inputs_of(tokenizer, batch), "labels": labels}

    seconds = sum(train(model, inputs_of_batch, batches, arguments))
    logits = predict(model, tokenizer, read(arguments.data / "dev.jsonl"), arguments.precision)
    arguments.output.write_text(json.dumps({"logits": logits, "seconds": seconds}))


if __name__ == "__main__":
    main()
