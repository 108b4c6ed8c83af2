"""The normalization of a SentencePiece model, its `precompiled_charsmap`. Free of TensorFlow.

It is a trie from strings to their replacements (`normalizer.cc` of google/sentencepiece), as in `double_array`. Hugging
Face's `tokenizers` looks up extended grapheme clusters of up to five bytes, then characters (`Precompiled`): `JOINS`
is the part of Unicode Standard Annex 29 that this requires.
"""

import functools
import struct
import unicodedata

import numpy as np

from bert_tf.errors import UserError

LONGEST_CLUSTER = 5  # UTF-8 bytes of a cluster looked up as a whole
# Marks (M*) that do not extend the cluster before them, and other characters (also from Unicode 15 to 17) that do.
ALONE = "102b-102c 1038 1062-1064 1067-106d 1083 1087-108c 108f 109a-109c 1a61 1a63-1a64 aa7b aa7d 11720-11721"
EXTENDING = (
    "897 cf3 e33 eb3 ece 1acf-1add 1ae0-1aeb 200c-200d ff9e-ff9f 10d69-10d6d 10efa-10eff 11241 113b8-113c0 113c2 113c5 "
    "113c7-113ca 113cc-113d0 113d2 113e1-113e2 11b60-11b67 11f00-11f01 11f03 11f34-11f3a 11f3e-11f42 11f5a 13440 "
    "13447-13455 1611e-1612f 1e08f 1e4ec-1e4ef 1e5ee-1e5ef 1e6e3 1e6e6 1e6ee-1e6ef 1e6f5 1f3fb-1f3ff e0020-e007f"
)
PREPENDING = "600-605 6dd 70f 890-891 8e2 d4e 110bd 110cd 111c2-111c3 113d1 1193f 11941 11a84-11a89 11d46 11f02"
UNASSIGNED_CONTROLS = "2065 fff0-fff8"
# Two characters join if the first one's "joins to" bits and the second one's "joined by" bits overlap.
MARK, AFTER_PREPENDED, TO_ANY_JAMO, TO_VOWEL, TO_TRAILING, LINE_FEED = (1 << bit for bit in range(6))
HANGUL = (  # ranges, "joins to" bits, "joined by" bits
    ("1100-115f a960-a97c", TO_ANY_JAMO, TO_ANY_JAMO),
    ("1160-11a7 d7b0-d7c6 16d63 16d67-16d6a", TO_VOWEL, TO_ANY_JAMO | TO_VOWEL),
    ("11a8-11ff d7cb-d7fb", TO_TRAILING, TO_VOWEL | TO_TRAILING),
    ("ac00-d7a3", TO_TRAILING, TO_ANY_JAMO),
)
WITHOUT_TRAILING = np.arange(0xAC00, 0xD7A4, 28)  # Hangul syllables


@functools.cache
def _members(ranges: str) -> list[int]:
    bounds = [[int(each, 16) for each in part.split("-")] for part in ranges.split()]
    return [code for first, *last in bounds for code in range(first, (last or [first])[0] + 1)]


@functools.cache
def cluster_bits() -> tuple[np.ndarray, np.ndarray]:
    """Joining properties of every code point in grapheme clusters: two bit masks, uint8 [0x110000] each."""
    return bits_of(np.arange(0x110000))


def bits_of(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`cluster_bits` of some code points."""
    categories = np.array([unicodedata.category(chr(code)) for code in codes.tolist()])

    def among(ranges: str) -> np.ndarray:
        return np.isin(codes, _members(ranges))

    extends = (np.char.startswith(categories, "M") & ~among(ALONE)) | among(EXTENDING)
    prepends = among(PREPENDING)
    is_control = np.isin(categories, ("Cc", "Cf", "Zl", "Zp")) & ~extends & ~prepends
    is_control |= among(UNASSIGNED_CONTROLS)
    to = np.where(is_control, 0, MARK | np.where(prepends, AFTER_PREPENDED, 0)).astype(np.uint8)
    by = np.where(is_control, 0, AFTER_PREPENDED | np.where(extends, MARK, 0)).astype(np.uint8)
    for ranges, joins_to, joined_by in HANGUL:
        to[among(ranges)] |= joins_to
        by[among(ranges)] |= joined_by
    to[np.isin(codes, WITHOUT_TRAILING)] ^= TO_TRAILING | TO_VOWEL
    to[codes == ord("\r")], by[codes == ord("\n")] = LINE_FEED, LINE_FEED
    return to, by


@functools.lru_cache(maxsize=4)
def parse(charsmap: bytes) -> dict[str, str]:
    """{string: replacement} of at most LONGEST_CLUSTER bytes: longer ones are never looked up.

    Raises UserError for other content, and for strings that need Unicode rules not implemented here.
    """
    if not charsmap:
        return {}
    try:
        (size,) = struct.unpack_from("<I", charsmap)
        units = np.frombuffer(charsmap, "<u4", size // 4, 4).astype(np.int64)
        pool, found = charsmap[4 + size :], {}
        level = [(b"", int(_offset(units[0])))]
        for _ in range(LONGEST_CLUSTER):
            places = np.array([place for _, place in level])[:, None] ^ np.arange(1, 256)  # [nodes, labels]
            inside = units[np.minimum(places, len(units) - 1)]
            is_child = ((inside & 0x800000FF) == np.arange(1, 256)) & (places < len(units))
            following = []
            for node, label in np.argwhere(is_child).tolist():
                key, unit = level[node][0] + bytes([label + 1]), int(inside[node, label])
                place = int(places[node, label]) ^ int(_offset(unit))
                if unit >> 8 & 1:
                    begin = int(units[place]) & 0x7FFFFFFF
                    found[key.decode()] = pool[begin : pool.index(b"\0", begin)].decode()
                following.append((key, place))
            level = following
            if not level:
                break
    except (struct.error, IndexError, ValueError) as error:
        raise UserError(
            f"The precompiled_charsmap of the SentencePiece model is damaged ({error}): fetch it again."
        ) from None
    if any(key.startswith(("©", "®")) for key in found):
        raise UserError("A SentencePiece model whose precompiled_charsmap replaces © or ® is not supported.")
    return found


def _offset(unit: int) -> int:
    return unit >> 10 << ((unit & 1 << 9) >> 6)
