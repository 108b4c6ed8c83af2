"""Learns a vocabulary from text, of WordPiece or another kind, or adds words to an existing one.

  bert-tf vocabulary my_texts vocab.txt --vocab_size=8000
  bert-tf vocabulary words.txt longer.txt --extend=vocab.txt
  bert-tf vocabulary my_texts roberta/vocab.txt --kind=byte_bpe
  bert-tf vocabulary 'crawl/*.jsonl.zst' vocab.txt --runner=DaskRunner

TEXTS are comma-separated files, folders or globs, as for bert-tf records. A vocabulary is learned from their first 100
million characters, or with --runner from all of them, on an engine of Apache Beam. With --extend, TEXTS is a file with
one word per line: words replace the [unusedN] tokens and are then appended, so no other token changes its id. Words
that are in the vocabulary, or that its tokenizer would split, are counted and left out. TO is written completely or not
at all; with other kinds than WordPiece, their rules next to it.
"""

import argparse
import json
import os
import shlex

from bert_tf.config import flag_parsers
from bert_tf.config.flag_groups import ModelOptions, TextOptions
from bert_tf.data import text_lines
from bert_tf.errors import UserError
from bert_tf.recipes.pretraining import facts, preparation
from bert_tf.runtime import atomic_files, files
from bert_tf.runtime.lazy import module
from bert_tf.text import corpus, tokenizer_kinds, vocabulary, vocabulary_learning
from bert_tf.text.sources import Source

beam_pipeline = module("bert_tf.extras.beam.beam_pipeline")
beam_runner = module("bert_tf.extras.beam.beam_runner")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input_file", metavar="TEXTS", help="texts to learn from; with --extend, one word per line")
    parser.add_argument("output", metavar="TO", help="vocab.txt to write")
    flag_parsers.add_arguments(parser, ModelOptions, ("vocab_size", "do_lower_case"))
    kinds = [name for name, kind in tokenizer_kinds.KINDS.items() if kind.special_tokens]
    parser.add_argument("--kind", choices=kinds, default=kinds[0], help="kind of tokenizer (wordpiece)")
    parser.add_argument("--extend", metavar="VOCAB", help="vocabulary to add words to")
    flag_parsers.add_arguments(parser, TextOptions)
    parser.add_argument("--runner", default="", help="Apache Beam runner that counts the words (none)")
    parser.add_argument("--runner_flags", default="", help="flags of the runner, in one string")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing file")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> None:
    output = arguments.output
    lower_case = arguments.do_lower_case == "true" and "byte_bpe" not in arguments.kind
    atomic_files.check_place(output)
    if files.exists(output) and not arguments.overwrite:
        raise UserError(f"{output} already exists: pass another name, or --overwrite.")
    extension = None
    if arguments.extend:
        words = [line.strip() for line in text_lines.read(arguments.input_file) if line.strip()]
        extension = vocabulary.extend(vocabulary.read(arguments.extend), words, lower_case=lower_case)
        if not extension.added:
            raise UserError(f"{arguments.input_file} has no word to add: {extension}.")
        tokens = extension.tokens
    else:
        tokens = _learn(arguments, lower_case)
    vocabulary.write(output, tokens)
    if arguments.json:
        print(
            json.dumps({"vocabulary": output, "pieces": len(tokens), "lower_case": lower_case, "kind": arguments.kind})
        )
    else:
        words_added = f" {extension}." if extension else ""
        print(f"{output} has {len(tokens):,} tokens, {'uncased' if lower_case else 'cased'}.{words_added}")


def _learn(arguments: argparse.Namespace, lower_case: bool) -> list[str]:
    """Learns a vocabulary; raises UserError if there is no text or the size is too small."""
    minimum = len(vocabulary.SPECIAL_TOKENS)
    if arguments.vocab_size <= minimum:
        raise UserError(f"vocab_size is {arguments.vocab_size}; expected more than the {minimum} special tokens.")
    if arguments.runner and arguments.kind != tokenizer_kinds.WORDPIECE:
        raise UserError(f"--kind={arguments.kind} is learned on this machine only: remove --runner.")
    if arguments.runner:
        return _learn_on_beam(arguments, lower_case)
    sources = _sources(arguments)
    facts.check_has_text("input_file", arguments.input_file, sources)
    return preparation.learn_vocabulary(sources, arguments.vocab_size, lower_case=lower_case, kind=arguments.kind)


def _sources(arguments: argparse.Namespace) -> list[Source]:
    read_as = {name: getattr(arguments, name) for name in ("text_layout", "language", "text_field")}
    return corpus.find_sources(arguments.input_file, **read_as)


def _learn_on_beam(arguments: argparse.Namespace, lower_case: bool) -> list[str]:
    """Learns a vocabulary from all of the text; raises UserError if the runner is not installed."""
    flags = shlex.split(arguments.runner_flags)
    beam_runner.check(arguments.runner, flags)
    sources = _sources(arguments)
    folder = os.path.dirname(files.absolute(arguments.output))
    settings = {"lower_case": lower_case, "runner": arguments.runner, "flags": flags}
    counts = beam_pipeline.count_words(sources, folder, **settings)
    return vocabulary_learning.learn_from_counts(counts, arguments.vocab_size, lower_case=lower_case)
