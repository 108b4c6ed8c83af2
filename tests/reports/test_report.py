"""The page about a run: what it shows, and what it survives."""

import json
import re

import pytest
from report_pages import METRICS, RUN, as_read, page_of

from bert_tf.errors import UserError
from bert_tf.reports import curves
from bert_tf.reports.report import summary, write_report
from bert_tf.reports.wording import command, duration, value_text, words


def test_duration_is_sum_of_phases_or_start_to_finish():
    without = {name: value for name, value in RUN.items() if name != "phases"}
    assert "took 3 min 12 s" in summary(RUN, []) and "took 3 min 20 s" in summary(without, [])


def test_summary_says_what_replicas_send():
    assert "all-reduce per step: 5.921 MB, 2 replicas" in summary({"replicas": 2, "all_reduced_bytes": 5921288}, [])
    assert "replicas" not in summary({"replicas": 1, "all_reduced_bytes": 0}, [])


def test_report_has_all_sections(tmp_path):
    (tmp_path / "records").mkdir()
    split = {"documents": 351, "tokens": 3211090, "layouts": {"files": 2}}
    manifest = {"statistics": {"seed": 5, "train": split, "eval": {"documents": 8}}, "warnings": ["One <document>."]}
    (tmp_path / "records" / "manifest.json").write_text(json.dumps(manifest))
    examples = {"fill_mask": [{"text": "The [MASK] sat.", "answers": [{"piece": "cat", "score": 0.31}]}]}
    text = as_read(page_of(tmp_path, metrics=METRICS, eval_results={"loss": 7.5}, examples=examples))
    for expected in (
        "first words · 2 layers of width 128 · 1,480,322 parameters · 20 steps · took 3 min 12 s",
        " · finished 2026-11-21 09:03 Final scores on held-out data 7.5 Loss",
        "Loss training 7.25 held out 7.5",
        "Learning rate training 5e-05",
        "The [MASK] sat. cat 31.0%",
        "One &lt;document&gt;. Seed 5 Train Eval Documents 351 8 Tokens 3,211,090 – Files by layout files: 2 –",
        "Prepare 12 s Train 3 min 0 s",
        "python run_pretraining.py \\ &#39;--input_file=my books/*.txt&#39; \\ --num_train_steps=20",
        "learning_rate 0.00012345",
        "vocab_size 8000",
        "tensorflow 2.21.0",
        "Cores 2",
    ):
        assert expected in text
    assert not list(tmp_path.glob("*.partial"))


def test_confidence_is_shown_and_left_out_where_it_is_malformed(tmp_path):
    bins = [{"from": 0.8, "to": 0.8667, "count": 9, "confidence": 0.84, "accuracy": 0.5}, {"from": 0.9, "count": 3}]
    values = {"expected_calibration_error": 0.3412, "temperature": 2.5, "with_temperature": 0.0489, "bins": bins}
    text = as_read(page_of(tmp_path, eval_details={"dev": {"confidence": values}}))
    assert "Expected calibration error 0.341" in text and "temperature of 2.50 makes it 0.049" in text
    assert "80–87% 84% 50% 9" in text and "90–" not in text
    text = as_read(page_of(tmp_path, eval_details={"dev": {"confidence": {**values, "temperature": "warm"}}}))
    assert "alibration" not in text


def test_command_is_shown_as_typed():
    assert command(["bert-tf", "squad", "--a=b c", "--d"]) == "bert-tf squad \\\n    '--a=b c' \\\n    --d"
    assert command(["bert-tf", "squad"]) == "bert-tf squad" and command(["run_squad.py"]) == "python run_squad.py"
    assert command([]) == command(None) == ""


def test_run_json_alone_makes_a_page_without_empty_sections(tmp_path):
    text = as_read(page_of(tmp_path, run={"name": "bare"}))
    assert text == f"{tmp_path.name} {tmp_path.name} bare"  # the title, the heading, the task


def test_folder_without_run_json_is_refused(tmp_path):
    with pytest.raises(UserError, match="no readable run.json"):
        write_report(tmp_path)
    (tmp_path / "run.json").write_text('{"name": "cut sh')
    with pytest.raises(UserError, match="no readable run.json"):
        write_report(tmp_path)
    assert not (tmp_path / "report.html").exists()


def test_corpus_text_is_escaped(tmp_path):
    evil = "<script>alert('x')</script>\"&"
    answers = [{"piece": evil, "score": 0.5}]
    examples = {
        "fill_mask": [{"text": evil + "[MASK]", "answers": answers}],
        "held_out": [{"before": evil, "truth": evil, "after": evil, "answers": answers}],
    }
    run = RUN | {"name": evil, "command": [evil], "flags": {evil: evil}, "config": {"hidden_act": evil}}
    metrics = [{"step": 1, evil: 2.0}, {"step": 2, evil: 1.0}]
    page = page_of(tmp_path, run=run, metrics=metrics, examples=examples, eval_results={evil: evil})
    assert "<script>alert" not in page
    assert page.count("<script>") == 1


def test_page_is_self_contained(tmp_path):
    page = page_of(tmp_path, metrics=METRICS, eval_results={"loss": 7.5})
    assert not re.search(r"https?:|//\w|\bsrc=|\bhref=|@import|url\(", page)


def test_non_numbers_are_omitted_and_counted(tmp_path):
    metrics = [{"step": 1, "loss": 3.0}, {"step": 2, "loss": None}, {"step": 3, "loss": float("nan")}]
    page = page_of(tmp_path, metrics=metrics, eval_results={"loss": float("nan"), "accuracy": None})
    text = as_read(page)
    assert "Loss training 3 2 values not a number, omitted" in text
    assert "not a number Loss" in text and "– Accuracy" in text
    assert "nan" not in page.lower().replace("not a number", "")


def test_incomplete_last_line_of_metrics_is_skipped(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 2.5}\n[1]\n{"step": 2, "lo')
    write_report(tmp_path)
    assert "1 step " in as_read((tmp_path / "report.html").read_text(encoding="utf-8"))


def test_correct_and_wrong_predictions_are_marked(tmp_path):
    held_out = [
        {"before": "to be or", "truth": "not", "after": "to be", "answers": [{"piece": "not", "score": 0.7}]},
        {"before": "Call me", "truth": "Ishmael", "after": ".", "answers": [{"piece": "back", "score": 0.3}]},
    ]
    text = as_read(page_of(tmp_path, examples={"held_out": held_out}))
    assert "1 of 2 correct" in text
    assert "to be or not to be not ✓ 70.0% correct" in text
    assert "Call me Ishmael . back 30.0% wrong" in text


def test_training_and_held_out_share_a_chart_with_the_unigram_line():
    metrics = [{"step": 0, "loss": 4.0}, {"step": 10, "loss": 2.0, "eval_loss": 3.0}]
    (chart,) = curves.charts(metrics, {"unigram_loss": 4})
    assert [(curve.label, curve.points) for curve in chart.curves] == [
        ("training", [[0, 4.0], [10, 2.0]]),
        ("held out", [[10, 3.0]]),
    ]
    assert chart.y_ticks == [("2", 100.0), ("2.5", 75.0), ("3", 50.0), ("3.5", 25.0), ("4", 0.0)]
    assert chart.reference == ("unigram 4", 0.0)
    assert [curve.path for curve in chart.curves] == ["M0.0 0.0L1000.0 1000.0", ""]
    assert chart.curves[1].dots == "M1000.0 500.0h0"


def test_text_lengths_are_a_histogram(tmp_path):
    lengths = {"width": 8, "counts": [10, 40, 5]}
    statistics = {"train": {"examples": 55, "padding_when_packed": 0.05, "lengths": lengths}}
    page = page_of(tmp_path, run=RUN | {"text_statistics": statistics})
    text = as_read(page)
    assert "several texts share a row 5.0% Train tokens per text, 8 per bar; the tallest bar is 72.7%" in text
    assert '<i style="height: 25.0%" title="1 to 8 tokens: 10 (18.2%)"></i>' in page and "1 17 and more" in text


def test_pretraining_shows_row_lengths(tmp_path):
    lengths = {"width": 1, "counts": [0, 9]}
    statistics = {"train": {"rows_in_the_sample": 9, "predictions_per_row": 4.8, "lengths": lengths}}
    text = as_read(page_of(tmp_path, run=RUN | {"text_statistics": statistics}))
    assert "Row lengths Train Rows in the sample 9 Masked tokens per row 4.8 Train tokens per row, 1 per" in text


def test_long_curves_have_a_moving_average(tmp_path):
    points = [(float(step), float(step % 2)) for step in range(50)]
    average = curves.moving_average(points)
    assert len(average) == 50 and curves.moving_average(points[:39]) == []
    assert (average[0], average[25], average[-1]) == ((0.0, 0.0), (25.0, 0.6), (49.0, 1.0)), (
        "2 neighbors on either side"
    )
    metrics = [{"step": step, "masked_lm_loss": value, "learning_rate": value / 2} for step, value in points]
    page = page_of(tmp_path, metrics=metrics)
    assert page.count('<path class="training faint"') == 1, "the learning rate is drawn once"
    assert [chart.axis_title for chart in curves.charts(metrics)] == ["loss", "learning rate"]
    assert as_read(page).count(" step ") == 2


def test_single_point_is_no_chart_but_a_dot_beside_a_line():
    assert curves.charts([{"step": 7, "loss": 3}]) == []
    (chart,) = curves.charts([{"step": 6, "loss": 3}, {"step": 8, "loss": 3}, {"step": 7, "eval_loss": 3}])
    assert chart.curves[1].dots == "M500.0 500.0h0"


def test_step_repeated_after_restart_counts_once():
    (chart,) = curves.charts([{"step": 1, "loss": 5.0}, {"step": 2, "loss": 9.0}, {"step": 2, "loss": 4.0}])
    assert chart.curves[0].points == [[1, 5.0], [2, 4.0]]


def test_many_lines_are_downsampled_to_means(tmp_path):
    metrics = [{"step": step, "loss": float(step % 2)} for step in range(100_000)]
    (chart,) = curves.charts(metrics)
    points = chart.curves[0].points
    assert len(points) == 400
    assert points[0] == [124.5, 0.5]
    assert chart.curves[0].last == 1.0
    assert len(page_of(tmp_path, metrics=metrics)) < 100_000


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        ((0.3, 9.2), [0, 2, 4, 6, 8, 10]),
        ((0, 0.0001), [0, 2e-5, 4e-5, 6e-5, 8e-5, 1e-4]),
        ((-1, 1), [-1, -0.5, 0, 0.5, 1]),
        ((3, 3), [1, 2, 3, 4, 5]),
        ((0, 0), [-1, -0.5, 0, 0.5, 1]),
    ],
)
def test_ticks_are_round_and_enclose_the_values(span, expected):
    assert curves.ticks(*span) == pytest.approx(expected)


def test_numbers_names_and_times_are_formatted():
    assert [value_text(value) for value in (22713728, 0.31416, 2.5e-5, None, True, [1, "a"])] == [
        "22,713,728",
        "0.3142",
        "2.5e-05",
        "–",
        "yes",
        "1, a",
    ]
    assert words("unigram_masked_lm_loss") == "Unigram masked LM loss"
    assert [duration(seconds) for seconds in (0.41, 42.4, 200, 7500)] == ["0.4 s", "42 s", "3 min 20 s", "2 h 5 min"]


def test_unfinished_run_says_so():
    run = {"started": "2026-11-21T09:00:00Z", "finished": None}
    assert summary(run, []) == "started 2026-11-21 09:00, not finished"
    assert summary({"started": "yesterday"}, []) == ""


def test_data_are_described_and_texts_that_were_trained_on_are_no_held_out_ones(tmp_path):
    data = {"splits": ["dev: 3 examples; a 66.7%, b 33.3%."], "notes": ["1 row of x.csv is left out."]}
    run = RUN | {"name": "table", "flags": {"train_file": "data/x.csv"}, "data": data}
    run["evaluated_on"] = "the training text"
    text = as_read(page_of(tmp_path, run=run, eval_results={"accuracy": 0.75}, task={"kind": "multi_label"}))
    assert "Data dev: 3 examples; a 66.7%, b 33.3%. 1 row of x.csv is left out." in text
    assert "Final scores on the training text 75.0% Subset accuracy" in text and "held" not in text
    assert "x.csv · 2 layers" in text
    losses = [{"step": 1, "eval_loss": 2.0}, {"step": 2, "eval_loss": 1.0}]
    chart = curves.charts(losses, None, "on the training text")[0]
    assert [(curve.label, curve.style) for curve in chart.curves] == [("on the training text", "held-out")]


def test_predicted_numbers_are_dots_over_the_true_ones(tmp_path):
    details = {"dev": {"values": [[0.0, 1.0], [2.0, 2.0], [1.0, None], "x"]}}
    page = page_of(tmp_path, eval_details=details)
    assert 'd="M0.0 500.0h0M1000.0 0.0h0"' in page and "Predicted numbers" in as_read(page)


def test_baseline_and_collapse_are_shown_beside_the_scores(tmp_path):
    baseline = {"name": "TF-IDF with a linear model", "scores": {"accuracy": 0.82, "macro_f1": 0.8}}
    run = RUN | {"baseline": baseline, "collapsed": "all 96 predictions are the same"}
    text = as_read(page_of(tmp_path, run=run, eval_results={"accuracy": 0.75, "loss": 0.5}))
    assert "Accuracy this model 75.0% TF-IDF with a linear model 82.0%" in text
    run["baselines"] = [{"name": "frozen vectors", "scores": {"accuracy": 0.9}}, {"name": "none", "scores": {}}]
    run["not_beaten"] = ["frozen vectors"]
    text = as_read(page_of(tmp_path, run=run, eval_results={"accuracy": 0.75, "loss": 0.5}))
    assert "Accuracy this model 75.0% frozen vectors 90.0%" in text
    assert "Fine-tuning does not beat frozen vectors. Try more examples" in text
    assert "The training has collapsed: on the development set all 96 predictions are the same. Try another" in text
