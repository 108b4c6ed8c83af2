"""OpenVINO in a race, on a model of transformers that it converts: see race_bert_tf.py. Needs no bert_tf."""

import argparse
import json
import pathlib

import turns


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", required=True)
    parser.add_argument("--size", default="base")
    given = parser.parse_args()
    work = json.loads(pathlib.Path(given.work).read_text(encoding="utf-8"))
    import openvino
    import torch
    import transformers

    layers, width, heads = turns.SHAPES[given.size]
    config = transformers.BertConfig(
        vocab_size=work["vocab_size"],
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=4 * width,
    )
    kind = transformers.BertModel if work["kind"] == "encode" else transformers.BertForSequenceClassification
    example = {name: torch.ones([2, 8], dtype=torch.long) for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        converted = openvino.convert_model(kind(config).eval(), example_input=example)
    compiled = openvino.Core().compile_model(converted, "CPU", {"PERFORMANCE_HINT": "LATENCY"})
    turns.serve(encoding(work, compiled) if work["kind"] == "encode" else classifying(work, compiled))


def inputs_of(texts):
    import numpy as np

    padded, lengths = turns.padded(texts)
    mask = np.arange(len(padded[0]))[None, :] < np.array(lengths)[:, None]
    return {"input_ids": np.array(padded), "attention_mask": mask.astype(np.int64)}


def encoding(work, compiled):
    texts = work["texts"]
    inputs = [inputs_of([texts[i] for i in rows]) for rows in turns.batches(texts, work["batch_size"])]
    return lambda: [compiled(batch)[0] for batch in inputs]


def classifying(work, compiled):
    import tokenizers

    tokenizer = tokenizers.BertWordPieceTokenizer(work["vocab_file"])

    def logits():
        texts = [encoded.ids for encoded in tokenizer.encode_batch(work["texts"])]
        for rows in turns.batches(texts, work["batch_size"]):
            compiled(inputs_of([texts[i] for i in rows]))[0]

    return logits


if __name__ == "__main__":
    main()
