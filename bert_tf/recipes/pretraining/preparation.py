"""Inputs of pre-training, created before TensorFlow starts: a vocabulary, a configuration, records."""

import dataclasses
import itertools
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config import encoder_traits
from bert_tf.config.bert_config import BertConfig
from bert_tf.config.train_config import BY_PROPORTION
from bert_tf.data.pretraining import masked_records, records
from bert_tf.data.pretraining import pairs as pair_kinds
from bert_tf.data.pretraining.workers import IN_THIS_PROCESS
from bert_tf.errors import UserError
from bert_tf.recipes import advice, initialization
from bert_tf.recipes.pretraining import own_text
from bert_tf.recipes.pretraining.facts import Facts, check_has_text
from bert_tf.recipes.pretraining.pretraining_flags import AUTO_STEPS, Flags
from bert_tf.runtime import backend, files, machine, terminal
from bert_tf.runtime.cluster import check_workers, number_of_workers
from bert_tf.runtime.progress import progress
from bert_tf.text import corpus, special_tokens, tokenizer_kinds, vocabulary, vocabulary_learning
from bert_tf.text.demo_corpus import installed_python
from bert_tf.text.documents import read_documents
from bert_tf.text.sources import Source
from bert_tf.training import step_memory
from bert_tf.training.run_directory import RunFolder

LITTLE_TEXT = 2_000_000  # bytes processed here in less time than a worker needs to load TensorFlow
EVALUATIONS = 10  # minimum in a run that chooses its number of steps
WAIT = 3600  # seconds to wait for the first worker's records
MAX_VOCABULARY_TEXT = 100_000_000  # characters to learn a vocabulary from; more hardly changes it


def check_start(options: Flags, start: Checkpoint) -> None:
    """Raises UserError if flags do not fit the starting point of the model."""
    initialization.fitting_rows(options, start.config, may_be_shorter=False)
    encoder, traits = start.config.encoder, start.config.encoder_traits
    if options.replaced_tokens and not traits.generator:
        known = " or ".join(name for name in encoder_traits.names() if encoder_traits.traits(name).generator)
        raise UserError(
            f"replaced_tokens requires encoder={known}, and the encoder is {encoder}: remove it, or choose one of "
            "these."
        )
    if not traits.pretraining:
        raise UserError(f"The encoder {encoder} is for fine-tuning only: pass encoder=bert or another checkpoint.")
    if options.masking.max_predictions_per_seq >= options.max_seq_length:
        raise UserError(
            f"max_predictions_per_seq is {options.masking.max_predictions_per_seq}; expected fewer than the "
            f"{options.max_seq_length} tokens of max_seq_length."
        )
    if options.export_attention and not options.prepare_only:
        start.config.check_attention()


def checked_step(options: Flags, start: Checkpoint) -> step_memory.Step:
    """A training step, for its memory; UserError if that does not suffice."""
    step = step_memory.Step(
        config=start.config,
        training=options.training,
        max_seq_length=options.max_seq_length,
        predicted=options.max_seq_length if options.left_to_right else options.masking.max_predictions_per_seq,
        processes=max(1, number_of_workers()),
    )
    if options.do_train and not options.prepare_only:
        step_memory.check(step, options.devices)
    return step


def with_computed_defaults(options: Flags, facts: Facts) -> Flags:
    """The flags with the numbers of steps and the model size, if these depend on other flags or the text."""
    chosen: dict[str, Any] = {}
    if "input_file" in options.given and options.model.model_size == "auto":
        chosen = _for_own_text(options, facts.tokens)
        options = options.with_defaults(chosen, own_text.REASONS)
    if options.training.budget_minutes:
        _check_budget(options)
    if options.training.num_train_steps == AUTO_STEPS:
        tokens_per_step = options.training.train_batch_size * options.max_seq_length
        steps = advice.number_of_steps(facts.tokens, tokens_per_step)
        reason = f"about {advice.PASSES} passes over the text"
        reason = "has no effect: training ends after budget_minutes" if options.training.budget_minutes else reason
        options = options.decided({"num_train_steps": steps}, reason)
        between = min(options.training.save_checkpoints_steps, -(-steps // EVALUATIONS))
        options = options.with_defaults({"save_checkpoints_steps": between}, f"{EVALUATIONS} evaluations or more")
    if options.training.num_warmup_steps == BY_PROPORTION:  # run.json must contain the number
        steps = options.training.warmup_steps
        options = options.decided({"num_warmup_steps": steps}, "warmup_proportion of the steps")
    if options.model.model_size == "auto":
        options = options.decided({"model_size": advice.model_size(facts.tokens)}, "the amount of text")
    values = options.values()
    for line in own_text.lines(facts.tokens, {name: values[name] for name in chosen}) if chosen else ():
        terminal.say(line)
    return options


def _for_own_text(options: Flags, tokens: int) -> dict[str, Any]:
    """{flag: value} of a size and a recipe for the text, if the user chose neither."""
    gpus = machine.gpus_used(options.devices.device)
    given = {name: value for name, value in options.values().items() if name in options.given}
    return own_text.defaults(tokens, given, gpus=gpus, processes=max(1, number_of_workers()))


def _check_budget(options: Flags) -> None:
    """Raises UserError for a time budget with a number of steps, and for several processes, each with its own clock."""
    for name in ("num_train_steps", "num_warmup_steps"):
        if name in options.given:
            raise UserError(
                f"budget_minutes is {options.training.budget_minutes:g}, and training ends after that time: remove "
                f"{name}, or pass budget_minutes=0; warmup_proportion is the share of the time."
            )
    if number_of_workers() > 1:
        raise UserError(
            "budget_minutes requires a single process, because each has its own clock: pass num_train_steps."
        )


def check(options: Flags, facts: Facts) -> None:
    """Raises UserError for numbers that cannot work in any run, and for files without text."""
    record_options(options, "", None)
    masking = options.masking
    if options.chinese_word_segmentation and not masking.do_whole_word_mask and masking.max_span_words == 1:
        raise UserError(
            "chinese_word_segmentation is True; expected do_whole_word_mask or max_span_words too, because it selects "
            "characters to mask together."
        )
    if options.model.vocab_size <= len(vocabulary.SPECIAL_TOKENS):
        raise UserError(f"vocab_size is {options.model.vocab_size}; expected more than the five special tokens.")
    if options.devices.distribution_strategy == "multi_worker":
        check_workers()
    parts = max(options.devices.num_logical_devices, number_of_workers()) * (
        options.training.num_accumulation_steps or 1
    )
    if options.training.train_batch_size % parts:
        raise UserError(
            f"train_batch_size {options.training.train_batch_size} cannot be divided among {parts} replicas and "
            f"micro-batches: choose a multiple of {parts}."
        )
    if options.input_file:
        check_has_text("input_file", options.input_file, facts.sources)
    if options.eval_file:
        sources = corpus.find_sources(options.eval_file, **dataclasses.asdict(options.text))
        check_has_text("eval_file", options.eval_file, sources)
    if options.records_dir and files.exists(options.records_dir) and not files.is_folder(options.records_dir):
        raise UserError(f"records_dir is {options.records_dir}, which is a file: pass the name of a folder.")


def prepare(start: Checkpoint, options: Flags, facts: Facts, folder: RunFolder) -> tuple[BertConfig, dict[str, Any]]:
    """Writes vocab.txt, bert_config.json and the records of a run, unless they exist already.

    Returns the configuration, with the size of the vocabulary, and the manifest of the records.
    """
    vocab_file = folder.file("vocab.txt")
    if facts.masked and not start.vocabulary:
        raise UserError("records_dir has records masked by another program: pass their vocabulary as vocab_file.")
    if start.vocabulary:
        vocabulary.write(vocab_file, start.vocabulary)
    elif not files.exists(vocab_file):
        print(f"Learning a vocabulary of {start.config.vocab_size:,} tokens", flush=True)
        tokens = learn_vocabulary(
            facts.sources,
            start.config.vocab_size,
            lower_case=start.lowers_case,
            kind=start.config.encoder_traits.tokenizer,
            recognized=start.special_tokens,
        )
        vocabulary.write(vocab_file, tokens)
    config = dataclasses.replace(start.config, vocab_size=len(vocabulary.read(vocab_file)))
    config.write(folder.file("bert_config.json"))
    folder.write_json("tokenizer_config.json", special_tokens.settings(start.lowers_case, start.special_tokens))
    if facts.masked:
        return config, _open_masked(facts.masked, config, options)
    with progress("preparing records, parts") as report:
        manifest = records.prepare(
            records_folder(options, folder),
            record_options(options, vocab_file, start),
            input_file=options.input_file,
            eval_file=options.eval_file,
            num_workers=options.num_workers or _number_of_workers(options, facts.text_bytes),
            progress=report,
            accept_cleaned=True,
        )
    return config, manifest


def _open_masked(paths: Sequence[str], config: BertConfig, options: Flags) -> dict[str, Any]:
    """The manifest of records made by another program; raises UserError if these flags do not match them."""
    for name, is_valid, expected in (
        ("input_file", not options.input_file, "remove it, because records_dir has records with masks"),
        ("left_to_right", not options.left_to_right, "remove it"),
        ("encoder", config.encoder == "bert", "pass bert"),
    ):
        if not is_valid:
            raise UserError(f"{name} cannot be used with records masked by another program: {expected}.")
    initialization.start_for_files(options)
    return masked_records.open_masked(
        paths,
        max_seq_length=options.max_seq_length,
        max_predictions_per_seq=options.masking.max_predictions_per_seq,
        size=config.vocab_size,
    )


def _number_of_workers(options: Flags, text_bytes: int) -> int:
    """One per core; none for little text, because a worker takes seconds to load TensorFlow, needed here anyway.

    With several processes, the chief writes records while the others wait, not yet connected with it: it then uses
    workers, too, because TensorFlow operations would start its runtime before the connections are configured.
    """
    if number_of_workers() > 1 or text_bytes > LITTLE_TEXT:
        return os.cpu_count() or 1
    initialization.start_for_files(options)
    return (os.cpu_count() or 1) if backend.gpu_count() else IN_THIS_PROCESS


def _pairs(config: BertConfig, options: Flags) -> str:
    """The kind of rows, see `data.pretraining.pairs.KINDS`."""
    traits = config.encoder_traits
    if traits.full_sentences and not options.keep_pairs:
        return pair_kinds.FULL_SENTENCES
    return traits.sentence_pairs or "next"


def record_options(options: Flags, vocab_file: str, start: Checkpoint | None) -> records.RecordOptions:
    """The flags that determine the contents of the records; UserError for a value out of range."""
    return records.RecordOptions(
        vocab_file=vocab_file,
        lower_case=start is None or start.lowers_case,
        special_tokens_in_strings=start.special_tokens if start else (),
        pairs=_pairs(start.config, options) if start else "next",
        nsp=bool(options.next_sentence_weight) or options.keep_pairs,
        compress=options.compress_records,
        max_seq_length=options.max_seq_length,
        short_seq_prob=options.short_seq_prob,
        short_seq_per_document=options.short_seq_per_document,
        dupe_factor=options.dupe_factor,
        random_seed=options.training.random_seed,
        **dataclasses.asdict(options.text),
        chinese_word_segmentation=options.chinese_word_segmentation,
    )


def learn_vocabulary(
    sources: Sequence[Source],
    size: int,
    *,
    lower_case: bool,
    kind: str = tokenizer_kinds.WORDPIECE,
    recognized: Sequence[str] = (),
) -> list[str]:
    """Learns a vocabulary from files, else from Python's manual; uses the first 100 million characters."""
    documents = itertools.chain.from_iterable(map(read_documents, sources)) if sources else installed_python()
    some = _take_characters(itertools.chain.from_iterable(documents), MAX_VOCABULARY_TEXT)
    return vocabulary_learning.learn(some, size, lower_case=lower_case, kind=kind, special_tokens=recognized)


def _take_characters(texts: Iterable[str], limit: int) -> Iterator[str]:
    for text in texts:
        limit -= len(text)
        if limit < 0:
            return
        yield text


def records_folder(options: Flags, folder: RunFolder) -> str:
    """The folder of a run's records: in the run folder, or one shared by several runs."""
    return options.records_dir or folder.file("records")


def wait_for_chief(options: Flags, facts: Facts, folder: RunFolder) -> tuple[BertConfig, dict[str, Any]]:
    """Waits for the configuration and the records written by the first of several workers to a shared folder."""
    end, path, config_file = time.monotonic() + WAIT, records_folder(options, folder), folder.file("bert_config.json")
    while time.monotonic() < end:
        has_records = facts.masked or files.exists(os.path.join(path, records.MANIFEST))
        if has_records and files.exists(config_file):
            config = BertConfig.from_json_file(config_file)
            return config, _open_masked(facts.masked, config, options) if facts.masked else records.open_records(path)
        time.sleep(0.5)
    raise UserError(f"The first worker has not made records in {folder.path} within {WAIT} seconds.")
