"""Pre-trains BERT on raw text: vocabulary, records, training, evaluation, SavedModel.

With no flag it does all of it on what the installed Python says of itself, in a few minutes; with --input_file on your
own text.
"""

from bert_tf.config import entry_point
from bert_tf.recipes import pretrain

if __name__ == "__main__":
    entry_point.run(pretrain.Flags, pretrain.main)
