"""OpenVINO in a race, on a model of transformers that it converts: see race_bert_tf.py. Needs no bert_tf."""

import turns
from race_torch import config_of


def main():
    arguments = turns.parse_arguments(__doc__, ("bfloat16", "float32"))
    import openvino
    import torch
    import transformers

    config = config_of(arguments)
    kind = transformers.BertModel if arguments.work["kind"] == "encode" else transformers.BertForSequenceClassification
    example = {name: torch.ones([2, 8], dtype=torch.long) for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        converted = openvino.convert_model(kind(config).eval(), example_input=example)
    properties = {"PERFORMANCE_HINT": "LATENCY"}  # on a processor with bfloat16 it computes in that
    if arguments.precision == "float32":
        properties["INFERENCE_PRECISION_HINT"] = "f32"
    compiled = openvino.Core().compile_model(converted, "CPU", properties)
    turns.serve(
        encoding(arguments.work, compiled)
        if arguments.work["kind"] == "encode"
        else classifying(arguments.work, compiled)
    )


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
