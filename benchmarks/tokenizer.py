"""Compares the tokenizer with the original's, and measures its speed; exit code 1 if any comparison differs.

python benchmarks/tokenizer.py --vocab=vocab.txt --text=book.txt --text=page.txt [--cased] [--batch=256]

Prints one row per comparison with the plain-Python original (texts, differences in tokens, differences in offsets) and
one row per speed (MB of text per second, batches of --batch lines on both sides, against Hugging Face `tokenizers`);
for each text also a version with an accent on every third vowel.
"""

import argparse
import math
import random
import sys
import time
import unicodedata
from pathlib import Path

import tensorflow as tf

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

import oracle_tokenizer as oracle  # noqa: E402

from bert_tf.text.tokenizer import Tokenizer  # noqa: E402

ACCENTED = dict(zip("aeiouAEIOU", "áéîöùÁÉÎÖÙ", strict=True))
ENOUGH = 8e6  # bytes for a measurement: a tf.data iterator takes up to 0.1 s to set up
SHOWN = 5  # differences
HARD_STRINGS = (
    "Straße ﬁnd ＡＢ， naïve cafe\u0301 İstanbul",
    "ΟΔΟΣ ΟΔΟΣ. Σ ΑΣΣ ΑΣ\u00adΑ Α\u0301Σ\u0301",
    "a\0b a\ufffdb a\x07b soft\u00adhyphen zero\u200bwidth \ufeffbom",
    "a\u00a0b a\u3000b a\u2003b a\u2028b a\u2029b a\u0085b a\u180eb",
    "我爱BERT 豈更 ひらがな カタカナ 한국어 \U00020000\U0002f800",
    "[MASK] [CLS] [unused1] ## ##a -- ... don't can't",
    "$5.00 + 3 = 8 ~ ^ ` | < > x² ½ ① ™ ℃ Å",
    "😀👩\u200d👩\u200d👧 🇩🇪 ❤\ufe0f नमस्ते สวัสดี שָׁלוֹם مَرْحَبًا ខ្មែរ",
    *(character * count for character in "aяáß漢!" for count in (100, 101, 199, 200, 201)),
    "ΑΣ" * 100,
    *("", " ", "\n\t\r", "\u0301", "\u0301a"),
)


def assigned_characters():
    codes = (*range(0xD800), *range(0xE000, 0x110000))
    return [chr(code) for code in codes if unicodedata.category(chr(code)) not in ("Cn", "Co", "Cs")]


def random_strings(count, seed=7):
    """Mixtures of difficult characters, a fifth of them from anywhere."""
    chosen = random.Random(seed)
    difficult = list("aábTß .,'ΑαΣσ\u0301\u0327\u00ad\u200b\0ﬁ한我é😀\u2028İ")
    pool = difficult * 16 + chosen.sample(assigned_characters(), 4 * len(difficult))
    return ["".join(chosen.choices(pool, k=chosen.randint(1, 40))) for _ in range(count)]


def differences(tokenizer, texts):
    """The number of texts that differ in tokens, and of those without capital sigma that differ in offsets."""
    ids, starts, ends = (part.to_list() for part in tokenizer.with_offsets(texts))
    known, token_errors, offset_errors = set(tokenizer.vocabulary), 0, 0
    for text, row, first, last in zip(texts, ids, starts, ends, strict=True):
        tokens = [tokenizer.vocabulary[i] for i in row]
        if tokens != oracle.tokenize(text, known, lower_case=tokenizer.lower_case):
            token_errors += 1
            if token_errors <= SHOWN:
                print(f"  differs: {text[:60]!r} -> {tokens[:12]}")
        elif "Σ" not in text:
            expected = oracle.tokenize_with_offsets(text, known, lower_case=tokenizer.lower_case)
            offset_errors += any(
                start != s or not earliest <= e <= latest
                for (_, start, earliest, latest), s, e in zip(expected, first, last, strict=True)
            )
    return token_errors, offset_errors


def accented(lines):
    """The lines with an accent on every third vowel."""
    count, result = 0, []
    for line in lines:
        characters = []
        for character in line:
            count += character in ACCENTED
            characters.append(ACCENTED[character] if character in ACCENTED and count % 3 == 0 else character)
        result.append("".join(characters))
    return result


def megabytes_per_second(run, lines, megabytes, batch):
    """The best of three passes over the lines; the first pass, which traces, is not counted."""
    batches = tf.reshape(tf.constant(lines), [-1, batch])  # beforehand: batching single strings would be measured
    dataset = tf.data.Dataset.from_tensor_slices(batches).map(run, num_parallel_calls=tf.data.AUTOTUNE)
    seconds = []
    for _ in range(4):
        start = time.perf_counter()
        for _ in dataset:
            pass
        seconds.append(time.perf_counter() - start)
    return megabytes / min(seconds[1:])


def hugging_face_speed(vocab_file, lower_case, lines, megabytes, batch):
    from tokenizers import BertWordPieceTokenizer

    tokenizer = BertWordPieceTokenizer(vocab_file, lowercase=lower_case)
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        for first in range(0, len(lines), batch):
            tokenizer.encode_batch(lines[first : first + batch], add_special_tokens=False)
        seconds.append(time.perf_counter() - start)
    return megabytes / min(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--vocab", required=True, help="vocab.txt")
    parser.add_argument("--text", action="append", default=[], help="a UTF-8 text file; may be given several times")
    parser.add_argument("--cased", action="store_true", help="keep case and accents")
    parser.add_argument("--batch", type=int, default=256, help="lines per batch")
    flags = parser.parse_args()
    start = time.perf_counter()
    tokenizer = Tokenizer.from_file(flags.vocab, lower_case=not flags.cased)
    tokenizer(["a"])  # builds its tables
    print(f"{flags.vocab}, {tokenizer.size} tokens, lower_case={tokenizer.lower_case}, Unicode "
          f"{unicodedata.unidata_version}, built in {time.perf_counter() - start:.1f} s")  # fmt: skip
    lines = {path: Path(path).read_text(encoding="utf-8", errors="ignore").split("\n") for path in flags.text}
    probes = {
        "assigned characters, a?b": [f"a{c}b" for c in assigned_characters()],
        "assigned characters, alone": assigned_characters(),
        "hard strings": list(HARD_STRINGS),
        "random strings": random_strings(20_000),
        **(lines := lines | {f"{path}, accented": accented(texts) for path, texts in lines.items()}),
    }
    print(f"{'compared with the original':50} {'texts':>8} {'tokens differ':>14} {'offsets differ':>14}")
    wrong = 0
    for name, texts in probes.items():
        token_errors, offset_errors = differences(tokenizer, texts)
        wrong += token_errors + offset_errors
        print(f"{name[-50:]:50} {len(texts):8} {token_errors:14} {offset_errors:14}")
    print(f"{'speed, MB/s':50} {'ids':>10} {'byte offsets':>12} {'char offsets':>12} {'tokenizers':>12}")
    for path, texts in lines.items():
        texts = texts * math.ceil(ENOUGH / sum(len(text.encode()) for text in texts))
        texts = texts[: len(texts) // flags.batch * flags.batch]
        size = sum(len(text.encode()) for text in texts) / 1e6
        speeds = [
            megabytes_per_second(tokenizer, texts, size, flags.batch),
            megabytes_per_second(lambda rows: tokenizer.with_offsets(rows, unit="byte"), texts, size, flags.batch),
            megabytes_per_second(tokenizer.with_offsets, texts, size, flags.batch),
            hugging_face_speed(flags.vocab, tokenizer.lower_case, texts, size, flags.batch),
        ]
        print(f"{path[-50:]:50} {speeds[0]:10.1f} {speeds[1]:12.1f} {speeds[2]:12.1f} {speeds[3]:12.1f}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
