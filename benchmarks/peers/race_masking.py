"""Masking while training reads, in a race: bert_tf's pipeline and Hugging Face's collator; see ../masking.py.

Ours reads records from disk, shuffles and masks them; the collator gets lists of ids in memory.
"""

import json
import pathlib
import sys

import turns


def main():
    work = turns.parse_arguments(__doc__).work
    turns.serve({"bert_tf": ours, "transformers": collator}[work["side"]](work))


def ours(work):
    """A function that takes this many rows from the training batches."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent))
    from bert_tf.runtime.tensorflow_startup import start_tensorflow

    start_tensorflow()
    from bert_tf.config.train_config import MaskingConfig
    from bert_tf.data.pretraining import records
    from bert_tf.tasks import catalog
    from bert_tf.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.from_file(work["vocab_file"])
    task = catalog.get("pretraining/mlm_nsp")(records.open_records(work["records"]), tokenizer, MaskingConfig())
    batches = iter(task.train_batches(work["batch"], 1))
    return lambda: [next(batches)["masked_lm_ids"] for _ in range(work["rows"] // work["batch"])][-1].numpy()


def collator(work):
    """A function that collates the rows."""
    import transformers

    tokenizer = transformers.BertTokenizerFast(work["vocab_file"])
    collate = transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)
    rows = json.loads(pathlib.Path(work["ids"]).read_text(encoding="utf-8"))
    batches = [rows[first : first + work["batch"]] for first in range(0, work["rows"], work["batch"])]
    return lambda: [collate([{"input_ids": ids} for ids in batch])["labels"] for batch in batches]


if __name__ == "__main__":
    main()
