"""OpenVINO in a race with itself: a folder written by bert_tf, or OpenVINO's own conversion from transformers.

See ../openvino_export.py. Needs no bert_tf.
"""

import pathlib

import turns


def main():
    work = turns.parse_arguments(__doc__).work
    import numpy as np
    import openvino

    model = ours(work) if work["side"] == "bert_tf" else theirs(work)
    compiled = openvino.Core().compile_model(model, "CPU", {"PERFORMANCE_HINT": "LATENCY"})
    ids = np.random.default_rng(0).integers(1000, 30000, [1, work["seq_length"]])
    if work["side"] == "bert_tf":
        inputs = {"token_ids": ids, "segment_ids": 0 * ids, "lengths": [work["seq_length"]]}
        inputs = {name: np.array(value, np.int32) for name, value in inputs.items()}
    else:
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    turns.serve(lambda: [compiled(inputs)[0] for _ in range(work["calls"])])


def ours(work):
    import openvino

    return openvino.Core().read_model(pathlib.Path(work["folder"]) / "model.xml")


def theirs(work):
    import openvino
    import torch
    import transformers

    model = transformers.BertModel.from_pretrained(work["folder"]).eval()
    example = {name: torch.ones([2, 8], dtype=torch.long) for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        return openvino.convert_model(model, example_input=example)


if __name__ == "__main__":
    main()
