"""Learns a WordPiece vocabulary from texts, or adds words to one.

  bert-tf vocabulary my_texts vocab.txt --vocab_size=8000
  bert-tf vocabulary words.txt longer.txt --extend=vocab.txt

TEXTS are files, folders or globs (.txt, .txt.gz, .jsonl), with commas, as run_pretraining.py takes them. With --extend
TEXTS is a file with a word a line: each takes the place of an [unusedN] while there is one, then they are appended,
and no other piece changes its number. TO is a file that appears whole or not at all.
"""

import json
import os

from bert_tf.errors import UserError


def add_arguments(parser):
    parser.add_argument("input_file", metavar="TEXTS", help="texts to learn from, or with --extend a word a line")
    parser.add_argument("output", metavar="TO", help="vocab.txt to write")
    parser.add_argument("--vocab_size", type=int, default=30522, help="pieces at most (30522)")
    parser.add_argument("--do_lower_case", choices=("true", "false"), default="true", help="casing (true: uncased)")
    parser.add_argument("--extend", metavar="VOCAB", help="vocabulary to add words to")
    parser.add_argument("--text_layout", default="auto", help="as of run_pretraining.py (auto)")
    parser.add_argument("--text_field", default="text", help="field of .jsonl files with the text (text)")
    parser.add_argument("--language", default="auto", help="language for splitting sentences (auto)")
    parser.add_argument("--overwrite", action="store_true", help="replace a file that exists")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")


def run(arguments):
    from bert_tf.data import tables
    from bert_tf.text import vocabulary

    output, lower_case = arguments.output, arguments.do_lower_case == "true"
    if os.path.isdir(output) or not os.path.isdir(os.path.dirname(os.path.abspath(output))):
        raise UserError(f"{output} cannot be written: give a file in a folder that is there.")
    if os.path.exists(output) and not arguments.overwrite:
        raise UserError(f"There is something at {output} already: give another name, or --overwrite.")
    if arguments.extend:
        words = [line.strip() for line in tables.read_lines(arguments.input_file) if line.strip()]
        pieces = vocabulary.extend(vocabulary.read(arguments.extend), words, lower_case=lower_case)
    else:
        pieces = learned(arguments, lower_case)
    vocabulary.write(output, pieces)
    if arguments.json:
        print(json.dumps({"vocabulary": output, "pieces": len(pieces), "lower_case": lower_case}))
    else:
        print(f"{output} has {len(pieces):,} pieces, {'uncased' if lower_case else 'cased'}.")


def learned(arguments, lower_case):
    """The pieces that the texts are made of; UserError where there are none, or too few are asked for."""
    from bert_tf.recipes import pretraining_preparation
    from bert_tf.text import vocabulary

    least = len(vocabulary.SPECIAL_TOKENS)
    if arguments.vocab_size <= least:
        raise UserError(f"vocab_size is {arguments.vocab_size}; expected more than the {least} special tokens.")
    pretraining_preparation.expect_text("input_file", arguments)
    return pretraining_preparation.learned_vocabulary(arguments, arguments.vocab_size, lower_case=lower_case)
