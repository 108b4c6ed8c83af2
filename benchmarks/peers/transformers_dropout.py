"""Draws dropout many times with Hugging Face transformers and torch, for dropout.py; needs no bert_tf.

    python transformers_dropout.py --start=FOLDER --batches=FILE --draws=200 --output=FILE \
        --hidden_dropout_prob=0.1 --attention_probs_dropout_prob=0.1 --classifier_dropout=0.1

The file is as in transformers_steps.py, of one step. Writes {quantity: its value in each draw} as JSON: the loss and
the gradient norm of each part of the model, without changing a weight.
"""

import argparse
import json
import os
import pathlib
import re

import numpy as np
import torch
import transformers
from transformers_steps import inputs_and_targets, loss_of

RATES = ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout")
HEADS = {"qa_outputs": "span", "classifier": "classifier"}


def part_of(name):
    """As `part_of` in dropout.py, by the name of the library."""
    if match := re.match(r"bert\.encoder\.layer\.(\d+)\.(attention)?", name):
        return f"layer {match[1]} {match[2] or 'feed-forward'}"
    first, second = name.split(".")[:2]
    return second if first == "bert" else HEADS[first]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("start", "batches", "output"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--draws", type=int, required=True)
    for name in RATES:
        parser.add_argument(f"--{name}", type=float, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    rates = {name: getattr(arguments, name) for name in RATES}
    config = transformers.AutoConfig.from_pretrained(arguments.start, **rates)
    steps = np.load(arguments.batches)
    kind = "QuestionAnswering" if "start_positions" in steps else "SequenceClassification"
    model = getattr(transformers, f"AutoModelFor{kind}").from_pretrained(arguments.start, config=config).train()
    inputs, batch = inputs_and_targets(steps, 0)
    draws = {}
    for _ in range(arguments.draws):
        model.zero_grad()
        loss = loss_of(model, inputs, batch)
        loss.backward()
        squares = {"loss": loss.item() ** 2}
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                squares[part_of(name)] = squares.get(part_of(name), 0.0) + float(parameter.grad.square().sum())
        for part, square in squares.items():
            draws.setdefault(part, []).append(square**0.5)
    arguments.output.write_text(json.dumps(draws))


if __name__ == "__main__":
    main()
