"""Reads, learns, extends and writes a WordPiece vocabulary: a list of tokens, list index = id. Free of TensorFlow."""

import bisect
import io
import itertools
import logging
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from bert_tf.errors import UserError
from bert_tf.runtime import atomic_files, files, json_files
from bert_tf.text import byte_level
from bert_tf.text.characters import MAX_WORD_CHARACTERS, basic_tokenize, is_accent, special_token_pattern

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDPIECE, BYTE_BPE, SENTENCEPIECE = "wordpiece", "byte_bpe", "sentencepiece"
SPECIAL_TOKENS_OF = {
    WORDPIECE: SPECIAL_TOKENS,
    BYTE_BPE: ("<pad>", "<unk>", "<s>", "</s>", "<mask>"),
    SENTENCEPIECE: ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
}
RULES = {
    BYTE_BPE: "merges.txt",
    SENTENCEPIECE: "spiece.model",
}  # kind of tokenizer -> the file next to vocab.txt with its rules
MIN_ALPHABET, COVERAGE = 1000, 0.9995  # characters kept: this many, or the commonest that make up this share
NAMED = re.compile(r"\[[^\s\[\]]+\]|<[^\s<>]+>")  # what special tokens look like
WORDS_PER_CHUNK = 10_000  # passed to the trainer at a time: enough to keep its threads busy, little memory

log = logging.getLogger(__name__)


class SubwordVocabulary(list[str]):
    """Tokens, list index = id, of a tokenizer other than WordPiece.

    kind: a key of RULES. rules: by what a text is split into tokens, the content of the file that RULES names.
    """

    def __init__(self, tokens: Iterable[str], kind: str, rules: bytes) -> None:
        super().__init__(tokens)
        self.kind, self.rules = kind, rules


def kind_of(vocabulary: Collection[str]) -> str:
    """The kind of tokenizer that a vocabulary is for."""
    return vocabulary.kind if isinstance(vocabulary, SubwordVocabulary) else WORDPIECE


def special_tokens(vocabulary: Collection[str]) -> tuple[str, ...]:
    """The names of the tokens for padding, unknown words, the start of a row, the end of a segment, and masks."""
    return SPECIAL_TOKENS_OF[kind_of(vocabulary)]


def check_special_tokens(vocabulary: Collection[str], name: str) -> None:
    """Raises UserError unless the five special tokens are present, and others; `name` says whose vocabulary it is."""
    known, expected = set(vocabulary), special_tokens(vocabulary)
    missing = [token for token in expected if token not in known]
    if missing:
        raise UserError(f"{name} has no {', '.join(missing)}; give the vocab.txt of a BERT checkpoint.")
    if known == set(expected):
        raise UserError(f"{name} has only special tokens, with which no text can be written; give a whole vocab.txt.")


def read(path: str | os.PathLike[str], expected_size: int | None = None) -> list[str]:
    """Reads `vocab.txt`: one token per line, line number = id (`load_vocab` of google-research/bert).

    UTF-8; a byte order mark, CRLF and blank lines at the end are harmless. A repeated token has its last id, as in the
    original; that is logged.

    Args:
        path: the file.
        expected_size: `vocab_size` of the model that will use it.

    Raises:
        UserError: the file is missing, empty, not a vocabulary, lacks a special token or has another size.
    """
    text = _vocabulary_text(path)
    vocabulary = [line.strip() for line in text.rstrip().split("\n")]  # not splitlines: U+2028 may be a token
    vocabulary = _with_rules(vocabulary, os.path.dirname(os.fspath(path)))
    check_special_tokens(vocabulary, str(path))
    if expected_size is not None and len(vocabulary) != expected_size:
        raise UserError(
            f"{path} has {len(vocabulary)} tokens, but the model expects {expected_size} (vocab_size); give the "
            "vocab.txt that belongs to the checkpoint."
        )
    repeated = [token for token, count in Counter(vocabulary).items() if count > 1 and token]
    if repeated:
        log.warning("%s repeats %d tokens (%s, ...): the last id is used.", path, len(repeated), repeated[0])
    return vocabulary


def _vocabulary_text(path: files.StrPath) -> str:
    """The text of the file; raises UserError with what it is instead."""
    if not files.is_file(path):
        problem = (
            "is a folder; give the vocab.txt inside it" if files.is_folder(path) else "does not exist; give a vocab.txt"
        )
        raise UserError(f"The vocabulary file {path} {problem}.")
    with files.open_binary(path) as file:
        data = file.read()
    if not data.strip():
        raise UserError(f"The vocabulary file {path} is empty; it should hold one token per line.")
    if b"<unk>" in data[:200] and b"\0" in data:
        raise UserError(f"{path} is a SentencePiece model; BERT needs the vocab.txt of a WordPiece vocabulary.")
    if b"\0" in data:
        raise UserError(f"{path} is a binary file; a vocabulary is a text file (vocab.txt) with one token per line.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path} is not UTF-8 text (line {line}); save it as UTF-8, one token per line.") from None
    if text.lstrip().startswith("{") and _is_json(text):
        raise UserError(f"{path} is a JSON file (tokenizer.json?); give the vocab.txt in the same folder.")
    return text


def _with_rules(tokens: list[str], folder: str) -> list[str]:
    """The tokens as a SubwordVocabulary, if there are rules in the folder."""
    for kind, name in RULES.items():
        if files.is_file(os.path.join(folder, name)):
            with files.open_binary(os.path.join(folder, name)) as file:
                return SubwordVocabulary(tokens, kind, file.read())
    return tokens


def _is_json(text: str) -> bool:
    try:
        json_files.parse(text)
    except ValueError:
        return False
    return True


def write(path: str | os.PathLike[str], vocabulary: Sequence[str]) -> None:
    """Writes one token per line, so that `read` gives it back. The file appears whole or not at all."""
    invalid = next((token for token in vocabulary if token != token.strip() or "\n" in token), None)
    if invalid is not None:
        raise UserError(f"The token {invalid!r} has white space around it or a line break in it; no file can hold it.")
    if isinstance(vocabulary, SubwordVocabulary):
        rules = os.path.join(os.path.dirname(os.fspath(path)), RULES[vocabulary.kind])
        atomic_files.write_bytes(rules, vocabulary.rules, shared=True)
    atomic_files.write_lines(path, (f"{token}\n" for token in vocabulary), shared=True)


def extend(vocabulary: Iterable[str], new_words: Iterable[str], *, lower_case: bool = True) -> list[str]:
    """Adds domain words: each replaces an [unusedN] token while one is left, then they are appended.

    extend([..., "[unused0]", "the"], ["krill", "##opod"])  ->  [..., "krill", "the", "##opod"]

    No other token changes its id. If the list grew, the model's token table must grow too. A word such as [E1] or <e>
    becomes a special token, which is recognized only where special_tokens_in_strings names it.

    Args:
        vocabulary: the tokens to start from; not changed.
        new_words: the words to add.
        lower_case: as the tokenizer that will use it.

    Raises:
        UserError: the tokenizer could never match a word, or it is in the vocabulary already.
    """
    extended = list(vocabulary)
    known = set(extended)
    unused = iter([i for i, token in enumerate(extended) if re.fullmatch(r"\[unused\d+\]", token)])
    for word in new_words:
        body = word.removeprefix("##")
        if word in known:
            raise UserError(f"The token {word!r} is in the vocabulary already or given twice; remove it.")
        if not body or body.split() != [body]:
            raise UserError(f"The token {word!r} is empty or has white space in it; give single words.")
        parts = basic_tokenize(body, lower_case=lower_case)
        is_matched = parts == [body] or NAMED.fullmatch(word)
        if not is_matched or len(body.encode()) > MAX_WORD_CHARACTERS:
            raise UserError(
                f"The token {word!r} can never match: the tokenizer (lower_case={lower_case}) makes "
                f"{' '.join(parts)!r} of it, and matches at most 200 bytes; give it in that form, one word each."
            )
        known.add(word)
        index = next(unused, None)
        if index is None:
            extended.append(word)
        else:
            extended[index] = word
    return extended


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
    """Learns a vocabulary of at most `size` tokens, of WordPiece unless `kind` says otherwise.

    The five special tokens come first ([PAD] is id 0), then the alphabet, then the result of pair merging: the trainer
    of Hugging Face `tokenizers`, on words split as the tokenizer splits them. Deterministic: the same texts in any
    order give the same list. Memory grows with the number of different words, not with the texts. A corpus too small
    for `size` gives a smaller list; that is logged.

    Args:
        texts: the texts, read once.
        size: the maximum number of tokens.
        lower_case: as the tokenizer that will use it.
        min_frequency: how often a pair must occur to be merged.
        limit_alphabet: how many of the most frequent characters are kept; a word with another one is ignored, as it
            will be [UNK]. None: 1,000, or for writing systems with many characters as many as make up 99.95% of the
            texts (SentencePiece's `character_coverage`), but not more than take up half of `size`.
        kind: of tokenizer. Byte-level BPE does not lower-case, and its alphabet is that of bytes.
        special_tokens: more of them, for WordPiece, which follow the five; where they occur in the texts they are no
            words.

    Raises:
        UserError: the texts hold no word, or `size` has no room for the alphabet.
    """
    if kind == BYTE_BPE:
        return _learn_byte_bpe(texts, size, min_frequency)
    if kind == SENTENCEPIECE:
        return _learn_sentencepiece(texts, size, lower_case)
    specials = list(dict.fromkeys([*SPECIAL_TOKENS, *special_tokens]))
    no_words = re.compile(special_token_pattern(specials)) if special_tokens else None
    cleaned = (no_words.sub(" ", text) if no_words else text for text in texts)
    counts = count_words(cleaned, lower_case=lower_case)
    return learn_from_counts(
        counts,
        size,
        lower_case=lower_case,
        min_frequency=min_frequency,
        limit_alphabet=limit_alphabet,
        specials=specials,
    )


def count_words(texts: Iterable[str], *, lower_case: bool) -> Counter[str]:
    """How often each word occurs in texts, split as the tokenizer splits them."""
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
    """`learn`, from how often each word occurs; `specials` are the first tokens."""
    alphabet = _alphabet(counts, limit_alphabet, size, lower_case)
    counted = sorted((word, count) for word, count in counts.items() if alphabet.issuperset(word) and _fits(word))
    if not counted:
        raise UserError("No word was found in the texts to learn a vocabulary from; give text files that hold text.")
    single = sorted({character for word, _ in counted for character in word})
    inner = sorted({f"##{character}" for word, _ in counted for character in word[1:]})
    first = [*specials, *single, *inner]
    if len(first) > size:
        raise UserError(
            f"size={size} was given, but the special tokens and the {len(single)} characters of the texts need "
            f"{len(first)}; give a larger size."
        )
    vocabulary = _merge_pairs(counted, first, size, min_frequency)
    if len(vocabulary) < size:
        log.warning("The texts gave %d tokens, fewer than the requested %d.", len(vocabulary), size)
    return vocabulary


def _learn_byte_bpe(texts: Iterable[str], size: int, min_frequency: int) -> SubwordVocabulary:
    """The special tokens in the order of RoBERTa's, the 256 bytes, and what the trainer of `tokenizers` merges."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    special = [SPECIAL_TOKENS_OF[BYTE_BPE][number] for number in (2, 0, 3, 1, 4)]
    if size <= len(special) + 256:
        raise UserError(
            f"size={size} was given, but special tokens and bytes alone are {len(special) + 256}; give more."
        )
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=min_frequency,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.train_from_iterator(texts, trainer)
    state = json_files.parse(tokenizer.to_str())["model"]
    tokens = sorted(state["vocab"], key=state["vocab"].__getitem__)
    if not state["merges"]:
        raise UserError("No word was found in the texts to learn a vocabulary from; give text files that hold text.")
    if len(tokens) < size:
        log.warning("The texts gave %d tokens, fewer than the requested %d.", len(tokens), size)
    return SubwordVocabulary(tokens, BYTE_BPE, byte_level.format_merges(state["merges"]).encode())


def _learn_sentencepiece(texts: Iterable[str], size: int, lower_case: bool) -> SubwordVocabulary:
    """A unigram model of the package `sentencepiece`, with the special tokens of ALBERT."""
    try:
        import sentencepiece
    except ImportError:
        raise UserError(
            "A SentencePiece vocabulary needs the package sentencepiece: pip install 'bert-tf[sentencepiece]'."
        ) from None
    model, (pad, unknown, *controls) = io.BytesIO(), SPECIAL_TOKENS_OF[SENTENCEPIECE]
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(normalize(text) if lower_case else text for text in texts),
            model_writer=model,
            vocab_size=size,
            pad_id=0,
            pad_piece=pad,
            unk_id=1,
            unk_piece=unknown,
            bos_id=-1,
            eos_id=-1,
            control_symbols=controls,
            hard_vocab_limit=False,
            minloglevel=2,
            num_threads=1,  # with more the order of sums differs from run to run
        )
    except (RuntimeError, OSError) as error:
        reason = (str(error).strip().splitlines() or ["unknown"])[-1]
        raise UserError(
            f"No SentencePiece vocabulary of {size} tokens can be learned from the texts ({reason})."
        ) from None
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    tokens = [processor.id_to_piece(number) for number in range(processor.get_piece_size())]
    return SubwordVocabulary(tokens, SENTENCEPIECE, model.getvalue())


def normalize(text: str) -> str:
    """The normalization of uncased models of ALBERT before SentencePiece's own: quotes, NFKD, accents, lower case."""
    decomposed = unicodedata.normalize("NFKD", text.replace("``", '"').replace("''", '"'))
    return "".join(character.lower() for character in decomposed if not is_accent(character))


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
    return len(word.encode()) <= MAX_WORD_CHARACTERS


def _merge_pairs(
    counted_words: Iterable[tuple[str, int]], first: list[str], size: int, min_frequency: int
) -> list[str]:
    """The tokens `first`, which have the first ids, and the merged pairs of the words: at most `size`.

    The trainer numbers the ## characters in the order of a randomly seeded hash map, and equal pairs by number: two
    runs differ. Passing the alphabet as special tokens fixes all numbers in advance.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    trainer = trainers.WordPieceTrainer(
        vocab_size=size, min_frequency=min_frequency, special_tokens=first, show_progress=False
    )
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.train_from_iterator(_repeat_words(counted_words), trainer)
    by_id = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    return [token for token, _ in by_id]


def _repeat_words(counted_words: Iterable[tuple[str, int]]) -> Iterator[str]:
    """Texts that hold each word as often as it was counted."""
    for word, count in counted_words:
        for start in range(0, count, WORDS_PER_CHUNK):
            yield f"{word} " * min(WORDS_PER_CHUNK, count - start)
