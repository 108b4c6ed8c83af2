"""Fine-tunes BERT to answer questions about texts: SQuAD 1.1, 2.0 or your own questions; evaluates, predicts, exports.

python run_squad.py --train_file=train-v1.1.json --predict_file=dev-v1.1.json --init_checkpoint=uncased_L-12_H-768_A-12
"""

from bert_tf.config import entry_point
from bert_tf.recipes import finetune_squad

if __name__ == "__main__":
    entry_point.run(finetune_squad.Flags, finetune_squad.main)
