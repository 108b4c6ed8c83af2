"""Pre-trains BERT on raw text: vocabulary, records, training, evaluation, SavedModel.

  bert-tf pretrain
  bert-tf pretrain --input_file=my_texts --output_dir=runs/mine --model_size=small

Without --input_file it trains a small model on the Python documentation installed with the interpreter, in a few
minutes. Run the same command again to resume an interrupted run.
"""

from bert_tf.recipes.pretrain import Flags, main

__all__ = ["Flags", "main"]
