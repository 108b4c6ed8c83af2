"""Compares the tokens of hard texts between the tokenizer in the graph and the one for other engines."""

from collections.abc import Sequence

from bert_tf.errors import NoEngine
from bert_tf.text.byte_level import spaces_for_blanks
from bert_tf.text.host_tokenizer import HostTokenizer
from bert_tf.text.tokenizer import Tokenizer

MOST = 100  # tokens found in texts to try
TEXTS = (
    "",
    " ",
    "  ",
    "   a",
    "a  b   c    d" + " " * 30 + "e" + " " * 9,
    " \t  b\t\tc\t",
    "\xa0\xa0a\u3000 b\u2003",
    "a\nb\r\nc\rd\n\n\ne",
    "\r\n\r\n x\u2028y\u2029\x85z",
    "line one \n  line two\t\n",
    "def f(x):\n    return  1;\n",
    "漢字 mixed漢with字 latin",
    "ひらがなカタカナ 한국어 한\u0301",
    "\U00020000\u8c48",
    "ﬁ ＡＢ， ² ½ ① ™ İstanbul ẞ",
    "e\u0301 a\u030a\u0323 c\u0327\u0301",
    "\u0301",
    "a\u0301\u0327\u0301b",
    "\u1100\u1161\u11a8 \u095c नमस्ते שָׁלוֹם مَرْحَبًا",
    "a\x00b",
    "a\x07b\x1bc\x7f",
    "a�b soft\xadhyphen zero\u200bwidth \ufeffbom a\u200cb\u200dc",
    "\x0b\x0c a\x1fb",
    "ΟΔΟΣ ΟΔΟΣ. Σ",
    "``The'' fox '''' ```a",
    "'s 's's don't 'll've",
    "a\u2581b \u2581",
    "\u2423\u2423 a",
    "😀👩\u200d👧 🇩🇪 ❤\ufe0f",
    "don't ... $5.00 -- x_y @a #b ~^`|<>",
    "1234567 12a 3.14",
    "a" * 250,
    "字" * 120,
    "[MASK] [mask] <mask> [CLS]x[SEP]",
)


def check(graph: Tokenizer, host: HostTokenizer) -> None:
    """Raises NoEngine unless both have the same tokens, at the same places."""
    texts = hard_texts(graph.special_tokens)
    expected = zip(*(column.to_list() for column in graph.with_offsets(texts)), strict=True)
    for text, right in zip(texts, expected, strict=True):
        found = host.with_offsets(text)
        if list(found) != list(right):
            raise NoEngine(
                f"Without TensorFlow {text!r} would have the tokens {_names(host, found.ids)} instead of "
                f"{_names(host, right[0])}"
            )


def hard_texts(tokens: Sequence[str]) -> list[str]:
    """TEXTS, and texts with tokens found in texts: in words, repeated, at both ends, with spaces around."""
    names = [spaces_for_blanks(token) for token in tokens[:MOST]]
    alone = [f"{name}a {name}b{name}{name}  {name} \n{name.swapcase()} c{name}" for name in names]
    return [*TEXTS, *alone, "".join(names), " ".join(reversed(names)), "  x\t".join(names)]


def _names(tokenizer: HostTokenizer, ids: Sequence[int]) -> str:
    return " ".join(tokenizer.vocabulary[number] for number in ids)
