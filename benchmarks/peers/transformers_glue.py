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


def add_recipe_flags(parser):
    parser.add_argument("--train_batch_size", type=int, default=BATCH)
    parser.add_argument("--learning_rate", type=float, default=RATE)


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


def train(model, tokenizer, rows, *, batches, rate, size, precision):
    optimizer = optimizer_of(model, rate)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, int(len(batches) * WARM_UP), len(batches))
    model.train()
    for step, numbers in enumerate(batches):
        batch = [rows[number] for number in numbers]
        labels = torch.tensor([row["label"] for row in batch], dtype=torch.float32 if size == 1 else torch.long)
        with computing_in(precision):
            loss = model(**inputs_of(tokenizer, batch), labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 50 == 0:
            print(f"step {step}/{len(batches)} loss {loss.item():.3f}", flush=True)


def predict(model, tokenizer, rows, precision):
    model.eval()
    logits = []
    with torch.no_grad(), computing_in(precision):
        for first in range(0, len(rows), BATCH):
            logits += model(**inputs_of(tokenizer, rows[first : first + BATCH])).logits.tolist()
    return logits


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("checkpoint", "data"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    for name in ("output", "start"):
        parser.add_argument(f"--{name}", type=pathlib.Path)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--epochs", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--precision", required=True)
    add_recipe_flags(parser)
    arguments = parser.parse_args()
    transformers.set_seed(arguments.seed)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        arguments.checkpoint, num_labels=arguments.size
    )
    rows = read(arguments.data / "train.jsonl")
    batches = order_of(len(rows), arguments.epochs, arguments.seed, arguments.train_batch_size)
    if arguments.start:
        model.save_pretrained(arguments.start)
        (arguments.start / "order.json").write_text(json.dumps(batches))
        return
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.checkpoint)
    start = time.monotonic()
    recipe = {"rate": arguments.learning_rate, "size": arguments.size, "precision": arguments.precision}
    train(model, tokenizer, rows, batches=batches, **recipe)
    seconds = time.monotonic() - start
    logits = predict(model, tokenizer, read(arguments.data / "dev.jsonl"), arguments.precision)
    arguments.output.write_text(json.dumps({"logits": logits, "seconds": seconds}))


if __name__ == "__main__":
    main()
