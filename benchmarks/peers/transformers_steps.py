"""Trains on given batches with Hugging Face transformers and torch, for glue_steps.py; needs no bert_tf.

    python transformers_steps.py --start=FOLDER --batches=FILE --warm_up=4 --output=FILE

The batches are an .npz file with token_ids, segment_ids [N, B, T], lengths and labels [N, B] of N steps; of questions
start_positions and end_positions in place of labels. The recipe is that of transformers_glue.py, without dropout. The
library's loss of questions counts padding; here it does not, as in the implementation it is compared with. Writes loss
and gradient norm of each step as JSON.
"""

import argparse
import json
import os
import pathlib

import numpy as np
import torch
import transformers
from transformers_glue import RATE, optimizer_of


def inputs_and_targets(steps, step):
    """The arguments of the model, and the batch that holds the targets."""
    batch = {name: torch.tensor(array[step]).long() for name, array in steps.items()}
    longest = int(batch["lengths"].max())
    used = (torch.arange(longest) < batch["lengths"][:, None]).long()
    inputs = {"input_ids": batch["token_ids"][:, :longest], "token_type_ids": batch["segment_ids"][:, :longest]}
    return {**inputs, "attention_mask": used}, batch


def loss_of(model, inputs, batch):
    if "labels" in batch:
        return model(**inputs, labels=batch["labels"]).loss
    outputs, is_padding = model(**inputs), inputs["attention_mask"] == 0
    losses = [
        torch.nn.functional.cross_entropy(logits.masked_fill(is_padding, -1e9), batch[f"{side}_positions"])
        for side, logits in (("start", outputs.start_logits), ("end", outputs.end_logits))
    ]
    return sum(losses) / 2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("start", "batches", "output"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--warm_up", type=int, required=True)
    parser.add_argument("--learning_rate", type=float, default=RATE)
    arguments = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    none = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"), 0.0)
    config = transformers.AutoConfig.from_pretrained(arguments.start, **none)
    steps = np.load(arguments.batches)
    kind = "QuestionAnswering" if "start_positions" in steps else "SequenceClassification"
    model = getattr(transformers, f"AutoModelFor{kind}").from_pretrained(arguments.start, config=config).train()
    optimizer = optimizer_of(model, arguments.learning_rate)
    number = len(steps["lengths"])
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, arguments.warm_up, number)
    results = []
    for step in range(number):
        loss = loss_of(model, *inputs_and_targets(steps, step))
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        results.append({"loss": loss.item(), "gradient_norm": norm.item()})
    arguments.output.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
