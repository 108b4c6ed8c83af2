"""Tokenizers of `transformers`: their classes, special tokens and steps, a row of KINDS each."""

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

from bert_tf.runtime.settings import TEXT, Settings, map_of
from bert_tf.text.sentencepiece_model import NFC_SPACES, SPACE
from bert_tf.text.vocabulary import (
    BERT_BYTE_BPE,
    BYTE_BPE,
    DEBERTA_V2,
    LIBRARY,
    MPNET,
    SENTENCEPIECE,
    WORDPIECE,
    XLM_ROBERTA,
    XLNET,
)

PARTS = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers"}  # keys of the steps in a sequence
Steps = tuple[str, ...]  # the steps of a normalizer or a pre_tokenizer, see `described`
Values = Mapping[str, tuple[Any, ...]]  # supported values by name; None, for a missing name, is always supported

OF_BERT = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
OF_ROBERTA = {
    "bos": "<s>",
    "eos": "</s>",
    "unk": "<unk>",
    "sep": "</s>",
    "pad": "<pad>",
    "cls": "<s>",
    "mask": "<mask>",
}
BYTE_LEVEL: Values = {
    "dropout": (0,),
    "continuing_subword_prefix": ("",),
    "end_of_word_suffix": ("",),
    "byte_fallback": (False,),
    "ignore_merges": (False,),
}
WORD_PIECE: Values = {"unk_token": ("[UNK]",), "continuing_subword_prefix": ("##",)}
PREFIX: Values = {"add_prefix_space": (True,)}
QUOTES = ("Replace '``' '\"'", "Replace \"''\" '\"'")
LOWERED, CHARSMAP = ("NFKD", "StripAccents", "Lowercase"), ("Precompiled",)
ONE_SPACE = ("Replace ' {2,}' ' '",)
TRIMMED = (*ONE_SPACE, "Replace '^ | $' ''")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenizerLayout:
    """A kind of tokenizer in files of transformers.

    Attributes:
        model: the type of its model in tokenizer.json.
        classes: the transformers classes of this kind, without "Tokenizer" at the end.
        file: the file of its SentencePiece model; "" without one.
        special: the special tokens by their names in the files.
        settings: settings in tokenizer_config.json, with the values that change no token.
        options: settings of its model in tokenizer.json, with their supported values.
        normalizers: the supported ones in tokenizer.json.
        pre_tokenizers: the supported ones.
        of_class: additional ones if a class is named, because it rebuilds its steps; None: any.
        separators: the number of separators between the texts of a pair.
        has_segments: whether sequences from the classes have a separate segment for the second text of a pair.
        one_segment: those of the classes that nevertheless pass no segments to a model.
        differs: whether the classes pass segments to a model in transformers 4 and none in transformers 5.
        ends_in_cls: whether sequences in transformers end in the `cls` token, which has its own segment.
        extra: additional special tokens if no file names any.
    """

    model: str
    classes: str = ""
    file: str = ""
    special: Mapping[str, str]
    settings: Values = dataclasses.field(default_factory=dict)
    options: Values
    normalizers: tuple[Steps, ...]
    pre_tokenizers: tuple[Steps, ...]
    of_class: tuple[Steps, ...] | None = ((),)
    separators: int = 1
    has_segments: bool = True
    one_segment: str = ""
    differs: bool = False
    ends_in_cls: bool = False
    extra: tuple[str, ...] = ()

    @property
    def rows(self) -> tuple[str, str]:
        """The sequences for a text and a pair, with :1 at tokens of the second segment."""
        cls, sep = self.special["cls"], self.special["sep"]
        if self.ends_in_cls:
            return f"A {sep} {cls}:2", f"A {sep} B:1 {sep}:1 {cls}:2"
        single, between = f"{cls} A {sep}", f" {sep}" * (self.separators - 1)
        return single, f"{single}{between} B:1 {sep}:1"

    @property
    def known_rows(self) -> tuple[tuple[str, ...], ...]:
        """`rows`, and the same if both texts of a pair have the first segment."""
        return self.rows, tuple(re.sub(r":\d", "", row) for row in self.rows)

    @property
    def class_names(self) -> list[str]:
        """The transformers classes."""
        return [f"{name}Tokenizer" for name in self.classes.split()]


KINDS = {
    WORDPIECE: TokenizerLayout(
        model="WordPiece",
        classes="Bert DistilBert Electra MobileBert ConvBert LayoutLM SqueezeBert Lxmert",
        special=OF_BERT,
        one_segment="DistilBert",
        options=WORD_PIECE,
        normalizers=(("BertNormalizer",),),
        pre_tokenizers=(("BertPreTokenizer",),),
        of_class=((), ("Lowercase", "BertNormalizer")),  # do_lower_case of sentence-transformers 6, lost when it loads
    ),
    BYTE_BPE: TokenizerLayout(
        model="BPE",
        classes="Roberta Bart Longformer",
        special=OF_ROBERTA,
        options=BYTE_LEVEL,
        normalizers=((),),
        pre_tokenizers=(("ByteLevel",),),
        of_class=((), ("Lowercase",)),
        separators=2,
        has_segments=False,
    ),
    SENTENCEPIECE: TokenizerLayout(
        model="Unigram",
        classes="Albert",
        file="spiece.model",
        special={"unk": "<unk>", "sep": "[SEP]", "pad": "<pad>", "cls": "[CLS]", "mask": "[MASK]"},
        settings={**PREFIX, "remove_space": (True,)},
        options={"byte_fallback": (False,)},
        normalizers=tuple(  # as written by transformers 4 and 5; a different order is a different normalization
            (*QUOTES, *lowered, *charsmap, *spaces)
            for lowered in (LOWERED, ())
            for charsmap in (CHARSMAP, ())
            for spaces in ((), ONE_SPACE, TRIMMED)
        ),
        pre_tokenizers=(("Metaspace",), ("WhitespaceSplit", "Metaspace")),
        of_class=(),
        differs=True,
    ),
    XLNET: TokenizerLayout(
        model="Unigram",
        classes="XLNet",
        file="spiece.model",
        special={
            **{"bos": "<s>", "eos": "</s>", "unk": "<unk>", "sep": "<sep>", "pad": "<pad>", "cls": "<cls>"},
            "mask": "<mask>",
        },
        settings={**PREFIX, "remove_space": (True,), "do_lower_case": (False,), "keep_accents": (False,)},
        options={"byte_fallback": (False,)},
        normalizers=tuple(
            (*QUOTES, *LOWERED[:2], *charsmap, *spaces)
            for charsmap in (CHARSMAP, ())
            for spaces in ((), ONE_SPACE, TRIMMED)
        ),
        pre_tokenizers=(("Metaspace",), ("WhitespaceSplit", "Metaspace")),
        of_class=(),
        differs=True,
        ends_in_cls=True,
        extra=("<eop>", "<eod>"),
    ),
    XLM_ROBERTA: TokenizerLayout(
        model="Unigram",
        classes="XLMRoberta Camembert",
        file="sentencepiece.bpe.model",
        special=OF_ROBERTA,
        settings=PREFIX,
        options={"byte_fallback": (False,)},
        normalizers=((), CHARSMAP),
        pre_tokenizers=(("WhitespaceSplit", "Metaspace"),),
        of_class=None,  # everything but the charsmap is rebuilt
        separators=2,
        has_segments=False,
    ),
    DEBERTA_V2: TokenizerLayout(  # the steps of transformers 4 and 5 differ, and come from the file
        model="Unigram",
        classes="DebertaV2",
        file="spm.model",
        special=OF_BERT,
        settings={
            **PREFIX,
            "do_lower_case": (False,),
            "split_by_punct": (False,),
            "vocab_type": ("spm",),
            "sp_model_kwargs": ({},),
        },
        options={"byte_fallback": (False,)},
        normalizers=(
            ("Strip left right", *CHARSMAP, *ONE_SPACE),
            ("Strip left right", *ONE_SPACE),
            (f"Replace {NFC_SPACES!r} ' '", "NFC", "Strip right"),
        ),
        pre_tokenizers=(("Metaspace",),),
        of_class=(),
    ),
}
KINDS[LIBRARY] = TokenizerLayout(  # accepts any steps in its tokenizer.json
    model="", special={}, options={"dropout": (0,)}, normalizers=(), pre_tokenizers=(), of_class=None
)
KINDS[BERT_BYTE_BPE] = dataclasses.replace(
    KINDS[BYTE_BPE], classes="", special=OF_BERT, normalizers=(("NFC",),), of_class=(), separators=1
)
KINDS[MPNET] = dataclasses.replace(
    KINDS[WORDPIECE], classes="MPNet", special={**OF_ROBERTA, "unk": "[UNK]"}, separators=2, has_segments=False
)


def _replaces(step: Settings) -> list[str]:
    patterns = step.value("pattern", map_of(TEXT, "texts"), {})
    return [repr(next(iter(patterns.values()), None)), repr(step.value("content", TEXT))]


def _metaspace(step: Settings) -> list[str]:
    scheme = step.get("prepend_scheme", "always" if step.get("add_prefix_space", True) else "never")
    values: dict[str, tuple[Any, Any]] = {
        "replacement": (step.get("replacement"), SPACE),
        "prepend_scheme": (scheme, "always"),
        "split": (step.get("split") is not False, True),
    }
    return [f"{name}={value!r}" for name, (value, usual) in values.items() if value != usual]


# Types of steps -> the details that change tokens, in addition to the type; [] if supported.
DETAILS: Mapping[str, Callable[[Settings], list[str]]] = {
    "BertNormalizer": lambda step: ["clean_text=False"] if step.get("clean_text") is False else [],
    "ByteLevel": lambda step: [
        *(["add_prefix_space=True"] if step.get("add_prefix_space") is not False else []),
        *(["use_regex=False"] if step.get("use_regex") is False else []),
    ],
    "Metaspace": _metaspace,
    "Replace": _replaces,
    "Strip": lambda step: [side for side in ("left", "right") if step.get(f"strip_{side}")],
}


def steps_of(content: Settings, name: str) -> list[Settings]:
    """The steps of the normalizer or pre_tokenizer in a tokenizer.json; for a sequence, its steps."""
    step = content.inside(name)
    if step.get("type") == "Sequence":
        return step.each(PARTS[name])
    return [step] if step else []


def described(step: Settings) -> str:
    """A step as text: its type and any other details that change tokens."""
    kind = step.value("type", TEXT, "None")
    return " ".join([kind, *DETAILS.get(kind, lambda step: [])(step)])
