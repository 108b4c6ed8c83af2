"""Fine-tunes BERT for question answering: SQuAD 1.1, 2.0 or your own questions; evaluates, predicts, exports.

  bert-tf squad
  bert-tf squad --train_file=train-v1.1.json --predict_file=dev-v1.1.json --init_checkpoint=uncased_L-12_H-768_A-12

Without flags it learns to answer questions about the Python manual, in a few minutes. Run the same command again to
resume an interrupted run.
"""

from bert_tf.recipes.finetune_squad import Flags, main

__all__ = ["Flags", "main"]
