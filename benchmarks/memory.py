"""Measures peak memory and time of a training step of BERT with each memory-saving flag, in turns.

    python benchmarks/memory.py --work_dir=FOLDER

Random weights, float32, fine-tuning on 32 rows of 128. "estimated minimum" is the prediction of
`runtime.memory_estimate`; "peak" is for the whole process, including about half a GiB for TensorFlow itself.
"""

import argparse
import json
import pathlib
import statistics
import sys
import types

import race
import training_step

from bert_tf.config.bert_config import BertConfig
from bert_tf.runtime import memory_estimate

PRECISION = "float32"
RECIPES = {
    "plain": {},
    "--gradient_checkpointing": {"gradient_checkpointing": True},
    "--num_accumulation_steps=4": {"num_accumulation_steps": 4},
    "both": {"gradient_checkpointing": True, "num_accumulation_steps": 4},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work_dir", required=True, type=pathlib.Path)
    parser.add_argument("--size", default="base")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    arguments.work_dir.mkdir(parents=True, exist_ok=True)
    work = training_step.fine_tuning(arguments)
    lines = ["| | peak, GiB | estimated minimum, GiB | step, s | rounds, disturbed |", "|---|---:|---:|---:|---:|"]
    for name, recipe in RECIPES.items():
        file = arguments.work_dir / "memory.json"
        file.write_text(json.dumps(work | {"recipe": recipe}))
        flags = (f"--work={file}", f"--size={arguments.size}", f"--precision={PRECISION}")
        runner = race.Runner(race.Contender(name, "race_bert_tf.py", flags), sys.executable)
        runner.once()
        for _ in range(arguments.rounds):
            runner.turn()
        runner.close()
        times = f"{statistics.median(runner.seconds):.1f} | {arguments.rounds}, {runner.disturbed}"
        lines.append(f"| {name} | {runner.peak_mb / 1024:.2f} | {expected(arguments.size, recipe):.2f} | {times} |")
        print(lines[-1], flush=True)
    race.save_section(f"Memory of a training step, {arguments.size}, 32 rows of 128", "\n".join(lines))


def expected(size, recipe):
    """GiB that bert_tf says a step takes at least."""
    layers, width, heads = race_shapes()[size]
    shape = {"num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads}
    config = BertConfig(vocab_size=training_step.VOCAB_SIZE, intermediate_size=4 * width, **shape)
    usual = {"train_batch_size": training_step.BATCH, "num_accumulation_steps": 1, "max_seq_length": 128}
    return (
        memory_estimate.minimum_bytes(config, types.SimpleNamespace(**usual | {"precision": PRECISION} | recipe))
        / 2**30
    )


def race_shapes():
    sys.path.append(str(race.PEERS))
    import turns

    return turns.SHAPES


if __name__ == "__main__":
    main()
