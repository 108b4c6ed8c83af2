"""Reads, learns, extends and writes a WordPiece vocabulary: a list of pieces, list index = id. Free of TensorFlow."""

import bisect
import itertools
import json
import logging
import re
import unicodedata
from collections import Counter
from pathlib import Path

from bert_tf.errors import UserError
from bert_tf.runtime import atomic_files
from bert_tf.text.characters import MAX_CHARACTERS, is_accent, words

SPECIAL_PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LEAST_ALPHABET, COVERAGE = 1000, 0.9995  # characters that are kept: so many, or the commonest that make up this share
WORDS_PER_FEED = 10_000  # what the trainer is handed at a time: enough to keep its threads busy, little memory

log = logging.getLogger(__name__)


def check_special_pieces(vocabulary, name):
    """Raises UserError unless the five special pieces are there; `name` says whose vocabulary it is."""
    known = set(vocabulary)
    missing = [piece for piece in SPECIAL_PIECES if piece not in known]
    if missing:
        raise UserError(f"{name} has no {', '.join(missing)}; give the vocab.txt of a BERT checkpoint.")


def read(path, expected_size=None):
    """Reads `vocab.txt` -> list of str, one piece per line, line number = id (`load_vocab` of google-research/bert).

    UTF-8; a byte order mark, CRLF and blank lines at the end are harmless. Of a piece that occurs twice the later id
    is used, as in the original; that is logged. expected_size: `vocab_size` of the model that will use it.
    Raises UserError for what is missing, empty, not a vocabulary, without a special piece or of another size.
    """
    text = _vocabulary_text(Path(path))
    vocabulary = [line.strip() for line in text.rstrip().split("\n")]  # not splitlines: U+2028 may be a piece
    check_special_pieces(vocabulary, str(path))
    if expected_size is not None and len(vocabulary) != expected_size:
        raise UserError(
            f"{path} has {len(vocabulary)} pieces where the model expects {expected_size} (vocab_size); give the "
            "vocab.txt that belongs to the checkpoint."
        )
    doubles = [piece for piece, count in Counter(vocabulary).items() if count > 1 and piece]
    if doubles:
        log.warning("%s has %d pieces twice (%s, ...): the later id is used.", path, len(doubles), doubles[0])
    return vocabulary


def _vocabulary_text(path):
    """The text of the file, or a UserError that says what it is instead."""
    if not path.is_file():
        what = "is a folder; give the vocab.txt inside it" if path.is_dir() else "does not exist; give a vocab.txt"
        raise UserError(f"The vocabulary file {path} {what}.")
    data = path.read_bytes()
    if not data.strip():
        raise UserError(f"The vocabulary file {path} is empty; it should hold one piece per line.")
    if b"<unk>" in data[:200] and b"\0" in data:
        raise UserError(f"{path} is a SentencePiece model; BERT needs the vocab.txt of a WordPiece vocabulary.")
    if b"\0" in data:
        raise UserError(f"{path} is a binary file; a vocabulary is a text file (vocab.txt) with one piece per line.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path} is not UTF-8 text (line {line}); save it as UTF-8, one piece per line.") from None
    if text.lstrip().startswith("{") and _is_json(text):
        raise UserError(f"{path} is a JSON file (tokenizer.json?); give the vocab.txt that lies beside it.")
    return text


def _is_json(text):
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def write(path, vocabulary):
    """Writes one piece per line, so that `read` gives it back. The file appears whole or not at all."""
    bad = next((piece for piece in vocabulary if piece != piece.strip() or "\n" in piece), None)
    if bad is not None:
        raise UserError(f"The piece {bad!r} has white space around it or a line break in it; no file can hold it.")
    atomic_files.write_lines(path, (f"{piece}\n" for piece in vocabulary), shared=True)


def extend(vocabulary, new_words, *, lower_case=True):
    """Adds domain words -> a new list: each takes an [unusedN] slot while there is one, then they are appended.

    extend([..., "[unused0]", "the"], ["krill", "##opod"])  ->  [..., "krill", "the", "##opod"]

    No other piece changes its id. If the list grew, the model's token table must grow too. lower_case: as the
    tokenizer that will use it; raises UserError for a word that it could never match, or that is there already.
    """
    extended = list(vocabulary)
    known = set(extended)
    slots = iter([i for i, piece in enumerate(extended) if re.fullmatch(r"\[unused\d+\]", piece)])
    for word in new_words:
        body = word.removeprefix("##")
        if word in known:
            raise UserError(f"The piece {word!r} is in the vocabulary already or given twice; remove it.")
        if not body or body.split() != [body]:
            raise UserError(f"The piece {word!r} is empty or has white space in it; give single words.")
        cut = words(body, lower_case=lower_case)
        if cut != [body] or len(body.encode()) > MAX_CHARACTERS:
            raise UserError(
                f"The piece {word!r} can never match: the tokenizer (lower_case={lower_case}) makes {' '.join(cut)!r} "
                "of it, and matches at most 200 bytes; give it in that form, one word each."
            )
        known.add(word)
        slot = next(slots, None)
        if slot is None:
            extended.append(word)
        else:
            extended[slot] = word
    return extended


def learn(texts, size, *, lower_case=True, min_frequency=2, limit_alphabet=None):
    """Learns a WordPiece vocabulary from an iterable of str -> list of at most `size` str.

    The five special pieces come first ([PAD] is id 0), then the alphabet, then what pair merging finds: the trainer
    of Hugging Face `tokenizers`, on words cut as the tokenizer cuts them. Deterministic: the same texts in any order
    give the same list. Memory grows with the number of different words, not with the texts. A corpus too small for
    `size` gives a smaller list; that is logged.
    min_frequency: of a pair to be merged. limit_alphabet: so many of the most frequent characters are kept; a word with
    another one is not learned from, as it will be [UNK]. None: 1,000, or for writing with many characters as many as
    make up 99.95% of the texts (SentencePiece's `character_coverage`), as far as they are half of `size` at most.
    Raises UserError if the texts hold no word or `size` has no room for the alphabet.
    """
    counts = Counter()
    for text in texts:
        counts.update(words(text, lower_case=lower_case))
    alphabet = _alphabet(counts, limit_alphabet, size, lower_case)
    kept = sorted((word, count) for word, count in counts.items() if alphabet.issuperset(word) and _fits(word))
    if not kept:
        raise UserError("No word was found in the texts to learn a vocabulary from; give text files that hold text.")
    single = sorted({character for word, _ in kept for character in word})
    inner = sorted({f"##{character}" for word, _ in kept for character in word[1:]})
    first = [*SPECIAL_PIECES, *single, *inner]
    if len(first) > size:
        raise UserError(
            f"size={size} was given, but the special pieces and the {len(single)} characters of the texts need "
            f"{len(first)}; give a larger size."
        )
    vocabulary = _merged(kept, first, size, min_frequency)
    if len(vocabulary) < size:
        log.warning("The texts gave %d pieces, fewer than the %d asked for.", len(vocabulary), size)
    return vocabulary


def _alphabet(counts, limit, size, lower_case):
    """The most frequent characters of the words as a set; ties go to the smaller code point."""
    characters, inner = Counter(), set()
    for word, count in counts.items():
        inner.update(word[1:])
        for character in word:
            characters[character] += count
    usable = (item for item in characters.items() if _can_be_exact(item[0], lower_case))
    ordered = sorted(usable, key=lambda item: (-item[1], item[0]))
    if limit is None and ordered:
        covered = list(itertools.accumulate(count for _, count in ordered))
        needed = bisect.bisect_left(covered, COVERAGE * covered[-1]) + 1
        pieces = itertools.accumulate(1 + (character in inner) for character, _ in ordered)  # c, and ##c inside a word
        limit = max(LEAST_ALPHABET, min(needed, bisect.bisect_right(list(pieces), size // 2)))
    return {character for character, _ in ordered[:limit]}


def _can_be_exact(character, lower_case):
    """Not for the tokenizer: unassigned characters, and marks that NFD reorders but lower-casing does not drop."""
    reordered = unicodedata.combining(character) and not is_accent(character)
    return unicodedata.category(character) != "Cn" and not (lower_case and reordered)


def _fits(word):
    return len(word.encode()) <= MAX_CHARACTERS


def _merged(counted_words, first, size, min_frequency):
    """[(word, count)], the pieces of the first ids -> those and the merged pairs, at most `size`.

    The trainer numbers the ## characters in the order of a randomly seeded hash map, and equal pairs by number: two
    runs differ. Handing it the alphabet as special pieces fixes all numbers before.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    trainer = trainers.WordPieceTrainer(
        vocab_size=size, min_frequency=min_frequency, special_tokens=first, show_progress=False
    )
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.train_from_iterator(_feeds(counted_words), trainer)
    by_id = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    return [piece for piece, _ in by_id]


def _feeds(counted_words):
    """Texts that hold each word as often as it was counted."""
    for word, count in counted_words:
        for start in range(0, count, WORDS_PER_FEED):
            yield f"{word} " * min(WORDS_PER_FEED, count - start)
