"""Fine-tunes a BERT on questions with Hugging Face transformers and torch, for squad_reproduction.py.

    python transformers_squad.py --checkpoint=FOLDER --data=FOLDER --epochs=1 --seed=1 --precision=float32 --output=FILE

Needs no bert_tf. The data folder holds train.json and eval.json in SQuAD format. The recipe: AdamW, weight decay 0.01
except for LayerNorm and biases, a tenth of the steps of warm-up, then linear decay, clipping at 1; every row has 384
tokens, and windows of a context overlap by 128; an answer is the best of 20 starts and 20 ends with at most 30 tokens,
extracted from the context by its offsets. Writes {"answers": {id: text}, "seconds": of training} as JSON; with
--max_steps no answers and the seconds of every step.
"""

import json
import time

import numpy as np
import torch
import transformers
from transformers_glue import BATCH, WARM_UP, computing_in, optimizer_of, parse, parser_of

MAX_LENGTH, SHARED = 384, 128
N_BEST, MAX_ANSWER_LENGTH = 20, 30


def read(path):
    """The questions of a file: id, question, context, and text and offset of the first answer."""
    rows = []
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            for entry in paragraph["qas"]:
                answer = entry["answers"][0]
                start = answer["answer_start"]
                rows.append(
                    {
                        "id": str(entry["id"]),
                        "question": entry["question"].lstrip(),
                        "context": paragraph["context"],
                        "answer": (start, start + len(answer["text"])),
                    }
                )
    return rows


def features_of(tokenizer, rows):
    """The windows of all questions: model inputs [W, T], their questions [W], and offsets [W, T, 2], -1 off context."""
    encoded = tokenizer(
        [row["question"] for row in rows],
        [row["context"] for row in rows],
        truncation="only_second",
        max_length=MAX_LENGTH,
        stride=SHARED,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        padding="max_length",
    )
    offsets = np.array(encoded["offset_mapping"], np.int32)
    for number in range(len(offsets)):
        is_context = np.array([sequence == 1 for sequence in encoded.sequence_ids(number)])
        offsets[number][~is_context] = -1
    inputs = {name: torch.tensor(encoded[name]) for name in ("input_ids", "token_type_ids", "attention_mask")}
    return inputs, np.array(encoded["overflow_to_sample_mapping"]), offsets


def targets_of(rows, owners, offsets):
    """The positions of the first and last token of the answer in each window; 0 if part of it lies outside."""
    targets = np.zeros([len(owners), 2], np.int64)
    for number, owner in enumerate(owners):
        start, end = rows[owner]["answer"]
        positions = np.flatnonzero(offsets[number, :, 0] >= 0)
        if len(positions) and offsets[number, positions[0], 0] <= start and offsets[number, positions[-1], 1] >= end:
            first = positions[offsets[number, positions, 0] <= start][-1]
            last = positions[offsets[number, positions, 1] >= end][0]
            targets[number] = first, last
    return torch.tensor(targets)


def train(model, inputs, targets, *, steps, batch_size, rate, seed, max_steps, saved, precision):
    """Trains and returns the seconds of every step; goes on from the file `saved` if there is one."""
    optimizer = optimizer_of(model, rate)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, int(steps * WARM_UP), steps)
    order, queue, seconds = torch.Generator().manual_seed(seed), [], []
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
    if saved.exists() and not max_steps:
        known = torch.load(saved, weights_only=False)
        queue, seconds = known["queue"], known["seconds"]
        order.set_state(known["order"])
        torch.set_rng_state(known["random"])
        for name, part in parts.items():
            part.load_state_dict(known[name])
    model.train()
    for step in range(len(seconds), max_steps or steps):
        start = time.perf_counter()
        while len(queue) < batch_size:
            queue += torch.randperm(len(targets), generator=order).tolist()
        batch, queue = queue[:batch_size], queue[batch_size:]
        goals = {"start_positions": targets[batch, 0], "end_positions": targets[batch, 1]}
        with computing_in(precision):
            loss = model(**{name: x[batch] for name, x in inputs.items()}, **goals).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - start)
        if step % 50 == 49:
            print(f"step {step + 1}/{steps} loss {loss.item():.3f}", flush=True)
            known = {name: part.state_dict() for name, part in parts.items()}
            known |= {"queue": queue, "seconds": seconds, "order": order.get_state(), "random": torch.get_rng_state()}
            torch.save(known, saved.with_suffix(".new"))
            saved.with_suffix(".new").replace(saved)
    return seconds


def predict(model, tokenizer, rows, precision):
    """{id: text}."""
    inputs, owners, offsets = features_of(tokenizer, rows)
    candidates = [[] for _ in rows]
    model.eval()
    for first in range(0, len(owners), BATCH):
        with torch.no_grad(), computing_in(precision):
            outputs = model(**{name: x[first : first + BATCH] for name, x in inputs.items()})
        logits = zip(*(x.float().numpy() for x in (outputs.start_logits, outputs.end_logits)), strict=True)
        for number, (starts, ends) in enumerate(logits, first):
            candidates[owners[number]] += spans(starts, ends, offsets[number])
    return {row["id"]: best(row["context"], spans) for row, spans in zip(rows, candidates, strict=True)}


def spans(start_logits, end_logits, offsets):
    """The legal answers of a window: (score, start, end) in characters."""
    candidates = []
    for start in np.argsort(-start_logits)[:N_BEST]:
        for end in np.argsort(-end_logits)[:N_BEST]:
            if offsets[start, 0] >= 0 and offsets[end, 0] >= 0 and 0 <= end - start < MAX_ANSWER_LENGTH:
                score = float(start_logits[start] + end_logits[end])
                candidates.append((score, int(offsets[start, 0]), int(offsets[end, 1])))
    return candidates


def best(context, candidates):
    """The text of the best answer that has one."""
    for _, start, end in sorted(candidates, key=lambda candidate: -candidate[0])[:N_BEST]:
        if context[start:end]:
            return context[start:end]
    return ""


def main():
    arguments = parse(parser_of(__doc__))
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.checkpoint)
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(arguments.checkpoint)
    rows = read(arguments.data / "train.json")
    if arguments.max_steps:
        rows = rows[: 4 * arguments.train_batch_size * arguments.max_steps]
    inputs, owners, offsets = features_of(tokenizer, rows)
    steps = max(1, int(len(owners) / arguments.train_batch_size * arguments.epochs))
    targets = targets_of(rows, owners, offsets)
    recipe = {"batch_size": arguments.train_batch_size, "rate": arguments.learning_rate, "steps": steps}
    recipe |= {"max_steps": arguments.max_steps, "precision": arguments.precision}
    seconds = train(model, inputs, targets, seed=arguments.seed, saved=arguments.output.with_suffix(".pt"), **recipe)
    answers = {}
    if not arguments.max_steps:
        answers = predict(model, tokenizer, read(arguments.data / "eval.json"), arguments.precision)
    results = {"answers": answers, "seconds": seconds if arguments.max_steps else sum(seconds)}
    arguments.output.write_text(json.dumps(results), encoding="utf-8")


if __name__ == "__main__":
    main()
