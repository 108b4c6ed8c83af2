"""What pre-training needs before TensorFlow starts: a vocabulary, a configuration, records.

`options` are the flags of run_pretraining.py.
"""

import dataclasses
import itertools
import json
import logging
import os
import time

from bert_tf import corpus, records, vocabulary
from bert_tf.config import BertConfig
from bert_tf.errors import UserError
from bert_tf.progress import progress
from bert_tf.python_manual import python_manual

VOCABULARY_TEXT = 100_000_000  # characters that a vocabulary is learned from at most; more hardly changes it
log = logging.getLogger("bert_tf")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What the flags come to, found without writing anything. `vocabulary` None: to be learned from the text."""

    config: BertConfig
    vocabulary: list | None
    lower_case: bool
    weights: dict | None = None


def plan(options, *, lower_case_given):
    """Checks the flags against the files they name; returns a Plan.

    Raises UserError for everything that can be known to be wrong before the work begins.
    """
    for patterns in (options.input_file, options.eval_file):
        if patterns:
            corpus.find_sources(
                patterns, text_layout=options.text_layout, language=options.language, text_field=options.text_field
            )
    checkpoint = _checkpoint(options)
    config = _config(options, checkpoint)
    lower_case = options.do_lower_case
    if checkpoint and checkpoint.lower_case is not None:
        if lower_case_given and checkpoint.lower_case != lower_case:
            raise UserError(
                f"do_lower_case is {lower_case}, but {options.init_checkpoint} was trained with "
                f"{checkpoint.lower_case}: leave the flag out."
            )
        lower_case = checkpoint.lower_case
    known = checkpoint.vocabulary if checkpoint else None
    if options.vocab_file:
        expected = config.vocab_size if options.bert_config_file or checkpoint else None
        known = vocabulary.read(options.vocab_file, expected)
    if checkpoint and known is None:
        raise UserError(f"{options.init_checkpoint} has no vocab.txt beside it: give its vocabulary as vocab_file.")
    if known:
        config = dataclasses.replace(config, vocab_size=len(known))
    _check_lengths(options, config)
    return Plan(
        config=config, vocabulary=known, lower_case=lower_case, weights=checkpoint.weights if checkpoint else None
    )


def _checkpoint(options):
    if not options.init_checkpoint:
        return None
    from bert_tf import checkpoints  # brings TensorFlow along

    return checkpoints.read(options.init_checkpoint)


def _config(options, checkpoint):
    if options.bert_config_file:
        return BertConfig.from_json_file(options.bert_config_file)
    if checkpoint:
        return checkpoint.config
    return BertConfig.of_size(options.model_size, vocab_size=options.vocab_size)


def _check_lengths(options, config):
    if options.max_seq_length > config.max_position_embeddings:
        raise UserError(
            f"max_seq_length is {options.max_seq_length}, but the model has {config.max_position_embeddings} "
            "positions: choose a shorter length, or a configuration with more max_position_embeddings."
        )
    if options.max_predictions_per_seq >= options.max_seq_length:
        raise UserError(
            f"max_predictions_per_seq is {options.max_predictions_per_seq}; expected fewer than the "
            f"{options.max_seq_length} pieces of max_seq_length."
        )


def prepare(plan, options, folder):
    """Writes vocab.txt, bert_config.json and records/ into the run folder, or finds them there.

    Returns the BertConfig and the manifest of the records.
    """
    vocab_file = folder.file("vocab.txt")
    if plan.vocabulary:
        vocabulary.write(vocab_file, plan.vocabulary)
    elif not os.path.exists(vocab_file):
        print(f"Learning a vocabulary of {plan.config.vocab_size:,} pieces", flush=True)
        vocabulary.write(vocab_file, _learned(plan, options))
    config = dataclasses.replace(plan.config, vocab_size=len(vocabulary.read(vocab_file)))
    config.write(folder.file("bert_config.json"))
    with open(folder.file("tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump({"do_lower_case": plan.lower_case}, file)
    choice = records.RecordOptions(
        vocab_file=vocab_file,
        lower_case=plan.lower_case,
        max_seq_length=options.max_seq_length,
        short_seq_prob=options.short_seq_prob,
        dupe_factor=options.dupe_factor,
        random_seed=options.random_seed,
        nsp=bool(options.next_sentence_weight),
        text_layout=options.text_layout,
        text_field=options.text_field,
        language=options.language,
    )
    with progress("records") as report:
        made = records.prepare(
            folder.file("records"),
            choice,
            input_file=options.input_file,
            eval_file=options.eval_file,
            num_workers=options.num_workers,
            progress=report,
        )
    return config, made


def _learned(plan, options):
    texts = itertools.chain.from_iterable(_documents(options))
    return vocabulary.learn(_at_most(texts, VOCABULARY_TEXT), plan.config.vocab_size, lower_case=plan.lower_case)


def _documents(options):
    if not options.input_file:
        yield from python_manual()
        return
    sources = corpus.find_sources(
        options.input_file, text_layout=options.text_layout, language=options.language, text_field=options.text_field
    )
    for source in sources:
        yield from corpus.read_documents(source)


def _at_most(texts, characters):
    for text in texts:
        characters -= len(text)
        if characters < 0:
            return
        yield text


def worker_number():
    """The number of this process among several workers (TF_CONFIG), 0 if it is alone."""
    task = json.loads(os.environ.get("TF_CONFIG") or "{}").get("task", {})
    return 0 if task.get("type") == "chief" else int(task.get("index", 0))


def wait_for_first_worker(folder, seconds=3600):
    """Returns the configuration and the records that the first of several workers makes in a folder they share."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if os.path.exists(folder.file("records", records.MANIFEST)):
            return BertConfig.from_json_file(folder.file("bert_config.json")), records.open_records(
                folder.file("records")
            )
        time.sleep(0.5)
    raise UserError(f"The first worker has not made records in {folder.path} within {seconds} seconds.")
