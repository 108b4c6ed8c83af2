"""Our OpenVINO export compared with OpenVINO's own conversion from transformers: one text of 128 tokens.

    python benchmarks/openvino_export.py --work_dir=FOLDER [--size=base]

Random weights, rounds interleaved; see race.py. A round is TEXTS calls with one text each. Writes the table to
benchmarks/README.md.
"""

import argparse
import json
import pathlib
import shutil
import sys

import race

sys.path[:0] = [str(race.HERE.parent), str(race.PEERS)]
TEXTS, SLOTS = 20, 128


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work_dir", required=True, type=pathlib.Path)
    parser.add_argument("--size", default="base", choices=("minilm", "base", "large"))
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    folders = written(arguments.work_dir / f"openvino_export_{arguments.size}", arguments.size)
    contenders = []
    for side, folder in folders.items():
        work = arguments.work_dir / f"openvino_export_{side}.json"
        work.write_text(json.dumps({"side": side, "folder": str(folder), "calls": TEXTS, "seq_length": SLOTS}))
        contenders.append(race.Contender(side, "race_openvino_export.py", (f"--work={work}",), "openvino"))
    table = race.table(race.race(contenders, arguments.rounds, arguments.work_dir))
    print(table)
    race.save_section(f"OpenVINO, {arguments.size}: one text of {SLOTS} tokens, {TEXTS} times, by exporter", table)


def written(folder, size):
    """{contender: folder} of one model of random weights: for OpenVINO, and in transformers' format."""
    import turns

    from bert_tf.checkpoints import formats
    from bert_tf.checkpoints.checkpoint import Checkpoint
    from bert_tf.config.bert_config import BertConfig
    from bert_tf.export import engines
    from bert_tf.model import heads, weights

    layers, width, num_heads = turns.SHAPES[size]
    shape = {"num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": num_heads}
    config = BertConfig(vocab_size=30522, intermediate_size=4 * width, hidden_act="gelu_erf", **shape)
    encoder = weights.variables_by_name(heads.SpanFinder(config))
    arrays = {name: v.value.numpy() for name, v in encoder.items() if name.startswith("encoder/")}
    checkpoint = Checkpoint(config=config, weights=arrays)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    engines.write(checkpoint, str(folder / "ours"), "openvino")
    formats.write(checkpoint, str(folder / "theirs"), "huggingface")
    return {"bert_tf": folder / "ours", "transformers": folder / "theirs"}


if __name__ == "__main__":
    main()
