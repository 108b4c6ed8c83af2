"""Question windows for training, in a race: bert_tf and transformers' recipe; see ../squad_features.py.

Both start with questions in memory and end with every window once in a batch of 32: ids, and the answer's position.
"""

import pathlib
import sys

import turns

BATCH = 32


def main():
    work = turns.parse_arguments(__doc__).work
    turns.serve({"bert_tf": ours, "transformers": recipe}[work["side"]](work))


def ours(work):
    """A function that makes the windows of all questions, shuffled."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent))
    from bert_tf.runtime.tensorflow_startup import start_tensorflow

    start_tensorflow()
    from bert_tf.tasks.question_answering import question_splits, questions
    from bert_tf.tasks.question_answering.question_splits import QuestionSplit
    from bert_tf.tasks.question_answering.question_windows import QuestionWindows
    from bert_tf.text.tokenizer import Tokenizer

    examples = [question for path in work["files"] for question in questions.read(path)]
    tokenizer, windows = Tokenizer.from_file(work["vocab_file"]), QuestionWindows()

    def features():
        split = QuestionSplit(examples, tokenizer, windows)
        batches = iter(question_splits.batches(split.trainable(), BATCH, tokenizer=tokenizer, windows=windows, seed=1))
        for _ in range(len(split.owners) // BATCH):
            batch = next(batches)
        return batch["token_ids"].numpy()

    return features


def recipe(work):
    """A function that does what transformers' own script does: tokens and offsets at once, answers window by window."""
    import transformers
    import transformers_squad

    rows = [row for path in work["files"] for row in transformers_squad.read(pathlib.Path(path))]
    tokenizer = transformers.BertTokenizerFast(work["vocab_file"])

    def features():
        inputs, owners, offsets = transformers_squad.features_of(tokenizer, rows)
        targets = transformers_squad.targets_of(rows, owners, offsets)
        for first in range(0, len(owners) // BATCH * BATCH, BATCH):
            batch = {name: x[first : first + BATCH] for name, x in inputs.items()}
        return batch, targets

    return features


if __name__ == "__main__":
    main()
