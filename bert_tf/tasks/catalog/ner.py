"""Named entities and other tags of words: CoNLL-2003 (Tjong Kim Sang and De Meulder 2003), or your own files."""

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping

from bert_tf.config.flag_parsers import comma_separated
from bert_tf.data import conll_files, tag_schemes
from bert_tf.data.conll_files import ConllFile
from bert_tf.data.examples import Example
from bert_tf.data.joined_words import join_words
from bert_tf.data.tag_schemes import TagSet
from bert_tf.errors import UserError, leave_out
from bert_tf.heads.base.table_options import SPLIT_FLAGS, RowOptions
from bert_tf.heads.tags.tag_windows import TagWindows
from bert_tf.heads.tags.tagging import Tagging
from bert_tf.runtime import files
from bert_tf.runtime.lazy import module
from bert_tf.tasks import table_splits
from bert_tf.tasks.task import FineTuningTask
from bert_tf.tasks.task_options import TagOptions
from bert_tf.text.tokenizer import Tokenizer

feature_tagging = module("bert_tf.extras.paper.feature_tagging")

FileNames = Mapping[str, tuple[str, ...]]

NAMES: FileNames = {
    split: tuple(f"{split}{end}" for end in (".txt", ".jsonl", ".json", ".parquet", ".csv", ".xlsx"))
    for split in SPLIT_FLAGS
}
CONLL_NAMES = {"train": ("eng.train",), "dev": ("eng.testa", "valid.txt"), "test": ("eng.testb",)}
FILES: Mapping[str, FileNames] = {
    "ner/conll2003": {split: NAMES[split] + CONLL_NAMES[split] for split in SPLIT_FLAGS},
    "ner/table": NAMES,
}

HELD_OUT = RowOptions.eval_fraction  # fraction of training sentences held out without an evaluation file

TokenizerFor = Callable[[Callable[[], Iterable[str]]], Tokenizer]


def task(options: TagOptions, tokenizer_for: TokenizerFor, *, name: str, names: FileNames) -> FineTuningTask:
    """Tags the words of files in CoNLL columns or tables; see bert_tf.tasks.catalog for the arguments.

    The file to predict may have no tags.

    Args:
        options: data_dir with the files, named as in `names`, or train_file, eval_file and predict_file;
            word_column, tag_column, tag_scheme and position_digits, see conll_files.ColumnLayout; labels,
            comma-separated: the tags in order, by default O, B- and I- of every type in the training data;
            max_seq_length, doc_stride (0: half of it) and document_context, see tag_windows.TagWindows; tag_head:
            linear or crf; feature_layers, lstm_size, feature_cache: see feature_tagging.
        tokenizer_for: returns the tokenizer; takes texts to learn a vocabulary from.
        name: the task name.
        names: the files of each split in data_dir.
    """
    _check(options)
    layout = conll_files.ColumnLayout(
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
    def read(split: str) -> ConllFile:
        file = ConllFile(_path(options, split, names), layout)
        if file.scheme is None and split != "test":
            raise UserError(f"{file.path} has words only; expected a column with their tags too.")
        return file

    tag_set = _tag_set(options.labels, options.tag_scheme, read)
    files: dict[str, Callable[[], ConllFile]] = {split: functools.partial(read, split) for split in SPLIT_FLAGS}
    if options.do_eval and options.train_file and not (options.eval_file or options.data_dir):
        files |= _held_out(options.train_file, lambda: read("train"))
    tokenizer = tokenizer_for(lambda: _texts(read("train")))
    crf = options.tag_head == "crf"
    head = Tagging(tag_set, windows, crf=crf)
    if options.feature_layers:
        head = feature_tagging.FeatureTagging(tag_set, windows, crf=crf, **feature_tagging.settings(options))
    return FineTuningTask(name, files, head, tokenizer)


def _held_out(path: str, read: Callable[[], ConllFile]) -> dict[str, Callable[[], ConllFile]]:
    """{split: function that reads it}, both from one file: some of its sentences are held out for evaluation."""

    def examples() -> list[Example]:
        return [Example(str(number), sentence.words) for number, sentence in enumerate(read().sentences)]

    parts = table_splits.held_out(path, examples, HELD_OUT)

    def part(name: str) -> ConllFile:
        return read().part([int(example.id) for example in parts[name]()])

    return {name: functools.cache(functools.partial(part, name)) for name in parts}


def _check(options: TagOptions) -> None:
    if options.feature_layers and (options.lstm_size < 2 or options.lstm_size % 2):
        raise UserError(f"lstm_size is {options.lstm_size}; expected an even number above 0, half for each direction.")
    if options.criterion not in ("", "f1"):
        raise leave_out(f"criterion is {options.criterion}; tags are scored by the f1 of entities")


def _path(options: TagOptions, split: str, names: FileNames) -> str:
    flag = options.file_of(split)
    paths = [flag] if flag else [os.path.join(options.data_dir, name) for name in names[split] if options.data_dir]
    path = next((path for path in paths if files.is_file(path)), None)
    if path is None:
        missing = flag or f"{' or '.join(names[split])} in data_dir={options.data_dir!r}"
        otherwise = ", or do_eval=false" if split == "dev" else ""
        raise UserError(f"There is no {missing}: pass the file as {SPLIT_FLAGS[split]}{otherwise}.")
    return path


def _tag_set(labels: str | list[str], scheme: str, read: Callable[[str], ConllFile]) -> TagSet:
    """The tags to learn: from the flag or a trained model, else from the training data."""
    if labels and isinstance(labels, str):
        return _checked(TagSet.of(comma_separated(labels), scheme))
    if labels:
        return TagSet.of(labels, scheme)
    file = read("train")
    file_scheme = str(file.scheme)
    types = {
        kind
        for sentence in file.sentences
        for kind, _, _ in tag_schemes.tags_to_spans(sentence.tags or (), file_scheme)
    }
    if not types:
        raise UserError(f"All words of {file.path} are tagged O; expected entities to learn from.")
    return TagSet.of_types(types, file_scheme)


def _checked(tag_set: TagSet) -> TagSet:
    """Returns the TagSet; raises UserError for labels that cannot tag words."""
    labels = list(tag_set.tags)
    required = [tag_schemes.OUTSIDE]
    if tag_set.scheme != "plain":
        required += [f"{prefix}-{kind}" for kind in tag_set.types for prefix in "BI"]
    if duplicates := sorted({label for label in labels if labels.count(label) > 1}):
        raise UserError(f"labels names {duplicates[0]} more than once; expected each tag once.")
    if missing := [label for label in required if label not in labels]:
        raise UserError(f"labels are {', '.join(labels)}; expected {missing[0]} among them too.")
    return tag_set


def _texts(file: ConllFile) -> Iterator[str]:
    """The texts to learn a vocabulary from."""
    return (join_words(sentence.words)[0] for sentence in file.sentences)


TASKS = {name: functools.partial(task, name=name, names=names) for name, names in FILES.items()}
