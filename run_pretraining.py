"""Pre-trains BERT on raw text: vocabulary, records, training, evaluation, SavedModel.

Without flags it uses the Python documentation installed with the interpreter and takes a few minutes; with --input_file
it uses your own text.
"""

from bert_tf.config import entry_point
from bert_tf.recipes import pretrain

if __name__ == "__main__":
    entry_point.run(pretrain.Flags, pretrain.main)
