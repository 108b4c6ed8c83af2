"""The normalization table that makes tensorflow-text's kernels treat each character as the original BERT does.

tensorflow-text's fast normalizer looks each code point up in a trie inside a flatbuffer, and its fast WordPiece splits
at the spaces and punctuation of its own ICU. The stock trie is NFKC case folding; the one built here follows
google-research/bert `tokenization.py`: `lower()`, NFD, drop Mn, delete controls, and insert a space wherever the
original splits and the kernel would not. The Unicode version is the one of the Python that builds it.
"""

from __future__ import annotations

import functools
import string
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import flatbuffers
import numpy as np

from bert_tf.runtime.lazy import tf
from bert_tf.text.characters import CJK_RANGES, fold, is_cjk, is_deleted, is_punctuation, is_space
from bert_tf.text.double_array import build_double_array
from bert_tf.text.text_kernels import tf_text

# "letter": joins its neighbors; "space": separates them; "alone": is a separate word.
KernelClass = Literal["letter", "space", "alone"]

IRREGULAR = frozenset(string.punctuation + "\ufffd")  # their treatment does not follow from the Unicode category
NOT_IN_VOCABULARY = "\x01"  # a control: deleted from every text, so no token contains it


@functools.cache
def as_letters() -> dict[int, str]:
    """For `str.translate`: {ideograph: private-use character}, for tokenizers that treat ideographs as letters.

    The kernel splits at ideographs and treats private-use characters as letters, in texts and in the vocabulary.
    """
    ideographs = [code for first, last in CJK_RANGES for code in range(first, last + 1)]
    private = map(chr, (*range(0xF0000, 0xFFFFE), *range(0x100000, 0x10FFFE)))
    return dict(zip(ideographs, private, strict=False))


@functools.cache
def build_normalizer_model(
    lower_case: bool, strip_accents: bool, split_ideographs: bool
) -> tuple[np.ndarray, frozenset[str]]:
    """Builds the flatbuffer of `tf_text.FastBertNormalizer`: uint8 [bytes], and the characters it cannot represent.

    A word with one of these characters becomes [UNK], because the kernel splits there and the original does not. None
    may be in a vocabulary. Unless ideographs are split, they become the characters of `as_letters`.
    """
    table, unsupported = _normalizer_table(lower_case, strip_accents)
    if not split_ideographs:
        private = as_letters().values()
        unsupported = unsupported.union(private)
        table.update(dict.fromkeys(map(str.encode, private), NOT_IN_VOCABULARY.encode()))
        for character in map(chr, as_letters()):
            folded = fold(character, lower_case=lower_case, strip_accents=strip_accents)
            table[character.encode()] = folded.translate(as_letters()).encode()
    pool, offsets = b"", {}
    for replacement in sorted(set(table.values())):
        offsets[replacement] = len(pool)
        pool += replacement
    # Bit 30: changed; bits 29-6: offset in the pool; bits 5-0: length there. U+0000 is not in the trie: it is deleted.
    trie = build_double_array({old: 1 << 30 | offsets[new] << 6 | len(new) for old, new in table.items()})
    builder = flatbuffers.Builder(4 * len(trie))
    trie_field, pool_field = builder.CreateNumpyVector(trie), builder.CreateByteVector(pool)
    builder.StartObject(4)  # the fields of fast_bert_normalizer_model.fbs, in its order
    builder.PrependBoolSlot(0, lower_case, False)
    builder.PrependUOffsetTRelativeSlot(1, trie_field, 0)
    builder.PrependInt32Slot(2, 1 << 30, 0)  # the replacement of U+0000: changed, to nothing
    builder.PrependUOffsetTRelativeSlot(3, pool_field, 0)
    builder.Finish(builder.EndObject())
    return np.frombuffer(bytes(builder.Output()), np.uint8), unsupported


def _normalizer_table(lower_case: bool, strip_accents: bool) -> tuple[dict[bytes, bytes], frozenset[str]]:
    """{UTF-8 bytes: replacement} of every unit that the normalizer must change, and the unsupported characters."""
    kernel_classes = _kernel_classes()
    # Ill-formed units are removed, like bytes.decode("utf-8", "ignore") in the original.
    table = dict.fromkeys(sorted(_ill_formed_units()), b"")
    unsupported: set[str] = set()
    folding = {"lower_case": lower_case, "strip_accents": strip_accents}
    for character in _candidates(kernel_classes, folding):
        replacement = _replacement(character, folding, kernel_classes, unsupported)
        if replacement != character:
            table[character.encode()] = replacement.encode()
    return table, frozenset(unsupported)


def _candidates(kernel_classes: Mapping[str, KernelClass], folding: Mapping[str, bool]) -> Iterator[str]:
    """The characters (one in ten) that may have to change: the kernel splits the others as the original does."""
    regular = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mc", "Me", "Nd", "Nl", "No", "Sm", "Sc", "Sk", "So", "Co", "Cn"}
    regular |= set() if folding["strip_accents"] else {"Mn"}
    ideographs = frozenset(map(chr, as_letters()))
    for character, kernel_class in kernel_classes.items():
        expected = "alone" if character in ideographs else "letter"
        is_regular = unicodedata.category(character) in regular and character not in IRREGULAR
        if kernel_class != expected or not is_regular or fold(character, **folding) != character:
            yield character


def _replacement(
    character: str, folding: Mapping[str, bool], kernel_classes: Mapping[str, KernelClass], unsupported: set[str]
) -> str:
    """The string that makes the kernel split like the original at `character`; adds to `unsupported` if none does."""
    if is_deleted(character):
        return ""
    if is_space(character):
        return character if kernel_classes[character] == "space" else " "
    replacement = ""
    for part in fold(character, **folding):
        is_alone = is_cjk(character) or is_punctuation(part)
        if is_alone and kernel_classes[part] != "alone":
            part = f" {part} "
        elif not is_alone and kernel_classes[part] != "letter":
            unsupported.add(part)
            part = NOT_IN_VOCABULARY
        replacement += part
    return replacement


def all_characters() -> list[str]:
    """The characters of planes 0 to 3 and the tags of plane 14; elsewhere only private use is assigned."""
    return [chr(code) for code in (*range(1, 0xD800), *range(0xE000, 0x40000), *range(0xE0000, 0xE1000))]


@functools.cache
def _kernel_classes() -> dict[str, KernelClass]:
    """The class of each character in the fast WordPiece kernel (its ICU, its ranges)."""
    characters = all_characters()
    with tf.init_scope(), tf.device("CPU:0"):
        probe = tf_text.FastWordpieceTokenizer(["[UNK]", "a"], token_out_type=tf.int32)
        counts = probe.tokenize(tf.constant([f"a{c}a" for c in characters])).row_lengths().numpy()
    classes: dict[int, KernelClass] = {1: "letter", 2: "space", 3: "alone"}  # [UNK] | a a | a [UNK] a
    return {character: classes[count] for character, count in zip(characters, counts.tolist(), strict=True)}


def _ill_formed_units() -> set[bytes]:
    """Stray bytes and truncated sequences, as ICU iterates over them."""
    units = {bytes([byte]) for byte in range(0x80, 0x100)}
    for code in (*range(0x800, 0xD800, 64), *range(0xE000, 0x110000, 64)):
        encoded = chr(code).encode()
        units |= {encoded[:size] for size in range(2, len(encoded))}
    return units


@functools.cache
def final_sigma_pattern() -> str:
    """RE2 pattern of a capital sigma that `str.lower` makes final, the only context-dependent rule.

    It follows a cased character and precedes none, skipping case-ignorable and deleted characters (Unicode 3.13).
    """

    def is_final_after(prefix: str) -> bool:
        return (prefix + "Σ").lower().endswith("ς")

    characters = all_characters()
    cased_characters = [c for c in characters if is_final_after(c)]
    skipped_characters = [c for c in characters if is_deleted(c) or is_final_after("A" + c) and not is_final_after(c)]
    cased, skipped = _character_class(cased_characters), _character_class(skipped_characters) + r"\x00"
    return rf"([{cased}][{skipped}]*)Σ([{skipped}]*(?:[^{cased}{skipped}]|\z))"


def _character_class(members: Iterable[str]) -> str:
    codes = np.array([ord(c) for c in members])
    runs = np.split(codes, np.flatnonzero(np.diff(codes) != 1) + 1)
    return "".join(rf"\x{{{run[0]:X}}}-\x{{{run[-1]:X}}}" for run in runs)
