"""Lowers a program of bert_tf to HLO, as for an accelerator; see ../programs.py.

    lower_program.py SOURCE FILE pool|fine_tune|pretrain SIZE ROWS WIDTH encoder|gradients|update gpu|tpu

SOURCE: the checkout of bert_tf.
"""

import os
import pathlib
import sys

import race_bert_tf
import turns


def main():
    source, file, kind, size, rows, width, part, platform = sys.argv[1:]
    sys.path.insert(0, source)
    rows, width = int(rows), int(width)
    import tensorflow as tf

    from bert_tf.config.bert_config import BertConfig
    from bert_tf.model import heads
    from bert_tf.runtime import backend
    from bert_tf.training import distribute
    from bert_tf.training import precision as precisions

    backend.platform = lambda: platform
    layers, hidden, num_heads = turns.SHAPES[size]
    shape = {"num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": num_heads}
    options = {"vocab_size": int(os.environ["VOCAB_SIZE"]), "intermediate_size": 4 * hidden, "hidden_act": "gelu_erf"}
    config = BertConfig(**options, **shape)
    texts = [[5] * width] * rows
    work = {"kind": kind, "texts": texts, "batches": [texts], "seq_length": width, "jit_compile": "true"}
    work["num_predictions"] = min(77 if width > 128 else 20, width // 2)
    if part == "encoder":
        model = heads.BertModel(config, dtype=precisions.policy("float16", is_trained=False)).encoder
        function, arguments = lambda inputs: model(inputs)["pooled"], [race_bert_tf.rows_of(texts, width)]
    else:
        training = {"fine_tune": race_bert_tf.fine_tuning, "pretrain": race_bert_tf.pretraining}[kind]
        steps = training(
            work, config, precisions.policy("bfloat16", is_trained=True), distribute.create_strategy("one_device")
        )
        trainer, batch = steps.trainer, steps.batches[0]
        sums = {name: tf.reduce_sum(weights) for name, weights in trainer.task.loss_weights(batch).items()}
        gradients = [tf.zeros(variable.shape) for variable in trainer.trainable.values()]
        parts = {"gradients": (trainer._forward_backward, [batch, sums, tf.constant([1, 2])])}
        function, arguments = {**parts, "update": (trainer._update, [gradients])}[part]
    pathlib.Path(file).write_bytes(lowered(function, *arguments))


def lowered(function, *arguments):
    """The HLO of a function, as bytes, before XLA has optimized it."""
    import tensorflow as tf
    from tensorflow.compiler.xla.service import hlo_pb2

    compiled = tf.function(function, jit_compile=True, autograph=False)
    module = hlo_pb2.HloModuleProto()
    module.ParseFromString(compiled.experimental_get_compiler_ir(*arguments)(stage="hlo_serialized"))
    for computation in module.computations:
        for instruction in computation.instructions:
            if instruction.opcode == "copy":  # StableHLO has none; a conversion to the same type is the same
                instruction.opcode = "convert"
    return module.SerializeToString()


if __name__ == "__main__":
    main()
