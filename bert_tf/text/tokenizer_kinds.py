"""The kinds of tokenizers, a row of KINDS each, without their classes. Free of TensorFlow."""

import dataclasses
import importlib
import re
from collections.abc import Mapping
from typing import Any

WORDPIECE, BYTE_BPE, SENTENCEPIECE, XLM_ROBERTA = "wordpiece", "byte_bpe", "sentencepiece", "xlm_roberta"
MPNET = "mpnet"  # WordPiece with special tokens of RoBERTa
DEBERTA_V2 = "deberta_v2"  # SentencePiece with special tokens of BERT
BERT_BYTE_BPE, XLNET = "bert_byte_bpe", "xlnet"
LIBRARY = "library"  # a tokenizer.json, run with all its steps by the library `tokenizers`

NAMES = ("pad", "unk", "cls", "sep", "mask")  # of the five special tokens, in files of transformers
NFC_SPACES = r"\s{2,}|[\n\r\t]"  # replaced by one space in transformers 5, for a DeBERTa
Steps = tuple[str, ...]  # the steps of a normalizer or a pre_tokenizer, see `huggingface_rules.described`
Values = Mapping[str, tuple[Any, ...]]  # supported values by name; None, for a missing name, is always supported


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenizerKind:
    """A kind of tokenizer.

    Attributes:
        graph: the class that consists of TensorFlow operations, "module:class".
        host: the class without TensorFlow.
        special_tokens: the tokens for padding, unknown words, the start of a row, the end of a segment, and masks; ():
            as in its `TokenizerSettings`.
        owner: the models with such tokenizers, for messages.
        rules: the file next to vocab.txt with the rules for splitting texts; "" without one.
        is_cased: whether it has no setting lower_case.
        separators: the number of [SEP] tokens between two segments; 0: as in its `TokenizerSettings`.

    In files of transformers:
        model: the type of its model in tokenizer.json; "": any.
        classes: the transformers classes of this kind, without "Tokenizer" at the end.
        model_file: the file of its SentencePiece model; "" without one.
        ends: the tokens `bos` and `eos`, if the class has them.
        settings: settings in tokenizer_config.json, with the values that change no token.
        options: settings of its model in tokenizer.json, with their supported values.
        normalizers: the supported ones in tokenizer.json.
        pre_tokenizers: the supported ones.
        of_class: additional ones if a class is named, because it rebuilds its steps; None: any.
        has_segments: whether sequences from the classes have a separate segment for the second text of a pair.
        one_segment: classes that nevertheless pass no segments to a model.
        differs: whether the classes pass segments to a model in transformers 4 and none in transformers 5.
        ends_in_cls: whether sequences in transformers end in the `cls` token, which has its own segment.
        extra: additional special tokens if no file names any.
    """

    graph: str
    host: str
    special_tokens: tuple[str, ...]
    owner: str = ""
    rules: str = ""
    is_cased: bool = True
    separators: int = 1
    model: str
    classes: str = ""
    model_file: str = ""
    ends: Mapping[str, str] = dataclasses.field(default_factory=dict)
    settings: Values = dataclasses.field(default_factory=dict)
    options: Values
    normalizers: tuple[Steps, ...] = ()
    pre_tokenizers: tuple[Steps, ...] = ()
    of_class: tuple[Steps, ...] | None = ((),)
    has_segments: bool = True
    one_segment: str = ""
    differs: bool = False
    ends_in_cls: bool = False
    extra: tuple[str, ...] = ()

    @property
    def names(self) -> dict[str, str]:
        """The special tokens by their names in files of transformers, in the order of its attributes."""
        five = dict(zip(NAMES, self.special_tokens, strict=False))
        return {**self.ends, **{name: five[name] for name in ("unk", "sep", "pad", "cls", "mask") if five}}

    @property
    def rows(self) -> tuple[str, str]:
        """The sequences for a text and a pair, with :1 at tokens of the second segment."""
        _, _, cls, sep, _ = self.special_tokens
        if self.ends_in_cls:
            return f"A {sep} {cls}:2", f"A {sep} B:1 {sep}:1 {cls}:2"
        single, between = f"{cls} A {sep}", f" {sep}" * (self.separators - 1)
        return single, f"{single}{between} B:1 {sep}:1"

    @property
    def templates(self) -> tuple[str, ...]:
        """`rows` in the notation of the library `tokenizers`, with the segments that the classes use."""
        rows = self.known_rows[0 if self.has_segments else 1]
        return tuple(re.sub(r"(?<!\S)[AB](?=:|\s|$)", r"$\g<0>", row) for row in rows)

    @property
    def known_rows(self) -> tuple[tuple[str, ...], ...]:
        """`rows`, and the same if both texts of a pair have the first segment."""
        return self.rows, tuple(re.sub(r":\d", "", row) for row in self.rows)

    @property
    def class_names(self) -> list[str]:
        """The transformers classes."""
        return [f"{name}Tokenizer" for name in self.classes.split()]


def class_of(name: str) -> Any:
    """The class with a name "module:class"."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


OF_BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
OF_ROBERTA = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
ENDS = {"bos": "<s>", "eos": "</s>"}
PREFIX: Values = {"add_prefix_space": (True,)}
QUOTES = ("Replace '``' '\"'", "Replace \"''\" '\"'")
LOWERED, CHARSMAP = ("NFKD", "StripAccents", "Lowercase"), ("Precompiled",)
ONE_SPACE = ("Replace ' {2,}' ' '",)
TRIMMED = (*ONE_SPACE, "Replace '^ | $' ''")

_WORDPIECE = TokenizerKind(
    graph="bert_tf.text.tokenizer:Tokenizer",
    host="bert_tf.text.host_tokenizer:WordPiece",
    special_tokens=OF_BERT,
    is_cased=False,
    model="WordPiece",
    classes="Bert DistilBert Electra MobileBert ConvBert LayoutLM SqueezeBert Lxmert",
    one_segment="DistilBert",
    options={"unk_token": ("[UNK]",), "continuing_subword_prefix": ("##",)},
    normalizers=(("BertNormalizer",),),
    pre_tokenizers=(("BertPreTokenizer",),),
    of_class=((), ("Lowercase", "BertNormalizer")),  # do_lower_case of sentence-transformers 6, lost when it loads
)
_BYTE_BPE = TokenizerKind(
    graph="bert_tf.text.byte_bpe:ByteBpeTokenizer",
    host="bert_tf.text.host_subwords:ByteBpe",
    special_tokens=OF_ROBERTA,
    owner="RoBERTa",
    rules="merges.txt",
    separators=2,
    model="BPE",
    classes="Roberta Bart Longformer",
    ends=ENDS,
    options={
        "dropout": (0,),
        "continuing_subword_prefix": ("",),
        "end_of_word_suffix": ("",),
        "byte_fallback": (False,),
        "ignore_merges": (False,),
    },
    normalizers=((),),
    pre_tokenizers=(("ByteLevel",),),
    of_class=((), ("Lowercase",)),
    has_segments=False,
)


def _normalizers(*lowered: Steps) -> tuple[Steps, ...]:
    """As written by transformers 4 and 5; a different order is a different normalization."""
    return tuple(
        (*QUOTES, *first, *charsmap, *spaces)
        for first in lowered
        for charsmap in (CHARSMAP, ())
        for spaces in ((), ONE_SPACE, TRIMMED)
    )


_SENTENCEPIECE = TokenizerKind(
    graph="bert_tf.text.sentencepiece:SentencePieceTokenizer",
    host="bert_tf.text.host_subwords:Albert",
    special_tokens=("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
    owner="ALBERT",
    rules="spiece.model",
    is_cased=False,
    model="Unigram",
    classes="Albert",
    model_file="spiece.model",
    settings={**PREFIX, "remove_space": (True,)},
    options={"byte_fallback": (False,)},
    normalizers=_normalizers(LOWERED, ()),
    pre_tokenizers=(("Metaspace",), ("WhitespaceSplit", "Metaspace")),
    of_class=(),
    differs=True,
)
KINDS = {
    WORDPIECE: _WORDPIECE,
    BYTE_BPE: _BYTE_BPE,
    BERT_BYTE_BPE: dataclasses.replace(
        _BYTE_BPE,
        graph="bert_tf.text.byte_bpe:BertByteBpeTokenizer",
        host="bert_tf.text.host_subwords:BertByteBpe",
        special_tokens=OF_BERT,
        owner="ModernBERT",
        rules="bert_merges.txt",
        separators=1,
        classes="",
        ends={},
        normalizers=(("NFC",),),
        of_class=(),
    ),
    SENTENCEPIECE: _SENTENCEPIECE,
    XLM_ROBERTA: dataclasses.replace(
        _SENTENCEPIECE,
        graph="bert_tf.text.sentencepiece:XlmRobertaTokenizer",
        host="bert_tf.text.host_subwords:SentencePiece",
        special_tokens=OF_ROBERTA,
        owner="XLM-RoBERTa and CamemBERT",
        rules="unigram.model",
        is_cased=True,
        separators=2,
        classes="XLMRoberta Camembert",
        model_file="sentencepiece.bpe.model",
        ends=ENDS,
        settings=PREFIX,
        normalizers=((), CHARSMAP),
        pre_tokenizers=(("WhitespaceSplit", "Metaspace"),),
        of_class=None,  # everything but the charsmap is rebuilt
        has_segments=False,
        differs=False,
    ),
    MPNET: dataclasses.replace(
        _WORDPIECE,
        special_tokens=("<pad>", "[UNK]", "<s>", "</s>", "<mask>"),
        owner="MPNet",
        separators=2,
        classes="MPNet",
        ends=ENDS,
        has_segments=False,
    ),
    DEBERTA_V2: dataclasses.replace(  # the steps of transformers 4 and 5 differ, and come from the file
        _SENTENCEPIECE,
        graph="bert_tf.text.sentencepiece:DebertaTokenizer",
        host="bert_tf.text.host_subwords:Deberta",
        special_tokens=OF_BERT,
        owner="DeBERTa-v2 and -v3",
        rules="spm.model",
        is_cased=True,
        classes="DebertaV2",
        model_file="spm.model",
        settings={
            **PREFIX,
            "do_lower_case": (False,),
            "split_by_punct": (False,),
            "vocab_type": ("spm",),
            "sp_model_kwargs": ({},),
        },
        normalizers=(
            ("Strip left right", *CHARSMAP, *ONE_SPACE),
            ("Strip left right", *ONE_SPACE),
            (f"Replace {NFC_SPACES!r} ' '", "NFC", "Strip right"),
        ),
        pre_tokenizers=(("Metaspace",),),
        differs=False,
    ),
    XLNET: dataclasses.replace(
        _SENTENCEPIECE,
        graph="bert_tf.text.sentencepiece:XlnetTokenizer",
        host="bert_tf.text.host_subwords:Xlnet",
        special_tokens=("<pad>", "<unk>", "<cls>", "<sep>", "<mask>"),
        owner="XLNet",
        rules="xlnet.model",
        is_cased=True,
        classes="XLNet",
        ends=ENDS,
        settings={**_SENTENCEPIECE.settings, "do_lower_case": (False,), "keep_accents": (False,)},
        normalizers=_normalizers(LOWERED[:2]),
        ends_in_cls=True,
        extra=("<eop>", "<eod>"),
    ),
    LIBRARY: TokenizerKind(  # accepts any steps in its tokenizer.json
        graph="bert_tf.text.library_tokenizer:LibraryTokenizer",
        host="bert_tf.text.host_library:LibraryTokenizer",
        special_tokens=(),
        rules="library_tokenizer.json",
        separators=0,
        model="",
        options={"dropout": (0,)},
        of_class=None,
    ),
}
