"""Compares byte-level BPE with `tokenizers`, and measures its speed; exit code 1 if any comparison differs.

python benchmarks/byte_bpe.py --text=book.txt [--text=page.txt] [--folder=roberta-base] [--strings=100000]

--folder holds vocab.json and merges.txt; without it a vocabulary of 8,000 tokens is learned from the texts. Prints one
row per comparison (texts, those that differ in ids, in character offsets), of every code point alone and between
letters, of random strings and of the lines of the texts; then MB of text per second in batches of --batch lines.
"""

import argparse
import math
import os
import random
import sys
import tempfile
import time
from pathlib import Path

import tensorflow as tf
from tokenizers import ByteLevelBPETokenizer, processors

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bert_tf.text.byte_bpe import ByteBpeTokenizer  # noqa: E402
from bert_tf.text.vocabulary import BYTE_BPE, SPECIAL_TOKENS_OF, SubwordVocabulary  # noqa: E402

ENOUGH = 4e6  # bytes for a measurement
SHOWN = 3  # differences
AT_ONCE = 5000  # texts that are compared at once
DIFFICULT = "aábTß .,'sretvmldΑ\u0301 \n\t 1²我é😀\u2028İ  ''"


def characters():
    return [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]


def random_strings(count, seed=7):
    """Mixtures of difficult characters, of apostrophes and spaces, and of any others."""
    chosen = random.Random(seed)
    pool = list(DIFFICULT) * 16 + chosen.sample(characters(), 2000)
    return ["".join(chosen.choices(pool, k=chosen.randint(1, 40))) for _ in range(count)]


def learn(texts, folder):
    tokenizer = ByteLevelBPETokenizer()
    special = list(SPECIAL_TOKENS_OF[BYTE_BPE])
    tokenizer.train(texts, vocab_size=8000, special_tokens=special, show_progress=False)
    tokenizer.save_model(folder)


def load(folder):
    """Ours and theirs of one folder, with the offsets of RoBERTa: without the space before a word."""
    files = os.path.join(folder, "vocab.json"), os.path.join(folder, "merges.txt")
    theirs = ByteLevelBPETokenizer(*files)
    pair = ("</s>", theirs.token_to_id("</s>")), ("<s>", theirs.token_to_id("<s>"))
    theirs._tokenizer.post_processor = processors.RobertaProcessing(*pair, trim_offsets=True, add_prefix_space=False)
    ids = theirs.get_vocab()
    vocabulary = SubwordVocabulary(sorted(ids, key=ids.get), BYTE_BPE, Path(files[1]).read_bytes())
    return ByteBpeTokenizer(vocabulary, lower_case=False), theirs


def differences(ours, theirs, texts):
    """The numbers of texts that differ in ids and in offsets."""
    in_ids = in_offsets = 0
    for first in range(0, len(texts), AT_ONCE):
        part = texts[first : first + AT_ONCE]
        ids, starts, ends = (x.to_list() for x in ours(tf.constant(part)))
        for number, encoding in enumerate(theirs.encode_batch(part, add_special_tokens=False)):
            offsets = list(zip(starts[number], ends[number], strict=True))
            in_ids += ids[number] != encoding.ids
            in_offsets += offsets != encoding.offsets
            if (ids[number], offsets) != (encoding.ids, encoding.offsets) and in_ids + in_offsets <= SHOWN:
                print(f"  {part[number]!r}: {ids[number]} {offsets}, {encoding.tokens} {encoding.offsets}")
    return in_ids, in_offsets


def speed(function, batches, megabytes):
    seconds = []
    for _ in range(4):
        start = time.perf_counter()
        for batch in batches:
            function(batch)
        seconds.append(time.perf_counter() - start)
    return megabytes / min(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", action="append", required=True, help="a UTF-8 text file; may be given several times")
    parser.add_argument("--folder", help="vocab.json and merges.txt")
    parser.add_argument("--strings", type=int, default=100_000, help="number of random strings")
    parser.add_argument("--batch", type=int, default=256, help="lines per batch")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if not flags.folder:
            learn(flags.text, folder)
        ours, theirs = load(flags.folder or folder)
    lines = [line for path in flags.text for line in Path(path).read_text("utf-8", errors="ignore").split("\n")]
    strings = [tf.TensorSpec([None], tf.string)]
    with_offsets = tf.function(ours.with_offsets, input_signature=strings, autograph=False)
    probes = {
        "every code point, a?b": [f"a{c}b" for c in characters()],
        "every code point, alone": characters(),
        "random strings": random_strings(flags.strings),
        "lines of the texts": lines,
    }
    print(f"{ours.size} tokens\n{'compared with tokenizers':30} {'texts':>9} {'ids differ':>11} {'offsets differ':>15}")
    wrong = 0
    for name, texts in probes.items():
        in_ids, in_offsets = differences(with_offsets, theirs, texts)
        wrong += in_ids + in_offsets
        print(f"{name:30} {len(texts):9} {in_ids:11} {in_offsets:15}", flush=True)
    lines *= math.ceil(ENOUGH / sum(len(line.encode()) for line in lines))
    parts = [lines[first : first + flags.batch] for first in range(0, len(lines), flags.batch)]
    megabytes = sum(len(line.encode()) for line in lines) / 1e6
    batches = [tf.constant(part) for part in parts]
    ids = speed(tf.function(ours, input_signature=strings, autograph=False), batches, megabytes)
    offsets = speed(with_offsets, batches, megabytes)
    peers = speed(lambda part: theirs.encode_batch(part, add_special_tokens=False), parts, megabytes)
    print(f"MB/s: ids {ids:.1f}, with offsets {offsets:.1f}, tokenizers {peers:.1f}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
