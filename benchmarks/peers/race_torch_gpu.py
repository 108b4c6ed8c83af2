"""Hugging Face transformers and torch on a GPU, eagerly or compiled; see ../gpu.py. Needs no bert_tf."""

import sys

import race_torch
import turns

TEXTS = 128  # of a batch of strings


def main():
    mode = sys.argv.pop(next(i for i, flag in enumerate(sys.argv) if flag.startswith("--mode="))).partition("=")[2]
    arguments = turns.parse_arguments(__doc__, ("float16", "bfloat16"))
    import torch

    torch.manual_seed(0)
    device = "cuda" if arguments.work["device"] == "gpu" else "cpu"
    kind = {"pool": pooling, "label": labelling}.get(arguments.work["kind"], training)
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
            return model(**{name: x.to(device) for name, x in inputs.items()}).pooler_output.float().cpu().numpy()

    return pooled


def labelling(work, config, precision, device, mode):
    """From strings to labels: sorted by length, padded to the longest of each batch, up to a multiple of 16."""
    import tokenizers
    import torch
    import transformers

    tokenizer = tokenizers.BertWordPieceTokenizer(work["vocab_file"], lowercase=True)
    tokenizer.enable_truncation(work["seq_length"])
    model = transformers.BertForSequenceClassification(config).eval().to(device, precision)
    if mode == "compiled":
        model = torch.compile(model, mode="reduce-overhead", dynamic=False)

    def label():
        ids = [encoded.ids for encoded in tokenizer.encode_batch(work["texts"])]
        labels = [0] * len(ids)
        with torch.inference_mode():
            for rows in turns.batches(ids, TEXTS):
                texts = [ids[row] for row in rows] + [[]] * (min(TEXTS, len(ids)) - len(rows))  # of one shape
                batch = race_torch.inputs_of(texts, -(-max(map(len, texts)) // 16) * 16)
                logits = model(**{name: x.to(device) for name, x in batch.items()}).logits
                for row, number in zip(rows, logits.argmax(-1).tolist(), strict=False):
                    labels[row] = number
        return labels

    return label


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
