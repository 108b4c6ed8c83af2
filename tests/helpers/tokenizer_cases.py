"""Shared by the tests of bert_tf.text: a small vocabulary, difficult strings, two ways to run a function of strings."""

import random

import pytest
import tensorflow as tf

from bert_tf.text.vocabulary import SPECIAL_TOKENS

WORDS = (
    "the quick brown fox jump ##s ##ed over lazy dog ran ##es mask don t st ##raße ß ##ß ﬁ ##nd naive cafe istanbul "
    "ο ##δ ##ος ##ο ##σ ##ς α ##σ ##α ##ς 我 爱 豈 你 ᄒ ##ᅡ ##ᆫ x ##x я ##я [ ] , . ! ' $ - ， 😀 e Straße İ ᆫ 한 cls"
).split()
LETTERS = [c for letter in "abcdefghijklmnopqrstuvwxyz" for c in (letter, f"##{letter}")]
VOCABULARY = list(dict.fromkeys([*SPECIAL_TOKENS, *WORDS, *LETTERS]))

HARD_STRINGS = [
    "Straße ﬁnd ＡＢ， naïve cafe\u0301 İstanbul",
    "ΟΔΟΣ ΟΔΟΣ. Σ ΑΣΣ ΑΣ\u00adΑ Α\u0301Σ\u0301",
    "a\0b a\ufffdb a\x07b soft\u00adhyphen zero\u200bwidth \ufeffbom",
    "a\u00a0b a\u3000b a\u2003b a\u2028b a\u2029b a\u0085b a\u180eb",
    "我爱BERT 豈更 ひらがな 한국어 한 \U00020000\U0002f800",
    "[MASK] [CLS] ## ##a -- ... don't can't $5.00 + 3 = 8 ~ ^ ` | < >",
    "😀👩\u200d👧 🇩🇪 ❤\ufe0f नमस्ते สวัสดี שָׁלוֹם مَرْحَبًا x² ½ ① ™",
    *(letter * count for letter in "aяáß我" for count in (100, 101, 200, 201)),
    "over " + "я" * 150 + " " + "a" * 201 + " fox" + "é" * 200 + "!",
    *("", " ", "\n\t\r", "\u0301", "\u0301a", "a\u0327\u0301"),
]


def probes(letters, texts, *, first=0):
    """The texts, mixtures of these letters with some of all characters, and all characters from the code `first` on."""
    chosen = random.Random(3)
    characters = [chr(code) for code in range(first, 0x110000) if not 0xD800 <= code < 0xE000]
    pool = list(letters) * 16 + chosen.sample(characters, 400)
    mixtures = ["".join(chosen.choices(pool, k=chosen.randint(1, 30))) for _ in range(300)]
    rows = ["".join(f"a{c}b{c}1" for c in characters[begin : begin + 40]) for begin in range(0, len(characters), 8000)]
    return [*texts, *mixtures, *rows]


def eagerly(function, *texts):
    return function(*(tf.constant(part, tf.string) for part in texts))


def inside_a_dataset(function, *texts):
    dataset = tf.data.Dataset.from_tensors(tuple(tf.constant(part, tf.string) for part in texts))
    return next(iter(dataset.map(function)))


both_ways = pytest.mark.parametrize("run", [eagerly, inside_a_dataset])


def tokens_of(tokenizer, ids):
    """Rows of ids -> one string of tokens per row."""
    rows = ids.to_list() if isinstance(ids, tf.RaggedTensor) else ids.numpy().tolist()
    return [" ".join(tokenizer.vocabulary[i] for i in row) for row in rows]
