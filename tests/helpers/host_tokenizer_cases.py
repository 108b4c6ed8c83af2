"""Hard texts for tokenizers without TensorFlow, a vocabulary of each kind, and what differs from those in the graph."""

import dataclasses
import random
import unicodedata

import tokenizer_cases

from bert_tf.text import sentencepiece_model, vocabulary_learning
from bert_tf.text.byte_level import BLANK
from bert_tf.text.host_tokenizer import create_host_tokenizer
from bert_tf.text.tokenizer import create_tokenizer
from bert_tf.text.tokenizer_kinds import BERT_BYTE_BPE, BYTE_BPE, DEBERTA_V2, SENTENCEPIECE, XLNET
from bert_tf.text.tokenizer_settings import AddedToken, TokenizerSettings
from bert_tf.text.vocabulary import SubwordVocabulary, Vocabulary

TEXTS = ["the quick  brown fox jumped over the lazy dogs", "it's naïve café 漢字 1234", "``a fox'' aaa {\n  x;\n}"] * 3
HARD = [
    *tokenizer_cases.HARD_STRINGS,
    *("  a", "a  ", " \t  b", "``The'' fox '''' ```a", "'s 's's don't 'll've", "\r\n\r\n x\u3000'", "a\u2581b"),
    *("e\u0301 a\u030a\u0323 ß\u0301\u0327 B\u0327\u0301 é\u0327", "\u1100\u1161\u11a8 \ufb01 \u212b \u095c\ufb3a"),
    *(
        "a [MASK] b<mask>",
        "a   [mask]  b",
        "a   [MASK]  b  [MASK]" + " " * 13 + "|||A|||  ",
        "[CLS]x[SEP]",
        "fox [E1] fox[E1]我[E1] e1 (e1)",
        "aோb \u0cd5\u0301",
        "字\u0327\u09c7ß A\u200dB A\u09c7b",
        "한\u0301\u0327 가\u0327\u11a8 \u11a8\u0344 e\u1161\u0344 \u0f73\u1161é a\u0f73b \u0958 \u0344\u09be\u0344",
    ),
]
PIECES = [("▁the", -2.0), ("▁", -2.5), ("x", -4.0), ("-", -3.2), ("--", -5.1), ("▁한국", -7.0), ("어", -6.5)]


def wordpiece(**settings):
    tokens = [*tokenizer_cases.VOCABULARY, "[E1]"]
    return Vocabulary(tokens, TokenizerSettings(**settings)) if settings else tokens


def fairseq(owner):
    charsmap = sentencepiece_model.parse(vocabulary_learning.learn(TEXTS, 60, kind=SENTENCEPIECE).rules).charsmap
    pieces = (("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0), *PIECES)
    content = sentencepiece_model.UnigramModel(pieces=pieces, unknown_id=0, charsmap=charsmap)
    model = sentencepiece_model.serialize(content, {"<s>", "</s>"})
    return sentencepiece_model.with_fairseq_ids(model, "a", owner)


def deberta(*, is_nfc):
    model = sentencepiece_model.parse(vocabulary_learning.learn(TEXTS, 60, kind=DEBERTA_V2).rules)
    model = dataclasses.replace(model, is_nfc=is_nfc, charsmap=b"" if is_nfc else model.charsmap)
    return sentencepiece_model.of_deberta(sentencepiece_model.serialize(model, {}), "a")


def with_runs_of_spaces():
    """As ModernBERT: runs of spaces are tokens, and the space before [MASK] belongs to it."""
    learned = vocabulary_learning.learn(TEXTS, 320, kind=BERT_BYTE_BPE)
    runs = [AddedToken(content=BLANK * size, normalized=True) for size in (8, 4, 3, 2)]
    added = (*runs, AddedToken(content="|||A|||", normalized=True), AddedToken(content="[MASK]", lstrip=True))
    tokens = [*learned, *(token.content for token in added[:-1])]
    return SubwordVocabulary(tokens, BERT_BYTE_BPE, learned.rules, TokenizerSettings(added_tokens=added))


ADDED = (AddedToken(content="[E1]", normalized=True, single_word=True),)
CASES = {  # vocabulary, lower_case, special_tokens_in_strings
    "uncased": (wordpiece, True, False),
    "cased": (wordpiece, False, True),
    "own": (
        lambda: wordpiece(split_ideographs=False, strip_accents=False, max_word_characters=9, no_final_sigma=True),
        True,
        False,
    ),
    "added": (lambda: wordpiece(added_tokens=ADDED), True, ["[E1]"]),
    "byte_bpe": (lambda: vocabulary_learning.learn(TEXTS, 320, kind=BYTE_BPE), False, True),
    "bert_byte_bpe": (lambda: vocabulary_learning.learn(TEXTS, 320, kind=BERT_BYTE_BPE), False, True),
    "modern_bert": (with_runs_of_spaces, False, [*(BLANK * size for size in (8, 4, 3, 2)), "|||A|||"]),
    "albert": (lambda: vocabulary_learning.learn(TEXTS, 60, kind=SENTENCEPIECE), True, False),
    "albert_cased": (lambda: vocabulary_learning.learn(TEXTS, 60, kind=SENTENCEPIECE), False, True),
    "xlm_roberta": (lambda: fairseq("XLMRobertaTokenizer"), False, False),
    "camembert": (lambda: fairseq("CamembertTokenizer"), False, True),
    "deberta": (lambda: deberta(is_nfc=False), False, False),
    "deberta_nfc": (lambda: deberta(is_nfc=True), False, True),
    "xlnet": (lambda: vocabulary_learning.learn(TEXTS, 60, kind=XLNET), False, ["<cls>", "<mask>", "<eop>", ";"]),
}
ASSIGNED = [
    chr(code)
    for code in range(1, 0x110000)
    if not 0xD800 <= code < 0xE000 and unicodedata.category(chr(code)) not in ("Cn", "Co")
]


def mixtures(count):
    draws = random.Random(0)
    pool = list("abcdeABCDE  .,'!?-ΣςσΑéÉ漢字ẞßİıſﬁ\u0301\u0327\u200b\u00ad\t\n한각`´\"") * 40 + draws.sample(
        ASSIGNED, 1000
    )
    return ["".join(draws.choices(pool, k=draws.randint(0, 30))) for _ in range(count)]


def tokenizers(case, vocabulary=None):
    """The tokenizer in the graph and that of the host."""
    make, lower_case, special = CASES[case]
    vocabulary = vocabulary or make()
    return [
        create(vocabulary, lower_case, special_tokens_in_strings=special)
        for create in (create_tokenizer, create_host_tokenizer)
    ]


def differences(graph, host, texts):
    """The texts whose ids or offsets differ, with both."""
    rows = zip(*(x.to_list() for x in graph.with_offsets(texts)), strict=True)
    pairs = ((text, list(row), list(host.with_offsets(text))) for text, row in zip(texts, rows, strict=True))
    return [each for each in pairs if each[1] != each[2]]
