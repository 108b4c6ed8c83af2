"""PAWS-X (Yang et al. 2019): whether two sentences with many words in common mean the same, in seven languages.

pawsx/de trains on the machine-translated training data of a language, pawsx/zero_shot on English only, and is
evaluated in every language.
"""

import functools

from bert_tf.data import examples
from bert_tf.data.examples import Example
from bert_tf.tasks.catalog import xnli

LANGUAGES = "de en es fr ja ko zh".split()
LABELS = ("0", "1")  # 1: a paraphrase


def read(data_dir: str, split: str, language: str) -> list[Example]:
    """The examples of a language, from the published folder x-final, or the folder that contains it."""
    train = "train.tsv" if language == xnli.ENGLISH else "translated_train.tsv"
    path = f"{language}/{train if split == 'train' else f'{split}_2k.tsv'}"
    path = xnli.find(data_dir, path, f"x-final/{path}")
    return examples.read(path, texts=("sentence1", "sentence2"), label="label", id_column="id")


TASKS = {
    f"pawsx/{language}": functools.partial(
        xnli.task, family="pawsx", language=language, languages=LANGUAGES, labels=LABELS, read=read
    )
    for language in (*LANGUAGES, xnli.ZERO_SHOT)
}
