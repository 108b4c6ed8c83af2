"""Named entities, and any other tags of words: CoNLL-2003 (Tjong Kim Sang and De Meulder 2003) or files of your own."""

import functools
import os

from bert_tf.errors import UserError
from bert_tf.tasks.embeddings import feature_tagging
from bert_tf.tasks.token_classification import conll_files, tag_schemes, tagging
from bert_tf.tasks.token_classification.tag_schemes import TagSet
from bert_tf.tasks.token_classification.tag_windows import TagWindows

FLAGS = {"train": "train_file", "dev": "eval_file", "test": "predict_file"}
NAMES = {split: (f"{split}.txt",) for split in FLAGS}
CONLL_NAMES = {"train": ("eng.train",), "dev": ("eng.testa", "valid.txt"), "test": ("eng.testb",)}
FILES = {"ner/conll2003": {split: NAMES[split] + CONLL_NAMES[split] for split in FLAGS}, "ner/table": NAMES}


def task(options, tokenizer_for, *, name, names):
    """Tags the words of files in CoNLL's columns; see bert_tf.tasks.catalog for the arguments.

    options: data_dir with the files, called as `names` says, or train_file, eval_file and predict_file; word_column,
        tag_column, tag_scheme and position_digits, see conll_files.Layout; labels, with commas: the tags in order,
        else O, B- and I- of every type in the training data; max_seq_length, doc_stride (0: half of it) and
        document_context, see tag_windows.TagWindows; feature_layers, lstm_size, feature_cache: see feature_tagging.
    The file to predict may be without tags.
    """
    if options.feature_layers and (options.lstm_size < 2 or options.lstm_size % 2):
        raise UserError(
            f"lstm_size is {options.lstm_size}; expected an even number above 0, as each direction has half of it."
        )
    if options.criterion not in ("", "f1"):
        raise UserError(f"criterion is {options.criterion}; tags are judged by the f1 of entities: leave it out.")
    layout = conll_files.Layout(
        word_column=options.word_column,
        tag_column=options.tag_column,
        scheme=options.tag_scheme,
        position_digits=options.position_digits,
    )
    windows = TagWindows(
        max_seq_length=options.max_seq_length,
        stride=options.doc_stride or options.max_seq_length // 2,
        document_context=options.document_context,
    )

    @functools.cache
    def read(split):
        found = conll_files.Tagged(_path(options, split, names), layout)
        if found.scheme is None and split != "test":
            raise UserError(f"{found.path} has words only; expected a column with their tags too.")
        return found

    tag_set = _tag_set(options.labels, options.tag_scheme, read)
    files = {split: functools.partial(read, split) for split in FLAGS}
    plain = tagging.task(name, files, tag_set, tokenizer_for(lambda: _texts(read("train"))), windows=windows)
    return feature_tagging.of_options(plain, options) if options.feature_layers else plain


def _path(options, split, names):
    given = getattr(options, FLAGS[split])
    paths = [given] if given else [os.path.join(options.data_dir, name) for name in names[split] if options.data_dir]
    path = next((path for path in paths if os.path.isfile(path)), None)
    if path is None:
        wanted = given or f"{' or '.join(names[split])} in data_dir={options.data_dir!r}"
        otherwise = ", or do_eval=false" if split == "dev" else ""
        raise UserError(f"There is no {wanted}: give the file as {FLAGS[split]}{otherwise}.")
    return path


def _tag_set(labels, scheme, read):
    """The tags that are told apart: those of the flag or of a trained model, or else of the training data."""
    if labels and isinstance(labels, str):
        return _checked(TagSet.of([label.strip() for label in labels.split(",") if label.strip()], scheme))
    if labels:
        return TagSet.of(labels, scheme)
    found = read("train")
    types = {kind for sentence in found.sentences for kind, _, _ in tag_schemes.spans(sentence.tags, found.scheme)}
    if not types:
        raise UserError(f"All words of {found.path} are tagged O; expected entities to learn from.")
    return TagSet.of_types(types, found.scheme)


def _checked(tag_set):
    """The same; UserError for labels that no words could be tagged with."""
    there = list(tag_set.labels)
    wanted = [tag_schemes.OUTSIDE]
    if tag_set.scheme != "plain":
        wanted += [f"{prefix}-{kind}" for kind in tag_set.types for prefix in "BI"]
    if doubles := sorted({label for label in there if there.count(label) > 1}):
        raise UserError(f"labels names {doubles[0]} more than once; expected each tag once.")
    if missing := [label for label in wanted if label not in there]:
        raise UserError(f"labels are {', '.join(there)}; expected {missing[0]} among them too.")
    return tag_set


def _texts(found):
    """The texts that a vocabulary is learned from."""
    return (conll_files.joined(sentence.words)[0] for sentence in found.sentences)


TASKS = {name: functools.partial(task, name=name, names=names) for name, names in FILES.items()}
