"""The heads of fine-tuned models that checkpoints carry."""

from checkpoint_cases import CONFIG

from bert_tf.model import heads

HEADS = {  # what makes the model, its kind, its labels
    "classes": (lambda: heads.Classifier(CONFIG, 3), ["no", "maybe", "sí"]),
    "multi_label": (lambda: heads.Classifier(CONFIG, 2), ["red", "blue"]),
    "regression": (lambda: heads.Regressor(CONFIG), None),
    "choice": (lambda: heads.MultipleChoice(CONFIG), None),
    "span": (lambda: heads.SpanFinder(CONFIG), None),
    "tags": (lambda: heads.TokenClassifier(CONFIG, 3), ["O", "B-LOC", "I-LOC"]),
}
