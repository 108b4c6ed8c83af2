"""The report of a fine-tuning run: classes, confusions, hardest examples, sweeps."""

import json

import pytest
from report_pages import RUN, as_read, page_of

from bert_tf.errors import UserError
from bert_tf.reports import curves, scoreboard
from bert_tf.reports.report import write_report

DETAILS = {
    "dev": {
        "per_class": [
            {"label": "<no>", "precision": 0.75, "recall": 0.6, "f1": 0.6667, "count": 5},
            {"label": "yes", "precision": 0.5, "recall": 0.6667, "f1": 0.5714, "count": 3},
        ],
        "confusion": [[3, 2], [1, 2]],
        "hardest": [
            {"id": "7", "text_a": "First.", "text_b": "Second.", "label": "yes", "truth": "<no>", "loss": 3.0}
            | {"probabilities": {"<no>": 0.05, "yes": 0.95}},
            {"id": "8", "text_a": "Right.", "label": "yes", "truth": "yes", "probabilities": {"yes": 0.55}},
        ],
    }
}


def test_classes_confusions_and_hardest_examples_are_shown(tmp_path):
    scores = {"loss": 0.7, "cross_entropy": 0.7, "accuracy": 0.625}
    page = page_of(tmp_path, run=RUN | {"name": "glue/RTE"}, eval_details=DETAILS, eval_results=scores)
    text = as_read(page)
    for expected in (  # scores once each, the loss last
        "data 62.5% Accuracy published, test set: BERT-base 66.4% BERT-large 70.1% 0.7 Loss",
        "Millions of parameters: BERT-base 110, BERT-large 340, this model 1.48. Published scores: Devlin et al. 2018.",
        "&lt;no&gt; 75.0% 60.0% 66.7% 5 yes 50.0% 66.7% 57.1% 3",
        "true ↓ &nbsp;predicted → &lt;no&gt; yes &lt;no&gt; 3 60% 2 40% yes 1 33% 2 67%",
        "First. Second. true: &lt;no&gt; 5.0% predicted: yes 95.0%",
        "5 of 8 examples (62.5%) are correct. Always predicting the most frequent class, &lt;no&gt;, would be correct",
        "Right. correct: yes 55.0%",
    ):
        assert expected in text
    assert '<td class="cell" style="--hue: var(--right); --share: 60.0">3' in page
    assert '<td class="cell" style="--hue: var(--wrong); --share: 40.0">2' in page


def test_entities_are_marked_in_the_text(tmp_path):
    true = [{"start": 0, "end": 3, "label": "PER"}, {"start": 13, "end": 16, "label": "LOC"}]
    row = {
        "text": "Ann sings in <Ulm",
        "true_entities": true,
        "entities": true[:1],
        "label": "nothing",
        "truth": "Ulm LOC",
    }
    page = page_of(tmp_path, eval_details={"dev": {"hardest": [row]}})
    assert "true Ann PER sings in &lt;Ul LOC m predicted Ann PER sings in &lt;Ulm" in as_read(page)
    assert page.count('<mark class="off"') == 1 and page.count("<mark style=") == 2
    assert scoreboard.hue("LOC") == 49  # as hue() of page.js

    for entities in (3, [3], [{"start": "0"}]):
        (split,) = scoreboard.class_details({"dev": {"hardest": [{**row, "entities": entities}]}})
        assert split["hardest"][0]["marked"] == []


def test_many_classes_show_the_most_confused_pairs():
    labels = [f"class {number}" for number in range(11)]
    confusion = [[8 if row == column else 0 for column in range(11)] for row in range(11)]
    confusion[3][5], confusion[9][0] = 2, 6
    rows = [{"label": label, "f1": 1.0, "count": 8} for label in labels]
    (split,) = scoreboard.class_details({"dev": {"per_class": rows, "confusion": confusion}})
    assert split["matrix"] is None
    assert [pair[:3] for pair in split["confusions"]] == [("class 9", "class 0", 6), ("class 3", "class 5", 2)]
    assert split["confusions"][1][3] == 20.0
    listed = [{"label": "class 9", "predicted": "class 0", "count": 6}, 7]
    (of_list,) = scoreboard.class_details({"dev": {"per_class": rows, "most_confused": listed}})
    assert of_list["confusions"] == [("class 9", "class 0", 6, 75.0)]
    (split,) = scoreboard.class_details(
        {"dev": {"per_class": rows[:10], "confusion": [row[:10] for row in confusion[:10]]}}
    )
    assert (len(split["matrix"]["rows"]), split["confusions"]) == (10, [])


def test_very_many_classes_show_the_worst():
    rows = [{"label": str(number), "f1": number / 100, "count": 1} for number in reversed(range(50))]
    (split,) = scoreboard.class_details({"dev": {"per_class": rows}})
    assert [row["label"] for row in split["classes"]] == [str(number) for number in range(40)]
    assert (split["left_out"], split["matrix"], split["confusions"]) == (10, None, [])


SWEEP = {
    "criterion": "accuracy",
    "runs": {
        "seed=7,learning_rate=5e-05": {"learning_rate": 5e-05, "train_batch_size": 32, "collapsed": "all are the same"}
        | {"results": {"accuracy": 0.5, "loss": 0.6}},
        "seed=9,learning_rate=3e-05": {"learning_rate": 3e-05, "train_batch_size": 32, "collapsed": None},
    },
    "combinations": [
        {
            "learning_rate": 5e-05,
            "train_batch_size": 32,
            **{"runs": 3, "collapsed": 1, "failed": 0},
            "scores": {"loss": {"mean": 0.5, "sd": 0.01}, "accuracy": {"mean": 0.6, "sd": 0.1}},
            "scores_without_collapsed": {"loss": {"mean": 0.4, "sd": None}, "accuracy": {"mean": 0.7, "sd": None}},
        },
        {
            "learning_rate": 3e-05,
            "train_batch_size": 32,
            **{"runs": 3, "collapsed": 0, "failed": 0},
            "scores": {"accuracy": {"mean": 0.65, "sd": 0.02}},
        },
    ],
    "best_combination": 1,
    "best_run": "seed=9,learning_rate=3e-05",
}


def test_sweep_is_a_table_with_means_deviations_and_collapsed_runs(tmp_path):
    text = as_read(page_of(tmp_path, sweep=SWEEP))
    assert (
        "Runs Learning rate Runs Accuracy Loss "
        "5e-05 3, 1 collapsed 60.0% ± 10.0% 70.0% without collapsed runs 0.5 ± 0.01 0.4 without collapsed runs "
        "3e-05 ★ 3 65.0% ± 2.0% – Mean ± standard deviation over the seeds. ★ best accuracy. "
        "The best run is in seed=9,learning_rate=3e-05. Run Accuracy Loss "
        "seed=7,learning_rate=5e-05 collapsed 50.0% 0.6 Collapsed: one prediction for all inputs."
    ) in text


def test_sweep_has_a_page_without_run_json(tmp_path):
    (tmp_path / "sweep.json").write_text(json.dumps(SWEEP))
    write_report(tmp_path)
    assert "Mean ± standard deviation" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "files",
    [
        {"sweep": {"combinations": [3]}},
        {"eval_details": {"test": {}}, "sweep": {"combinations": [{"runs": {}}], "best_run": 4}},
        {"eval_details": {"dev": {"per_class": [{"label": None}], "confusion": [[1, 2]], "hardest": [{}]}}},
        {"sweep": {"combinations": [4, {"scores": 3}], "runs": [], "best_combination": 7}},
        {"sweep": {"combinations": [{"scores": {"a": {"mean": None}}, "collapsed": None}], "runs": 3}},
    ],
)
def test_unexpected_files_do_not_stop_a_report(tmp_path, files):
    assert "first words" in as_read(page_of(tmp_path, **files))


@pytest.mark.parametrize("details", [[1], {"dev": 3}, {"dev": {"per_class": 5}}, {"dev": {"hardest": [{}, 4]}}])
def test_damaged_details_are_an_error(tmp_path, details):
    with pytest.raises(UserError, match=r"eval_details.json.* is .*; expected "):
        page_of(tmp_path, eval_details=details)


def test_text_lengths_are_shown_if_present(tmp_path):
    run = RUN | {"text_statistics": {"train": {"texts": 2490, "longer_than_128": 12}, "dev": {"texts": 277}}}
    assert "Text lengths Train Dev Texts 2,490 277 Longer than 128 tokens 12 (0.5%) –" in as_read(
        page_of(tmp_path, run=run)
    )


def test_duplicate_metric_is_drawn_once():
    metrics = [{"step": step, "loss": step / 2, "cross_entropy": step / 2, "rate": 1.0} for step in range(3)]
    assert [chart.name for chart in curves.charts(metrics)] == ["loss", "rate"]


def test_scores_of_deployments_are_percent_and_named_by_the_kind_of_labels(tmp_path):
    each = {"name": "onnx", "bytes": 2e6, "milliseconds": 1.5, "scores": {"accuracy": 0.55, "pearson": None}}
    result = {
        "rows": 60,
        "split": "dev",
        "deployments": [each, {**each, "name": "live model", "scores": {"loss": 0.6}}],
    }
    text = as_read(page_of(tmp_path, deployments=result, task={"kind": "multi_label"}))
    assert "Subset accuracy Loss Size Time Start Memory onnx 55.0% – 2.0 MB 1.5 ms – – live model – 0.6 2.0" in text
