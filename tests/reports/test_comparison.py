"""`bert-tf report`: a run's page rewritten, and several runs compared."""

import json
import pathlib

from report_pages import METRICS, RUN, as_read

from bert_tf.cli import main
from bert_tf.reports import comparison, curves


def run_in(folder, *, name="glue/RTE", metrics=METRICS, scores=None, **changes):
    """A run folder, with some values of RUN changed."""
    folder.mkdir(parents=True)
    run = {**RUN, "name": name, **changes}
    (folder / "run.json").write_text(json.dumps(run))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in metrics))
    (folder / "eval_results.json").write_text(json.dumps(scores or {"loss": 0.5, "accuracy": 0.7}))
    return str(folder)


def two_runs(folder):
    """Two runs of one task: another learning rate, a score more in the second, another version of Keras."""
    first = run_in(
        folder / "a" / "run",
        versions={"keras": "3.14", "numpy": "2"},
        criterion="accuracy",
        baselines=[{"name": "TF-IDF", "scores": {"accuracy": 0.65}}],
    )
    scores = {"loss": 0.6, "cross_entropy": 0.6, "accuracy": 0.8, "macro_f1": 0.75}
    changes = {"flags": RUN["flags"] | {"learning_rate": 0.5, "output_dir": "b", "new": 1}, "phases": {"train": 90.0}}
    changes["metrics"] = [{"step": 5, "loss": 4.0}, {"step": 40, "loss": 2.0}]
    return first, run_in(folder / "b" / "run", scores=scores, versions={"keras": "3.15", "numpy": "2"}, **changes)


def test_comparison_has_differing_settings_and_scores(tmp_path):
    result = comparison.compare(two_runs(tmp_path))
    assert [run["name"] for run in result["runs"]] == ["a/run", "b/run"] and result["notes"] == []
    assert result["scores"] == {"loss": [0.5, 0.6], "accuracy": [0.7, 0.8], "macro_f1": [None, 0.75]}
    assert result["settings"]["Flags"] == {"learning_rate": [0.00012345, 0.5]}
    assert result["missing"]["Flags"] == ["output_dir", "new"]
    assert (result["settings"]["Versions"], result["same"]["Versions"]) == ({"keras": ["3.14", "3.15"]}, 1)
    assert result["baselines"] == {"Accuracy, TF-IDF": ["65.0%", None]}
    assert result["phases"] == {"prepare": [12.3, None], "train": [180.0, 90.0]}


def test_page_has_one_chart_per_metric_and_marks_the_best(tmp_path, capsys):
    runs = two_runs(tmp_path)
    assert main.main(["report", *runs, f"--output={tmp_path / 'compare.html'}"]) == 0
    assert capsys.readouterr().out == f"The report is {tmp_path / 'compare.html'}.\n"
    page = (tmp_path / "compare.html").read_text(encoding="utf-8")
    text = as_read(page)
    for expected in (
        "2 runs compared glue/RTE Runs a/run",
        "Loss, training a/run 7.25 b/run 2 ",
        "Accuracy, TF-IDF 65.0% –",
        "learning_rate 0.00012345 0.5",
        "Train a/run 3 min 0 s b/run 1 min 30 s",
        "keras 3.14 3.15 The same: 1 version, 1 setting of the machine.",
    ):
        assert expected in text
    assert page.count('class="best"') == 2 and '<td class="best">0.5</td>' in page, "of loss the least, of accuracy"
    assert "https:" not in page and page.count("<script>") == 1


def test_different_tasks_are_compared_by_shared_metrics(tmp_path):
    runs = run_in(tmp_path / "x"), run_in(tmp_path / "y", name="squad/v1.1", scores={"loss": 2.0, "f1": 88.0})
    result = comparison.compare(runs)
    assert result["scores"] == {"loss": [0.5, 2.0]}
    assert result["notes"] == [
        "These runs have different tasks (glue/RTE, squad/v1.1): only their common scores are compared.",
        "Omitted because not all runs have it: accuracy, f1.",
        "Scores are on different data sets, so none is marked as best.",
    ]
    page = comparison.write(runs, str(tmp_path / "page.html"))
    assert 'class="best"' not in pathlib.Path(page).read_text(encoding="utf-8")


def test_best_is_marked_among_runs_on_the_same_rows_only_and_seeds_have_deviations(tmp_path):
    details = {"dev": {"per_class": [{"label": "a", "count": 3}, {"label": "b", "count": 2}]}}
    runs = [run_in(tmp_path / name) for name in ("x", "y")]
    for folder in runs:
        (pathlib.Path(folder) / "eval_details.json").write_text(json.dumps(details))
    combination = {"runs": 2, "collapsed": 0, "scores": {"accuracy": {"mean": 0.6, "sd": 0.05}}}
    sweep = {"criterion": "accuracy", "combinations": [combination], "best_combination": 0, "best_run": "seed=1"}
    (tmp_path / "y" / "sweep.json").write_text(json.dumps(sweep))
    (tmp_path / "y" / "eval_results.json").write_text(json.dumps({"accuracy": 0.9}))
    result = comparison.compare(runs)
    assert result["is_ranked"] and result["scores"]["accuracy"] == [0.7, 0.6]
    assert result["deviations"]["accuracy"] == [None, 0.05]
    page = pathlib.Path(comparison.write(runs, str(tmp_path / "page.html"))).read_text(encoding="utf-8")
    assert "Accuracy 70.0% 60.0% ± 5.0% Parameters 1,480,322 1,480,322 Time of a run 3 min 12 s" in as_read(page)
    details["dev"]["per_class"][1]["count"] = 4
    (tmp_path / "y" / "eval_details.json").write_text(json.dumps(details))
    result = comparison.compare(runs)
    assert not result["is_ranked"] and "none is marked as best" in result["notes"][0]


def test_unshared_curves_are_drawn_unless_excluded():
    losses = [{"step": 2, "loss": 2.0, "eval_f1": 0.4}, {"step": 3, "loss": 2.0, "eval_f1": 0.5}]
    runs = [("a", "run-0", losses), ("b", "run-1", [{"step": 9, "loss": 1.0}])]
    charts = curves.charts_of_runs(runs)
    result = {(chart.name, chart.kind): [(c.label, c.style) for c in chart.curves] for chart in charts}
    assert result == {("loss", "training"): [("a", "run-0"), ("b", "run-1")], ("f1", "held out"): [("a", "run-0")]}
    assert [chart.name for chart in curves.charts_of_runs(runs, shared=True)] == ["loss"]


def test_names_are_the_shortest_distinct_path_ends():
    assert comparison.short_names(["/r/a/run", "/r/b/run", "/r/c"]) == ["a/run", "b/run", "r/c"]
    assert comparison.short_names(["/r/a", "/r/b"]) == ["a", "b"]
    assert comparison.short_names(["/r/a", "/r/a"]) == ["/r/a (1)", "/r/a (2)"]


def test_best_is_lowest_loss_or_highest_score():
    assert comparison.best_of("eval_loss", [2, 1, 1]) == [1, 2]
    assert comparison.best_of("f1", [2, 1, 3]) == [2]
    assert comparison.best_of("best_f1_thresh", [2, 1]) == comparison.best_of("f1", [1, 1]) == []
    assert comparison.best_of("f1", [2, None]) == []


def test_page_is_rewritten_and_json_has_the_same_content(tmp_path, capsys):
    run = run_in(tmp_path / "x")
    assert main.main(["report", run]) == 0
    assert "Accuracy" in (tmp_path / "x" / "report.html").read_text(encoding="utf-8")
    capsys.readouterr()
    assert main.main(["report", run, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["scores"] == {"loss": [0.5], "accuracy": [0.7]} and result["runs"][0]["task"] == "glue/RTE"
    assert main.main(["report", run, str(tmp_path)]) == 2
    assert "no readable run.json" in capsys.readouterr().err
