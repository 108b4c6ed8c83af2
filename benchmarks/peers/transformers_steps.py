"""Trains on given batches with Hugging Face transformers and torch, for glue_steps.py; needs no bert_tf.

    python transformers_steps.py --start=FOLDER --batches=FILE --warm_up=4 --output=FILE

The batches are an .npz file with token_ids, segment_ids [N, B, T], lengths and labels [N, B] of N steps. The recipe is
that of transformers_glue.py, without dropout. Writes loss and gradient norm of each step as JSON.
"""

import argparse
import json
import os
import pathlib

import numpy as np
import torch
import transformers
from transformers_glue import optimizer_of


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("start", "batches", "output"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--warm_up", type=int, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    none = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"), 0.0)
    config = transformers.AutoConfig.from_pretrained(arguments.start, **none)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(arguments.start, config=config).train()
    steps = np.load(arguments.batches)
    optimizer = optimizer_of(model)
    number = len(steps["labels"])
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, arguments.warm_up, number)
    results = []
    for step in range(number):
        ids, segments, lengths, labels = (
            torch.tensor(steps[name][step]).long() for name in ("token_ids", "segment_ids", "lengths", "labels")
        )
        used = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
        loss = model(input_ids=ids, token_type_ids=segments, attention_mask=used, labels=labels).loss
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        results.append({"loss": loss.item(), "gradient_norm": norm.item()})
    arguments.output.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
