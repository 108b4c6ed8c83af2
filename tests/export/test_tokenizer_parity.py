"""The comparison of the tokens of hard texts that an export with other engines begins with."""

import host_tokenizer_cases as cases
import pytest

from bert_tf.errors import UserError
from bert_tf.export import tokenizer_parity
from bert_tf.text import characters


def test_tokens_that_engines_would_cut_otherwise_are_found(monkeypatch):
    graph, host = cases.tokenizers("modern_bert")
    tokenizer_parity.check(graph, host)
    monkeypatch.setattr(characters, "spaces_for_blanks", lambda token: token)
    with pytest.raises(UserError, match="instead of .*nothing was written"):
        tokenizer_parity.check(graph, host)


@pytest.mark.parametrize(
    "change", [str.strip, lambda text: text.replace("\n", " "), lambda text: text.replace("字", "")]
)
def test_texts_have_blanks_line_ends_and_ideographs(change):
    graph, host = cases.tokenizers("bert_byte_bpe")
    with_offsets = host.with_offsets
    host.with_offsets = lambda text: with_offsets(change(text))
    with pytest.raises(UserError, match="Without TensorFlow"):
        tokenizer_parity.check(graph, host)


def test_tokens_found_in_texts_occur_at_both_ends_in_words_and_repeated():
    texts = tokenizer_parity.hard_texts(["<b>", cases.BLANK * 2])
    for name in ("<b>", "  "):
        assert any(text.startswith(f"{name}a") and text.endswith(name) and name * 2 in text for text in texts)
