"""Flags of a small model, for tests that run the scripts."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
TINY = {
    "task_name": "table", "text_columns": "text", "label_column": "kind", "model_size": "tiny", "vocab_size": 60,
    "max_seq_length": 12, "train_batch_size": 4, "num_train_epochs": 2, "precision": "float32",
}  # fmt: skip
