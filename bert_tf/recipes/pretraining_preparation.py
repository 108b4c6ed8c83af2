"""What pre-training needs before TensorFlow starts: a vocabulary, a configuration, records.

`options` are the flags of run_pretraining.py.
"""

import dataclasses
import itertools
import math
import os
import time

from bert_tf.config.bert_config import BertConfig
from bert_tf.data.pretraining import records
from bert_tf.errors import UserError
from bert_tf.recipes import initialization
from bert_tf.runtime import memory_estimate
from bert_tf.runtime.progress import progress
from bert_tf.runtime.tf_config import expect_workers, number_of_workers
from bert_tf.text import corpus, vocabulary
from bert_tf.text.demo_corpus import python_manual

PRE_TRAINED = ("bert", "lstm")  # encoders that learn from text alone
VOCABULARY_TEXT = 100_000_000  # characters that a vocabulary is learned from at most; more hardly changes it


def plan(options, *, lower_case_given):
    """Checks the flags against the files they name; returns a StartingPoint.

    Raises UserError for everything that can be known to be wrong before the work begins.
    """
    _check_numbers(options)
    for name in ("input_file", "eval_file"):
        if getattr(options, name):
            expect_text(name, options)
    if options.records_dir and os.path.exists(options.records_dir) and not os.path.isdir(options.records_dir):
        raise UserError(f"records_dir is {options.records_dir}, which is a file: give the name of a folder.")
    start = initialization.find(options, lower_case_given=lower_case_given)
    if start.config.encoder not in PRE_TRAINED:
        raise UserError(
            f"{options.init_checkpoint} has the encoder {start.config.encoder}, which is for fine-tuning alone: give "
            "encoder=bert or another checkpoint."
        )
    if options.max_predictions_per_seq >= options.max_seq_length:
        raise UserError(
            f"max_predictions_per_seq is {options.max_predictions_per_seq}; expected fewer than the "
            f"{options.max_seq_length} pieces of max_seq_length."
        )
    if options.do_train and not options.prepare_only:
        memory_estimate.check(start.config, options, processes=max(1, number_of_workers()))
    return start


def _check_numbers(options):
    """Raises UserError for a number that no run could work with."""
    record_options(options, "")
    for name, right, expected in (
        ("next_sentence_weight", 0 <= options.next_sentence_weight < math.inf, "0 or more"),
        ("num_workers", options.num_workers >= 1, "1 or more"),
        ("num_logical_devices", options.num_logical_devices >= 1, "1 or more"),
        ("vocab_size", options.vocab_size > len(vocabulary.SPECIAL_TOKENS), "more than the five special tokens"),
    ):
        if not right:
            raise UserError(f"{name} is {getattr(options, name)}; expected {expected}.")
    if options.distribution_strategy == "multi_worker":
        expect_workers()
    slices = max(options.num_logical_devices, number_of_workers()) * options.num_accumulation_steps
    if options.train_batch_size % slices:
        raise UserError(
            f"train_batch_size {options.train_batch_size} cannot be shared out among {slices} replicas and "
            f"micro-batches: choose a multiple of {slices}."
        )


def expect_text(name, options):
    """Raises UserError unless a flag names files of which at least one holds text."""
    if not any(next(corpus.read_documents(source), None) for source in _sources(getattr(options, name), options)):
        raise UserError(f"{name}={getattr(options, name)} holds no text at all; give files with sentences in them.")


def _sources(patterns, options):
    return corpus.find_sources(
        patterns, text_layout=options.text_layout, language=options.language, text_field=options.text_field
    )


def prepare(plan, options, folder):
    """Writes vocab.txt, bert_config.json and the records of a run, or finds them there.

    Returns the BertConfig and the manifest of the records.
    """
    vocab_file = folder.file("vocab.txt")
    if plan.vocabulary:
        vocabulary.write(vocab_file, plan.vocabulary)
    elif not os.path.exists(vocab_file):
        print(f"Learning a vocabulary of {plan.config.vocab_size:,} pieces", flush=True)
        learned = learned_vocabulary(options, plan.config.vocab_size, lower_case=plan.lower_case)
        vocabulary.write(vocab_file, learned)
    config = dataclasses.replace(plan.config, vocab_size=len(vocabulary.read(vocab_file)))
    config.write(folder.file("bert_config.json"))
    folder.write_json("tokenizer_config.json", {"do_lower_case": plan.lower_case})
    with progress("records") as report:
        made = records.prepare(
            records_folder(options, folder),
            record_options(options, vocab_file, lower_case=plan.lower_case),
            input_file=options.input_file,
            eval_file=options.eval_file,
            num_workers=options.num_workers,
            progress=report,
        )
    return config, made


def record_options(options, vocab_file, lower_case=True):
    """The flags that decide the bytes of the records; UserError for a value that cannot be."""
    same = "max_seq_length short_seq_prob dupe_factor random_seed text_layout text_field language".split()
    return records.RecordOptions(
        vocab_file=vocab_file,
        lower_case=lower_case,
        nsp=bool(options.next_sentence_weight) or options.keep_pairs,
        compress=options.compress_records,
        **{name: getattr(options, name) for name in same},
    )


def learned_vocabulary(options, size, *, lower_case):
    """The pieces of a vocabulary that is learned from `input_file`, or at most the first 100 million characters."""
    texts = itertools.chain.from_iterable(_documents(options))
    return vocabulary.learn(_at_most(texts, VOCABULARY_TEXT), size, lower_case=lower_case)


def _documents(options):
    if not options.input_file:
        yield from python_manual()
        return
    for source in _sources(options.input_file, options):
        yield from corpus.read_documents(source)


def _at_most(texts, characters):
    for text in texts:
        characters -= len(text)
        if characters < 0:
            return
        yield text


def records_folder(options, folder):
    """Where the records of a run are: in its folder, or where several runs share them."""
    return options.records_dir or folder.file("records")


def wait_for_first_worker(options, folder, seconds=3600):
    """Returns the configuration and the records that the first of several workers makes in a folder they share."""
    end, made = time.monotonic() + seconds, records_folder(options, folder)
    while time.monotonic() < end:
        if os.path.exists(os.path.join(made, records.MANIFEST)) and os.path.exists(folder.file("bert_config.json")):
            return BertConfig.from_json_file(folder.file("bert_config.json")), records.open_records(made)
        time.sleep(0.5)
    raise UserError(f"The first worker has not made records in {folder.path} within {seconds} seconds.")
