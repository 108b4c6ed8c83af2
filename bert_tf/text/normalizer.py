"""The data that makes tensorflow-text's automata do to each character what the original BERT does.

tensorflow-text's fast normalizer looks each code point up in a trie inside a flatbuffer, and its fast WordPiece splits
at the spaces and punctuation of its own ICU. The stock trie says NFKC case folding; the one made here says what
google-research/bert `tokenization.py` says: `lower()`, NFD, drop Mn, delete controls, and a space wherever the original
splits and the kernel would not. The Unicode version is that of the Python that builds it.
"""

import functools
import string
import unicodedata

import flatbuffers
import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from bert_tf.text.characters import is_cjk, is_deleted, is_punctuation, is_space, without_case_and_accents
from bert_tf.text.double_array import double_array

ODD = frozenset(string.punctuation + "\ufffd")  # what the original does with these does not follow from the category
NOWHERE = "\x01"  # a control: deleted from every text, so no piece of a vocabulary has it


@functools.cache
def normalizer_model(lower_case):
    """The flatbuffer of `tf_text.FastBertNormalizer` as uint8 [bytes], and the characters it cannot keep.

    The second value is a frozenset: a word with one of these characters comes out as [UNK], because the kernel splits
    there and the original does not. None may be in a vocabulary.
    """
    table, lost = _normalizer_table(lower_case)
    pool, place = b"", {}
    for new in sorted(set(table.values())):
        place[new] = len(pool)
        pool += new
    # Bit 30: changed; bits 29-6: place in the pool; bits 5-0: length there. U+0000 is not in the trie: it is deleted.
    trie = double_array({old: 1 << 30 | place[new] << 6 | len(new) for old, new in table.items()})
    builder = flatbuffers.Builder(4 * len(trie))
    trie_field, pool_field = builder.CreateNumpyVector(trie), builder.CreateByteVector(pool)
    builder.StartObject(4)  # the fields of fast_bert_normalizer_model.fbs, in its order
    builder.PrependBoolSlot(0, lower_case, False)
    builder.PrependUOffsetTRelativeSlot(1, trie_field, 0)
    builder.PrependInt32Slot(2, 1 << 30, 0)  # what U+0000 becomes: changed, to nothing
    builder.PrependUOffsetTRelativeSlot(3, pool_field, 0)
    builder.Finish(builder.EndObject())
    return np.frombuffer(bytes(builder.Output()), np.uint8), lost


def _normalizer_table(lower_case):
    """{utf-8 bytes: utf-8 bytes} of every unit that the normalizer must change, and the characters it cannot keep."""
    seen_as = _kernel_classes()
    table = dict.fromkeys(_ill_formed_units(), b"")  # as bytes.decode("utf-8", "ignore"), which the original uses
    lost = set()
    for character in _noteworthy(seen_as, lower_case):
        new = _replacement(character, lower_case, seen_as, lost)
        if new != character:
            table[character.encode()] = new.encode()
    return table, frozenset(lost)


def _noteworthy(seen_as, lower_case):
    """The characters without those, nine of ten, that are left as they are and split where the original splits."""
    characters = list(seen_as)
    kept = characters
    if lower_case:
        kept = [unicodedata.normalize("NFD", lowered) for lowered in map(str.lower, characters)]
    quiet = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mc", "Me", "Nd", "Nl", "No", "Sm", "Sc", "Sk", "So", "Co", "Cn"}
    quiet |= set() if lower_case else {"Mn"}
    for character, new, category in zip(characters, kept, map(unicodedata.category, characters), strict=True):
        expected = "alone" if is_cjk(character) else "letter"
        if new != character or category not in quiet or seen_as[character] != expected or character in ODD:
            yield character


def _replacement(character, lower_case, seen_as, lost):
    """What the kernel must be given in place of `character` to split as the original does."""
    if is_deleted(character):
        return ""
    if is_space(character):
        return character if seen_as[character] == "space" else " "
    new = ""
    for part in without_case_and_accents(character) if lower_case else character:
        alone = is_cjk(character) or is_punctuation(part)
        if alone and seen_as[part] != "alone":
            part = f" {part} "
        elif not alone and seen_as[part] != "letter":
            lost.add(part)
            part = NOWHERE
        new += part
    return new


def all_characters():
    """The characters of planes 0 to 3 and the tags of plane 14; elsewhere nothing is assigned but private use."""
    return [chr(code) for code in (*range(1, 0xD800), *range(0xE000, 0x40000), *range(0xE0000, 0xE1000))]


@functools.cache
def _kernel_classes():
    """How the fast WordPiece kernel (its ICU, its ranges) sees each character: "space", "alone" or "letter"."""
    characters = all_characters()
    with tf.init_scope(), tf.device("CPU:0"):
        probe = tf_text.FastWordpieceTokenizer(["[UNK]", "a"], token_out_type=tf.int32)
        counts = probe.tokenize(tf.constant([f"a{c}a" for c in characters])).row_lengths().numpy()
    names = {1: "letter", 2: "space", 3: "alone"}  # [UNK] | a a | a [UNK] a
    return {character: names[count] for character, count in zip(characters, counts.tolist(), strict=True)}


def _ill_formed_units():
    """Stray bytes and cut-off sequences, as ICU walks over them."""
    units = {bytes([byte]) for byte in range(0x80, 0x100)}
    for code in (*range(0x800, 0xD800, 64), *range(0xE000, 0x110000, 64)):
        encoded = chr(code).encode()
        units |= {encoded[:size] for size in range(2, len(encoded))}
    return units


@functools.cache
def final_sigma_pattern():
    """RE2 pattern of a capital sigma that `str.lower` makes final, the one rule of it that looks at the context.

    After a cased character and before none, with case-ignorable and deleted characters skipped (Unicode 3.13).
    """

    def is_final(before):
        return (before + "Σ").lower().endswith("ς")

    characters = all_characters()
    cased = [c for c in characters if is_final(c)]
    skipped = [c for c in characters if is_deleted(c) or is_final("A" + c) and not is_final(c)]
    cased, skipped = _character_class(cased), _character_class(skipped) + r"\x00"
    return rf"([{cased}][{skipped}]*)Σ([{skipped}]*(?:[^{cased}{skipped}]|\z))"


def _character_class(members):
    codes = np.array([ord(c) for c in members])
    runs = np.split(codes, np.flatnonzero(np.diff(codes) != 1) + 1)
    return "".join(rf"\x{{{run[0]:X}}}-\x{{{run[-1]:X}}}" for run in runs)
