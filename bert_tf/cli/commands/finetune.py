"""Fine-tunes BERT on texts, pairs and words: GLUE, SWAG, named entities, your own data; evaluates, predicts, exports.

  bert-tf finetune
  bert-tf finetune --task_name=MRPC --data_dir=glue/MRPC --init_checkpoint=uncased_L-12_H-768_A-12
  bert-tf finetune reviews.csv --text=review --label=stars

Without flags it learns to classify passages of the Python manual, in a few minutes. Run the same command again to
resume an interrupted run.
"""

from bert_tf.recipes.finetune import Flags, main

__all__ = ["Flags", "main"]
