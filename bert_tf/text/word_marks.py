"""How the tokens of a model mark words: WordPiece, byte-level BPE, SentencePiece. Free of TensorFlow."""

from collections.abc import Iterable

from bert_tf.text import byte_level

SPACE = "▁"  # begins the words of SentencePiece


class WordMarks:
    """A mark begins the tokens that begin a word, as in SentencePiece.

    encodes_all: whether no text is unknown.
    """

    encodes_all = False

    def __init__(self, mark: str = SPACE) -> None:
        self.mark = mark

    def surface(self, token: str) -> str:
        """The text that a token stands for, without marks."""
        return token.removeprefix(self.mark)

    def is_of_letters(self, token: str) -> bool:
        """Returns whether a token is of letters and digits."""
        return self.surface(token).isalnum()

    def joined(self, tokens: Iterable[str]) -> str:
        """The text of tokens."""
        return "".join(tokens).replace(self.mark, " ").strip()

    def continues(self, token: str) -> bool:
        """Returns whether a token continues a word, by its mark."""
        return not token.startswith(self.mark)


class OfWordPiece(WordMarks):
    """The mark begins the tokens that continue a word."""

    def joined(self, tokens: Iterable[str]) -> str:
        return " ".join(tokens).replace(f" {self.mark}", "")

    def continues(self, token: str) -> bool:
        return token.startswith(self.mark)


class OfBytes(WordMarks):
    """The mark is the byte of a space."""

    encodes_all = True

    def surface(self, token: str) -> str:
        return self.joined([token])

    def joined(self, tokens: Iterable[str]) -> str:
        return b"".join(map(byte_level.token_bytes, tokens)).decode("utf-8", "replace").strip()


MARKS = {"WordPiece": OfWordPiece("##"), "BPE": OfBytes("Ġ"), "Unigram": WordMarks()}  # by the model of a kind
