"""New versions of a model that take the place of earlier ones while clients ask."""

import concurrent.futures
import functools
import os
import shutil

import pytest
from starlette.testclient import TestClient

from bert_tf.errors import UserError
from bert_tf.serving import versions
from bert_tf.serving.app import Server
from bert_tf.serving.served import Served


def copied(source, target):
    """A version that appears whole, as one that is renamed does."""
    shutil.copytree(source, f"{target}.partial")
    os.rename(f"{target}.partial", target)


def looks(watch):
    """What two looks in a row find: nothing counts as written before the second."""
    assert watch.look() is None
    return watch.look()


def test_highest_number_is_served_and_a_folder_without_numbers_is_one_version(tmp_path):
    for name in ("2", "10", "9.partial", "current"):
        (tmp_path / "models" / name).mkdir(parents=True)
    assert versions.newest(str(tmp_path / "models")) == (str(tmp_path / "models" / "10"), "10")
    (tmp_path / "models" / "run.json").write_text("{}")
    assert versions.newest(str(tmp_path / "models")) == (str(tmp_path / "models"), "1")
    assert versions.newest("hf://owner/name") == ("hf://owner/name", "1")


def test_watch_sees_new_removed_and_replaced_versions_once_they_are_whole(tmp_path):
    folder = tmp_path / "models"
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "a").write_text("one")
    watch = versions.Watch(str(folder), lambda path, version: (os.path.basename(path), version))
    assert watch.first() == ("1", "1") and looks(watch) is None
    (folder / "2").mkdir()
    assert looks(watch) is None, "it holds nothing"
    (folder / "2" / "a").write_text("t")
    assert watch.look() is None
    (folder / "2" / "b").write_text("tw")
    assert looks(watch) == ("2", "2") and looks(watch) is None
    (folder / "2" / "b").write_text("another")
    assert looks(watch) == ("2", "2"), "it was replaced"
    shutil.rmtree(folder / "2")
    assert looks(watch) == ("1", "1"), "a way back"
    shutil.rmtree(folder)
    assert looks(watch) is None


def test_version_that_cannot_be_loaded_is_reported_once(tmp_path):
    def load(path, version):
        raise UserError("It is damaged.")

    (tmp_path / "1").mkdir()
    watch = versions.Watch(str(tmp_path), load)
    (tmp_path / "1" / "a").write_text("x")
    with pytest.raises(UserError):
        looks(watch)
    assert looks(watch) is None


def test_clients_are_answered_while_versions_change(exports, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(versions, "SECONDS", 0.02)
    copied(exports["single"], tmp_path / "1")
    watch = versions.Watch(str(tmp_path), lambda path, version: Served("m", path, version=version))
    with TestClient(Server([watch.first()], watches={"m": watch}).app()) as client:

        def ask(until):
            """The outputs of requests until they are those of the version that is expected."""
            answers = []
            while not answers or not until(answers[-1]):
                response = client.post("/v1/models/m:predict", json={"instances": [{"text_a": "abc"}]})
                assert response.status_code == 200
                answers.append(response.json()["predictions"][0])
            return answers

        version = functools.partial(client.get, "/v1/models/m/metadata")
        assert version().json()["model_spec"]["version"] == "1"
        with concurrent.futures.ThreadPoolExecutor(4) as clients:
            asked = [clients.submit(ask, lambda answer: answer == 1.0) for _ in range(4)]
            copied(exports["number"], tmp_path / "2")
            for answers in asked:
                assert answers.result(60)[-1] == 1.0
        assert version().json()["model_spec"]["version"] == "2"
        assert client.get("/v1/models/m/versions/2").json()["model_version_status"][0]["version"] == "2"
        gone = client.get("/v1/models/m/versions/1")
        assert gone.status_code == 404 and "Known: version 2" in gone.json()["error"]
        (tmp_path / "3").mkdir()
        (tmp_path / "3" / "saved_model.pb").write_text("damaged")
        shown = ""
        while "still served" not in shown:
            ask(lambda answer: True)
            shown += capsys.readouterr().out
    assert "m: version 2 is served now." in shown and "m: version 2 is still served. The export" in shown
