"""Statistics of texts on the report's page: words, percent, histograms on one scale, and what scores mean."""

import pytest

from bert_tf.reports import text_statistics


def test_counts_have_their_share_and_rates_are_percent():
    train = {"sentences": 200, "tokens": 1000, "unknown": 25, "unknown_rate": 0.025, "bytes": 19_962_957}
    train |= {
        "duplicate_sentences": 8,
        "duplicates_sampled": True,
        "padding_share": 0.0071,
        "mean_length": 31.77,
        "share_of_LOC": 0.25,
    }
    table = text_statistics.table({"seed": 5, "train": train, "eval": {"tokens": 0, "unknown": 0}})
    assert table.alone == [("Seed", "5")] and table.splits == ["train", "eval"]
    assert dict(table.rows) == {
        "Sentences": ["200", "–"],
        "Tokens": ["1,000", "0"],
        "Unknown tokens, [UNK]": ["25 (2.5%)", "0"],
        "Size of the records": ["20 MB", "–"],
        "Repeated sentences": ["about 8 (4.0%)", "–"],
        "Padding": ["0.7%", "–"],
        "Mean length in tokens": ["31.77", "–"],
        "Share of LOC": ["25.0%", "–"],
    }


def test_histograms_share_bars_and_scale():
    lengths = {"train": {"width": 16, "counts": [10, 30]}, "dev": {"width": 8, "counts": [1, 2, 0, 0, 1]}}
    train, dev = text_statistics.histograms({name: {"lengths": value} for name, value in lengths.items()})
    assert (train.width, dev.width, train.start_of_last) == (16, 16, 33)
    assert [height for height, _ in train.bars] == pytest.approx([100 / 3, 100, 0])
    assert [height for height, _ in dev.bars] == pytest.approx([100, 0, 100 / 3])
    assert dev.bars[2][1] == "33 to 48 tokens: 1 (25.0%)" and train.tallest == "75.0%"


@pytest.mark.parametrize("lengths", [None, 3, {"width": 0, "counts": [1]}, {"width": 2, "counts": ["a"]}])
def test_malformed_lengths_are_left_out(lengths):
    assert text_statistics.histograms({"train": {"lengths": lengths}, "seed": 4}) == []


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ((4.559, 6.355, 0.271), "95 equally likely tokens (perplexity). It is 1.8 nats better than"),
        ((6.5, 6.355, None), "It is no better than guessing tokens by their frequency, without"),
        ((4.559, None, 0.271), ""),
        ((float("nan"), 6.355, 0.271), ""),
    ],
)
def test_masked_lm_loss_is_compared_with_the_unigram_model(scores, expected):
    names = ("masked_lm_loss", "unigram_masked_lm_loss", "masked_lm_accuracy")
    sentence = text_statistics.verdict(dict(zip(names, scores, strict=True)), [])
    assert expected in sentence and bool(sentence) == bool(expected)
