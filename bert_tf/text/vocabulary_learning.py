"""Vocabularies learned from texts: WordPiece, byte-level BPE, SentencePiece."""

import bisect
import io
import itertools
import logging
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bert_tf.errors import UserError, count_text
from bert_tf.runtime import json_files
from bert_tf.runtime.lazy import module
from bert_tf.text import byte_level, sentencepiece_model
from bert_tf.text.characters import basic_tokenize, is_accent, normalize_albert, special_token_pattern
from bert_tf.text.tokenizer_kinds import (
    BERT_BYTE_BPE,
    BYTE_BPE,
    DEBERTA_V2,
    KINDS,
    MPNET,
    SENTENCEPIECE,
    WORDPIECE,
    XLM_ROBERTA,
    XLNET,
)
from bert_tf.text.tokenizer_settings import MAX_TOKEN_BYTES, TokenizerSettings
from bert_tf.text.vocabulary import SPECIAL_TOKENS, SubwordVocabulary, with_settings

sentencepiece = module(
    "sentencepiece", "A SentencePiece vocabulary needs the package sentencepiece: pip install 'bert-tf[sentencepiece]'."
)
tokenizers = module("tokenizers")
MIN_ALPHABET, COVERAGE = 1000, 0.9995  # characters kept: this many, or the most common that make up this share
WORDS_PER_CHUNK = 10_000  # passed to the trainer at a time: enough to keep its threads busy, little memory

OF_MPNET = ("<s>", "<pad>", "</s>", "[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]", "<mask>")  # includes BERT's
OF_XLNET = {"control_symbols": ["<cls>", "<sep>", "<pad>", "<mask>", "<eod>"], "user_defined_symbols": ["<eop>"]}

log = logging.getLogger(__name__)


def learn(
    texts: Iterable[str],
    size: int,
    *,
    lower_case: bool = True,
    min_frequency: int = 2,
    limit_alphabet: int | None = None,
    kind: str = WORDPIECE,
    special_tokens: Sequence[str] = (),
) -> list[str]:
    """Learns a vocabulary of at most `size` tokens, by default for WordPiece.

    The five special tokens come first ([PAD] is id 0), then the alphabet, then the result of pair merging by the
    trainer of Hugging Face `tokenizers`, on words split by our tokenizer. Deterministic: the same texts in any order
    yield the same list. Memory grows with the number of distinct words, not with the texts. A corpus too small for
    `size` yields a smaller list, with a log message.

    Args:
        texts: the texts, read once.
        size: the maximum number of tokens.
        lower_case: whether the tokenizer that will use it lower-cases.
        min_frequency: how often a pair must occur to be merged.
        limit_alphabet: how many of the most frequent characters are kept; words with others are ignored because they
            will be [UNK]. None: 1,000, or for writing systems with many characters the number that makes up 99.95% of
            the texts (SentencePiece's `character_coverage`), but at most half of `size`.
        kind: tokenizer kind. Byte-level BPE does not lower-case, and its alphabet is the 256 bytes.
        special_tokens: additional special tokens for WordPiece, after the five; they are not words of the texts.

    Raises:
        UserError: the texts contain no words, or `size` has no room for the alphabet.
    """
    if kind in (BYTE_BPE, BERT_BYTE_BPE):
        return _learn_byte_bpe(texts, size, min_frequency, kind)
    if kind == SENTENCEPIECE:
        return _learn_sentencepiece(texts, size, lower_case)
    if kind == MPNET:
        counts = count_words(texts, lower_case=lower_case)
        settings: Any = {"lower_case": lower_case, "min_frequency": min_frequency, "limit_alphabet": limit_alphabet}
        tokens = learn_from_counts(counts, size, specials=OF_MPNET, **settings)
        return with_settings(tokens, TokenizerSettings(is_mpnet=True))
    if kind == XLM_ROBERTA:
        return _learn_xlm_roberta(texts, size)
    if kind == DEBERTA_V2:
        ids = {"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3}
        names = {"pad_piece": "[PAD]", "bos_piece": "[CLS]", "eos_piece": "[SEP]", "unk_piece": "[UNK]"}
        return sentencepiece_model.of_deberta(_train_unigram(texts, size - 1, **ids, **names), "The model")
    if kind == XLNET:
        return sentencepiece_model.of_xlnet(_train_unigram(texts, size, **OF_XLNET), "The model")
    specials = list(dict.fromkeys([*SPECIAL_TOKENS, *special_tokens]))
    no_words = re.compile(special_token_pattern(specials)) if special_tokens else None
    cleaned = (no_words.sub(" ", text) if no_words else text for text in texts)
    counts = count_words(cleaned, lower_case=lower_case)
    return learn_from_counts(
        counts,
        size,
        specials=specials,
        lower_case=lower_case,
        min_frequency=min_frequency,
        limit_alphabet=limit_alphabet,
    )


def count_words(texts: Iterable[str], *, lower_case: bool) -> Counter[str]:
    """Word counts of texts, split by the tokenizer."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(basic_tokenize(text, lower_case=lower_case))
    return counts


def learn_from_counts(
    counts: Mapping[str, int],
    size: int,
    *,
    lower_case: bool = True,
    min_frequency: int = 2,
    limit_alphabet: int | None = None,
    specials: Sequence[str] = SPECIAL_TOKENS,
) -> list[str]:
    """`learn` from word counts; `specials` are the first tokens."""
    alphabet = _alphabet(counts, limit_alphabet, size, lower_case)
    counted = sorted((word, count) for word, count in counts.items() if alphabet.issuperset(word) and _fits(word))
    if not counted:
        raise UserError("No word was found in the texts to learn a vocabulary from; pass files that contain text.")
    single = sorted({character for word, _ in counted for character in word})
    inner = sorted({f"##{character}" for word, _ in counted for character in word[1:]})
    first = [*specials, *single, *inner]
    if len(first) > size:
        raise UserError(
            f"size={size} is too small: the special tokens and the {len(single)} characters of the texts need "
            f"{len(first)}; pass a larger size."
        )
    vocabulary = _merge_pairs(counted, first, size, min_frequency)
    if len(vocabulary) < size:
        log.warning(
            "The texts yielded %s, fewer than the requested %s.", count_text(len(vocabulary), "token"), f"{size:,}"
        )
    return vocabulary


def _learn_byte_bpe(texts: Iterable[str], size: int, min_frequency: int, kind: str) -> SubwordVocabulary:
    """The special tokens in RoBERTa's or BERT's order, 256 bytes, and the trainer's merges."""
    order = (2, 0, 3, 1, 4) if kind == BYTE_BPE else range(5)
    special = [KINDS[kind].special_tokens[number] for number in order]
    if size <= len(special) + 256:
        raise UserError(
            f"size={size} is too small: special tokens and bytes need {len(special) + 256}; pass a larger size."
        )
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=min_frequency,
        special_tokens=special,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    if kind == BERT_BYTE_BPE:
        tokenizer.normalizer = tokenizers.normalizers.NFC()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.train_from_iterator(texts, trainer)
    state = json_files.parse(tokenizer.to_str())["model"]
    tokens = sorted(state["vocab"], key=state["vocab"].__getitem__)
    if not state["merges"]:
        raise UserError("No word was found in the texts to learn a vocabulary from; pass files that contain text.")
    if len(tokens) < size:
        log.warning("The texts yielded %s, fewer than the requested %s.", count_text(len(tokens), "token"), f"{size:,}")
    return SubwordVocabulary(tokens, kind, byte_level.format_merges(state["merges"]).encode())


def _learn_sentencepiece(texts: Iterable[str], size: int, lower_case: bool) -> SubwordVocabulary:
    """A unigram model of the package `sentencepiece`, with the special tokens of ALBERT."""
    pad, unknown, *controls = KINDS[SENTENCEPIECE].special_tokens
    normal = (normalize_albert(text) if lower_case else text for text in texts)
    options = {"pad_piece": pad, "unk_piece": unknown, "control_symbols": controls, "bos_id": -1, "eos_id": -1}
    return sentencepiece_model.tokens_of(_train_unigram(normal, size, pad_id=0, unk_id=1, **options), "The model")


def _learn_xlm_roberta(texts: Iterable[str], size: int) -> SubwordVocabulary:
    """A unigram model of the package `sentencepiece`, with the special tokens and ids of XLM-RoBERTa."""
    model = _train_unigram(texts, size - 2)  # without <pad> and <mask>
    return sentencepiece_model.with_fairseq_ids(model, "The model", "XLMRobertaTokenizer")


def _train_unigram(texts: Iterable[str], size: int, **options: Any) -> bytes:
    """The file of a unigram model; options: options of the package `sentencepiece`."""
    model, trainer = io.BytesIO(), sentencepiece.SentencePieceTrainer
    try:
        trainer.train(
            sentence_iterator=iter(texts),
            model_writer=model,
            vocab_size=size,
            hard_vocab_limit=False,
            minloglevel=2,
            num_threads=1,  # with more, the order of sums differs between runs
            **options,
        )
    except (RuntimeError, OSError) as error:
        reason = (str(error).strip().splitlines() or ["unknown"])[-1]
        raise UserError(
            f"No SentencePiece vocabulary of {size} tokens can be learned from the texts ({reason})."
        ) from None
    return model.getvalue()


def _alphabet(counts: Mapping[str, int], limit: int | None, size: int, lower_case: bool) -> set[str]:
    """The most frequent characters of the words; ties go to the smaller code point."""
    characters: Counter[str] = Counter()
    inner: set[str] = set()
    for word, count in counts.items():
        inner.update(word[1:])
        for character in word:
            characters[character] += count
    usable = (item for item in characters.items() if _can_be_exact(item[0], lower_case))
    ordered = sorted(usable, key=lambda item: (-item[1], item[0]))
    if limit is None and ordered:
        covered = list(itertools.accumulate(count for _, count in ordered))
        needed = bisect.bisect_left(covered, COVERAGE * covered[-1]) + 1
        tokens = itertools.accumulate(1 + (character in inner) for character, _ in ordered)  # c, and ##c inside a word
        limit = max(MIN_ALPHABET, min(needed, bisect.bisect_right(list(tokens), size // 2)))
    return {character for character, _ in ordered[:limit]}


def _can_be_exact(character: str, lower_case: bool) -> bool:
    """False for unassigned characters, and for marks that NFD reorders but lower-casing does not drop."""
    is_reordered = unicodedata.combining(character) and not is_accent(character)
    return unicodedata.category(character) != "Cn" and not (lower_case and is_reordered)


def _fits(word: str) -> bool:
    return len(word.encode()) <= MAX_TOKEN_BYTES


def _merge_pairs(
    counted_words: Iterable[tuple[str, int]], first: list[str], size: int, min_frequency: int
) -> list[str]:
    """The tokens `first`, with the first ids, and the merged pairs of the words: at most `size`.

    The trainer numbers ## characters in the order of a randomly seeded hash map, and equal pairs by number: two
    runs differ. Passing the alphabet as special tokens fixes all numbers in advance.
    """
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=size, min_frequency=min_frequency, special_tokens=first, show_progress=False
    )
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.train_from_iterator(_repeat_words(counted_words), trainer)
    by_id = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    return [token for token, _ in by_id]


def _repeat_words(counted_words: Iterable[tuple[str, int]]) -> Iterator[str]:
    """Texts that contain each word as often as it was counted."""
    for word, count in counted_words:
        for start in range(0, count, WORDS_PER_CHUNK):
            yield f"{word} " * min(WORDS_PER_CHUNK, count - start)
