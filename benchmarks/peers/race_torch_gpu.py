"""Hugging Face transformers and torch on a GPU, eagerly or compiled; see ../gpu.py. Needs no bert_tf."""

import sys

import race_torch
import turns


def main():
    mode = sys.argv.pop(next(i for i, flag in enumerate(sys.argv) if flag.startswith("--mode="))).partition("=")[2]
    arguments = turns.parse_arguments(__doc__, ("float16", "bfloat16"))
    import torch

    torch.manual_seed(0)
    device = "cuda" if arguments.work["device"] == "gpu" else "cpu"
    kind = pooling if arguments.work["kind"] == "pool" else training
    config = race_torch.config_of(arguments)
    run = kind(arguments.work, config, getattr(torch, arguments.precision), device, mode)
    turns.serve(turns.repeated(run, arguments.work["repeats"]))


def pooling(work, config, precision, device, mode):
    """From ids on the host to pooled vectors on the host."""
    import torch
    import transformers

    model = transformers.BertModel(config).eval().to(device, precision)
    if mode == "compiled":
        model = torch.compile(model, mode="reduce-overhead")
    inputs = race_torch.inputs_of(work["texts"])

    def pooled():
        with torch.inference_mode():
            return model(**{name: x.to(device) for name, x in inputs.items()}).pooler_output.cpu().numpy()

    return pooled


def training(work, config, precision, device, mode):
    """A step of fused AdamW on float32 weights, with autocast and clipping."""
    import torch
    import transformers

    (texts,) = work["batches"]
    batch = race_torch.inputs_of(texts, work["seq_length"])
    if work["kind"] == "pretrain":
        labels = torch.full([len(texts), work["seq_length"]], -100)
        labels[:, 1 : 1 + work["num_predictions"]] = 1000
        batch |= {"labels": labels, "next_sentence_label": torch.zeros(len(texts), dtype=torch.long)}
        model = transformers.BertForPreTraining(config)
    else:
        batch["labels"] = torch.zeros(len(texts), dtype=torch.long)
        model = transformers.BertForSequenceClassification(config)
    model = model.to(device).train()
    forward = torch.compile(model) if mode == "compiled" else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, weight_decay=0.01, fused=True)

    def step():
        with torch.autocast(device, precision):
            loss = forward(**{name: x.to(device) for name, x in batch.items()}).loss
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return float(norm)

    return step


if __name__ == "__main__":
    main()
