"""Fine-tunes BERT on sentences, pairs and words: GLUE, SWAG, named entities, your own; evaluates, predicts, exports.

python run_classifier.py --task_name=MRPC --data_dir=glue/MRPC --init_checkpoint=uncased_L-12_H-768_A-12
"""

from bert_tf.config import entry_point
from bert_tf.recipes import finetune

if __name__ == "__main__":
    entry_point.run(finetune.Flags, finetune.main)
