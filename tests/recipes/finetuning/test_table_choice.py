"""Which columns a table is fine-tuned on if no flag says so."""

import pytest

from bert_tf.errors import UserError
from bert_tf.recipes.finetuning import table_choice

HEADER = "Nr,Review Text,Sentiment,Title\n"


@pytest.fixture
def table(tmp_path):
    def write(header=HEADER):
        path = tmp_path / "reviews.csv"
        rows = (
            f"{n},A long review of film number {n} with many words.,{'good' if n % 3 else 'bad'},Film {n}"
            for n in range(30)
        )
        path.write_text(header + "\n".join(rows) + "\n")
        return str(path)

    return write


def test_columns_folder_and_checkpoint_are_chosen_and_printed(table, capsys):
    path = table()
    assert table_choice.defaults(path, {}) == {
        "task_name": "table",
        "text_columns": "Review Text",
        "label_column": "Sentiment",
        "output_dir": "runs/reviews",
        "init_checkpoint": table_choice.START,
        "label_type": "classes",
        "max_seq_length": 128,
        "eval_fraction": 0.2,
        "train_batch_size": 8,
        "num_train_epochs": 60.0,
        "eval_steps": 15,
        "early_stop_patience": 4,
        "temperature": "best",
        "refit": True,
    }
    line = f"{path}: texts from the column 'Review Text', labels from 'Sentiment'; the run is runs/reviews, from MiniLM"
    assert capsys.readouterr().out.startswith(line)


def test_flags_win(table, capsys):
    options = {"text_columns": "Title", "label_column": "Nr", "output_dir": "here", "init_checkpoint": ""}
    options |= {"label_type": "multi_label", "max_seq_length": 32}
    options |= {
        "eval_fraction": 0.1,
        "num_train_epochs": 2.0,
        "train_batch_size": 10,
        "eval_steps": 5,
        "early_stop_patience": 0,
        "refit": False,
        "temperature": "1",
    }
    assert table_choice.defaults(table(), options) == {"task_name": "table", **options}
    assert capsys.readouterr().out.endswith("the run is here, from scratch, with rows of 32 tokens.\n")


@pytest.mark.parametrize(
    "rows, batch_size, epochs, eval_steps", [(16, 8, 60, 10), (300, 16, 22, 28), (1730, 16, 4, 33), (9999, 32, 3, 71)]
)
def test_small_tables_are_trained_for_several_hundred_steps(rows, batch_size, epochs, eval_steps):
    chosen = table_choice.recipe(["a", "b"] * (rows // 2), "classes", {})
    assert (chosen["train_batch_size"], chosen["num_train_epochs"], chosen["eval_steps"]) == (
        batch_size,
        epochs,
        eval_steps,
    )
    assert "class_weights" not in chosen


def test_uneven_classes_are_weighted_and_selected_by_macro_f1(capsys):
    labels = ["good"] * 84 + ["bad"] * 16
    chosen = table_choice.recipe(labels, "classes", {})
    assert (chosen["class_weights"], chosen["criterion"]) == ("balanced", "macro_f1")
    assert "only 16.0% are 'bad': --train_batch_size=8 --num_train_epochs=32 " in capsys.readouterr().out
    assert "class_weights" not in table_choice.recipe(labels, "multi_label", {})
    assert "\n--folds=5 scores every row; --num_seeds=3" in capsys.readouterr().out
    for given in ({"folds": 3}, {"num_seeds": 2}):  # do not go together
        assert "refit" not in table_choice.recipe(labels, "classes", given)
        assert capsys.readouterr().out.endswith(("--criterion=macro_f1.\n", "--temperature=best.\n"))
    assert "criterion" not in table_choice.recipe(labels, "classes", {"criterion": "accuracy"})
    given = {"do_eval": False, "train_batch_size": 32}
    assert table_choice.recipe(["a", "b"] * 50, "classes", given) == {"num_train_epochs": 60.0}


def test_a_class_of_one_or_two_rows_does_not_choose_the_recipe():
    assert "criterion" not in table_choice.recipe(["good"] * 50 + ["bad"] * 48 + ["positiv", "neg."], "classes", {})


@pytest.mark.parametrize(
    "bad_rows",
    [
        [f"A long text without a label {n}.,NaN" for n in range(3)],
        [",rare"] * 3,
        ["nan,rare"] * 3,
        ["   ,rare", "one field", "A long text, with a comma more,rare"],
        [*["A long text without a label.,"] * 12_000, ",rare", ",rare", ",rare"],
    ],
)
def test_rows_that_reading_skips_do_not_choose_the_recipe(tmp_path, bad_rows, capsys):
    path = tmp_path / "reviews.csv"
    rows = [f"A long review of film number {n} with many words.,{'ab'[n % 2]}" for n in range(200)]
    path.write_text("\n".join(["text,label", *bad_rows, *rows]) + "\n")
    chosen = table_choice.defaults(str(path), {})
    assert "class_weights" not in chosen and "criterion" not in chosen
    assert (chosen["num_train_epochs"], chosen["eval_steps"]) == (32, 27), "as of 200 rows"
    assert "For 200 labeled rows, about 320 steps: " in capsys.readouterr().out


def test_cells_without_a_value_do_not_choose_the_kind_of_labels(tmp_path):
    path = tmp_path / "reviews.csv"
    rows = [f"A long review of film number {n} with many words.,{n / 7:.3f}" for n in range(60)]
    path.write_text("\n".join(["text,score", *rows, "No rating.,NaN", "None either.,<NA>"]) + "\n")
    assert table_choice.defaults(str(path), {})["label_type"] == "regression"


def test_a_column_with_one_label_is_refused_before_a_checkpoint_is_fetched(tmp_path):
    path = tmp_path / "one.csv"
    path.write_text("text,label\n" + "".join(f"a long text number {n},yes\n" for n in range(9)))
    with pytest.raises(UserError, match="only the label 'yes' in its column 'label'"):
        table_choice.defaults(str(path), {})


def test_spellings_of_a_class_that_are_joined_are_not_rare():
    assert "criterion" not in table_choice.recipe(["good"] * 50 + ["Good ", "bad"] + ["bad"] * 48, "classes", {})


def test_large_tables_and_predictions_keep_the_defaults(capsys):
    assert table_choice.recipe(["a", "b"] * 5000, "classes", {}) == {}
    assert table_choice.recipe(["a", "b"] * 50, "classes", {"do_train": False}) == {}
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "header, rows, chosen, said",
    [
        (
            "review,genres",
            [f"Film {n} is a long film,{genres}" for n, genres in enumerate(["a", "b", "a;b", "c", "a;c", "b;c"] * 5)],
            {"label_type": "multi_label", "label_separator": ";"},
            "several labels from 'genres', separated by ';' (--label_type=classes takes each combination as a class)",
        ),
        (
            "review,cheap,good",
            [f"Film {n} is a long film,{n % 2},{int(n % 3 == 0)}" for n in range(30)],
            {"label_type": "multi_label", "label_column": "cheap,good"},
            "several labels from 'cheap,good';",
        ),
        (
            "review,stars",
            [f"Film {n} is a long film,{n % 5 + 1}" for n in range(30)],
            {"label_type": "classes"},
            "labels from 'stars' (--label_type=regression takes them as numbers)",
        ),
        (
            "review,score",
            [f"Film {n} is a long film,{n / 7:.2f}" for n in range(30)],
            {"label_type": "regression", "label_column": "score"},
            "numbers from 'score' (--label_type=classes takes each number as a class)",
        ),
        (
            "first,second,same",
            [f"Film {n} is a long film.,The film with number {n} is long.,{n % 2}" for n in range(30)],
            {"text_columns": "first,second", "label_column": "same"},
            "texts from the columns 'first' and 'second' (--text=first takes one of them)",
        ),
    ],
)
def test_several_labels_numbers_and_pairs_are_recognized(header, rows, chosen, said, tmp_path, capsys):
    path = tmp_path / "table.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    found = table_choice.defaults(str(path), {})
    assert {name: found[name] for name in chosen} == chosen
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    "cells", [["yes", "no"] * 9, ["Berlin, Germany", "Munich, Germany"] * 9, ["a;b"] * 9 + ["c"] * 9, []]
)
def test_cells_with_one_label_have_no_separator(cells):
    assert table_choice.separator_of(cells) == ""


def test_column_that_is_not_there_is_refused_before_anything_is_fetched(table, capsys):
    with pytest.raises(UserError, match=r"has no column 'Review'; its columns: .*Review Text"):
        table_choice.defaults(table(), {"text_columns": "Review", "label_column": "Sentiment"})
    assert capsys.readouterr().out == ""


def test_long_texts_and_numbers_are_recognized(tmp_path, capsys):
    (tmp_path / "flats").mkdir()
    rows = "".join(f"{'big ' * 220}flat {n},{300 + n}.50\n" for n in range(60))
    (tmp_path / "flats" / "train.csv").write_text("advertisement,price\n" + rows)
    chosen = table_choice.defaults(f"{tmp_path}/flats/", {"label_column": "price"})
    assert (chosen["label_type"], chosen["max_seq_length"]) == ("regression", 256)
    assert chosen["output_dir"] == "runs/flats" and "numbers from 'price'" in capsys.readouterr().out


def test_columns_named_text_and_label_are_taken(table):
    chosen = table_choice.defaults(table("label,Review Text,Sentiment,text\n"), {})
    assert (chosen["text_columns"], chosen["label_column"]) == ("text", "label")


def test_malformed_rows_are_passed_over(table):
    path = table()
    with open(path, "a") as file:
        file.write("one,field,too,many,here\n")
    assert table_choice.defaults(path, {})["label_column"] == "Sentiment"


def test_unclear_columns_are_listed(tmp_path):
    path = tmp_path / "unclear.csv"
    path.write_text("a,b,c\n" + "x,y,one long text\n" * 5 + "z,w,another long text\n" * 5)
    with pytest.raises(UserError, match=r"the labels\? candidates: a, b, c; its columns: a, b, c. Pass --label"):
        table_choice.defaults(str(path), {})
    path.write_text("a,b\n" + "".join(f"text {n},other {n}\n" for n in range(20)))
    with pytest.raises(UserError, match="the labels\\? none looks like it"):
        table_choice.defaults(str(path), {})
    with pytest.raises(UserError, match="the texts\\? candidates: a, b"):
        table_choice.defaults(str(path), {"label_column": "c"})


def test_training_begins_with_a_linear_head_on_models_that_make_vectors(tmp_path):
    (tmp_path / "modules.json").write_text("[]")
    starts = {str(tmp_path): "best", "all-MiniLM-L6-v2": "best", "bert-base-uncased": None}
    for checkpoint, start in starts.items():
        chosen = table_choice.recipe(["a", "b"] * 50, "classes", {"init_checkpoint": checkpoint})
        assert chosen.get("start") == start


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (199, {"train_batch_size": 8, "eval_fraction": 0.2, "refit": True}),
        (200, {"train_batch_size": 16, "eval_fraction": 0.2, "refit": True}),
        (999, {"train_batch_size": 16, "eval_fraction": 0.2, "refit": True}),
        (1000, {"train_batch_size": 16, "eval_fraction": 0.1}),
        (1999, {"train_batch_size": 16, "eval_fraction": 0.1}),
        (2000, {"train_batch_size": 32, "eval_fraction": 0.1}),
    ],
)
def test_settings_change_at_a_number_of_examples(count, expected):
    chosen = table_choice.recipe(["a", "b"] * (count // 2) + ["a"] * (count % 2), "classes", {}, is_alone=True)
    names = ("train_batch_size", "eval_fraction", "refit")
    assert {name: chosen[name] for name in names if name in chosen} == expected


@pytest.mark.parametrize(("characters", "expected"), [(512, 128), (513, 256), (1024, 256), (1025, 512), (9999, 512)])
def test_rows_are_as_short_as_texts_allow(characters, expected):
    assert table_choice.length([{"text": "x" * characters}] * 3, ["text"]) == expected


@pytest.mark.parametrize(
    ("different", "suffix", "expected"),
    [(10, ".5", "classes"), (11, ".5", "regression"), (50, "", "classes"), (51, "", "regression")],
)
def test_numbers_are_classes_up_to_a_number_of_different_ones(different, suffix, expected):
    cells = [f"{number % different}{suffix}" for number in range(4 * different)]
    assert table_choice.label_kind(cells)[0] == expected


def test_tagged_words_are_recognized_by_their_columns(tmp_path, capsys):
    words = [(n, word, tag) for n in range(40) for word, tag in (("Ann", "B-PER"), ("sang", "O"))]
    path = tmp_path / "tags.csv"
    path.write_text("sentence_id,words,labels\n" + "".join(f"{n},{word},{tag}\n" for n, word, tag in words))
    chosen = table_choice.defaults(str(path), {})
    assert (chosen["task_name"], chosen["output_dir"], chosen["train_batch_size"]) == ("ner/table", "runs/tags", 8)
    assert not chosen.keys() & {"text_columns", "label_column", "refit", "start", "class_weights"}
    said = capsys.readouterr().out
    assert f"{path}: tagged words; the run is runs/tags" in said and "For 40 tagged sentences, about 270 steps" in said
    assert table_choice.defaults(str(path), {"text_columns": "words", "label_column": "labels"})["task_name"] == "table"
    rows = [f"The bank {n} was steep and long.,bank,{'TF'[n % 2]}" for n in range(30)]
    path.write_text("\n".join(["sentence,word,label", *rows]) + "\n")
    assert table_choice.defaults(str(path), {})["text_columns"] == "sentence", "a word in its sentence, without tags"
