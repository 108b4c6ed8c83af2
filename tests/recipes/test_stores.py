"""Runs whose every path lies in a store: ram://, TensorFlow's file system in memory, so that one process does all."""

import pytest
import warm

PROGRAM = """
import os
from absl import flags
from bert_tf.cli import main
from bert_tf.runtime import atomic_files, files
from bert_tf.training import checkpoint_paths

own = set(flags.FLAGS)

def run(*arguments):
    for name in set(flags.FLAGS) - own:
        delattr(flags.FLAGS, name)
    for lock in files.glob("ram://b/*/IN_USE.json"):  # they end with the process
        files.remove(lock)
    try:
        code = main.main(list(arguments))
    except SystemExit as error:
        code = error.code
    assert not code, (arguments, code)

def write(path, *lines):
    atomic_files.write_lines(path, lines)

rows = [f"The {kind} runs {number}.\\t{kind}\\n" for number in range(4) for kind in ("fox", "dog")]
write("ram://b/data/train.tsv", "text\\tkind\\n", *rows)
write("ram://b/data/dev.tsv", "text\\tkind\\n", *rows[:4])
write("ram://b/vocab.txt", *(f"{token}\\n" for token in "[PAD] [UNK] [CLS] [SEP] [MASK] the fox dog runs .".split()))
write("ram://b/texts/a.txt", *("The fox runs.\\nThe dog runs.\\n\\n" for _ in range(4)))
config = {"vocab_size": 10, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1,
          "intermediate_size": 8, "max_position_embeddings": 16}
atomic_files.write_json("ram://b/config.json", config)
small = ["--bert_config_file=ram://b/config.json", "--vocab_file=ram://b/vocab.txt", "--max_seq_length=12",
         "--precision=float32", "--train_batch_size=4", "--jit_compile=false"]
pretraining = ["pretrain", *small, "--input_file=ram://b/texts/*.txt", "--output_dir=ram://b/pretrained",
               "--dupe_factor=2", "--max_predictions_per_seq=2", "--num_train_steps=4", "--num_warmup_steps=1",
               "--save_checkpoints_steps=2", "--nodo_export"]
run(*pretraining)
checkpoints = "ram://b/pretrained/checkpoints"
files.remove(f"{checkpoints}/ckpt-4.index")  # as if it had been killed while it saved
files.make_folder(f"{checkpoints}/ckpt-4_temp")
files.remove("ram://b/pretrained/run.json")
files.remove("ram://b/pretrained/eval_results.json")
run(*pretraining)
assert [checkpoint_paths.step_of(path) for path in checkpoint_paths.newest_first(checkpoints)] == [4, 2]
assert not files.exists(f"{checkpoints}/ckpt-4_temp")
run("finetune", *small[1:], "--task_name=table", "--data_dir=ram://b/data", "--text_columns=text",
    "--label_column=kind", "--num_train_epochs=1", "--init_checkpoint=ram://b/pretrained", "--output_dir=ram://b/run")
run("convert", "ram://b/run", "ram://b/huggingface", "--format=huggingface")
run("convert", "ram://b/huggingface", "ram://b/google", "--format=google_tf")
run("convert", "ram://b/google", "ram://b/native", "--format=native")
run("report", "ram://b/run", "ram://b/pretrained", "--output=ram://b/out/compared.html")
run("predict", "ram://b/run", "--file=ram://b/data/dev.tsv", "--text_columns=text", "--output=ram://b/out/p.jsonl")
run("evaluate", "ram://b/run", "--file=ram://b/data/dev.tsv")
run("extract", "ram://b/native", "--file=ram://b/texts/a.txt", "--max_seq_length=12",
    "--output=ram://b/out/vectors.npz")
with files.open_text("ram://b/out/p.jsonl") as file:
    assert len(list(file)) == 4
print(*files.names("ram://b/out"), *files.names("ram://b"))
"""


@pytest.mark.slow
def test_train_convert_and_predict_with_all_paths_in_a_store(tmp_path):
    done = warm.run("-c", PROGRAM, cwd=tmp_path, eager=True)
    assert done.returncode == 0, done.stderr
    names = done.stdout.splitlines()[-1].split()
    assert names[:3] == ["compared.html", "p.jsonl", "vectors.npz"] and {"run", "pretrained", "native"} <= set(names)
    assert list(tmp_path.iterdir()) == []
