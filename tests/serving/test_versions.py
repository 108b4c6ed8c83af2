"""New versions of a model that take the place of earlier ones while clients ask."""

import concurrent.futures
import functools
import os
import shutil
import signal
import subprocess
import sys

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


def test_version_that_cannot_be_loaded_is_tried_again_and_its_reason_said_once(tmp_path):
    errors, tries, waits = [], [], [10, 20, 40, 80, 160, 320, 600, 600]  # in looks

    def load(path, version):
        tries.append(version)
        if errors:
            raise errors[0]
        return version

    (tmp_path / "1").mkdir()
    watch = versions.Watch(str(tmp_path), load)
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "a").write_text("x")
    errors.append(UserError("Memory is short."))
    with pytest.raises(versions.NotComplete, match="version 2 is not complete yet"):  # it may still be copied
        looks(watch)
    found = [watch.look() for _ in range(waits[0])]
    with pytest.raises(UserError, match="Memory is short"):
        watch.look()
    found += [watch.look() for _ in range(sum(wait + 1 for wait in waits[1:]) - 1)]
    assert not any(found) and len(tries) == len(waits), "it is said once, and tried after each wait"
    errors[0] = ValueError("another reason")
    with pytest.raises(UserError, match="another reason"):
        watch.look()
    (tmp_path / "2" / "b").write_text("x")
    errors.clear()
    assert looks(watch) == "2" and not watch.is_loading, "its files have changed"
    assert looks(watch) is None
    (tmp_path / "2" / "b").write_text("other")
    errors.append(ImportError("half of a package"))
    with pytest.raises(versions.NotComplete):
        looks(watch)
    errors.clear()
    assert [watch.look() for _ in range(waits[0] + 1)] == [None] * waits[0] + ["2"], "without a change, too"


def test_version_without_something_that_the_served_one_has_is_waited_for(tmp_path):
    """An export for an engine whose `engines/` is not there yet would start TensorFlow."""
    (tmp_path / "1" / "engines").mkdir(parents=True)
    (tmp_path / "1" / "engines" / "model").write_text("x")
    (tmp_path / "1" / "saved_model.pb").write_text("x")
    watch = versions.Watch(str(tmp_path), lambda path, version: version)
    for number in ("2", "3"):
        (tmp_path / number).mkdir()
        (tmp_path / number / "saved_model.pb").write_text("x")
        assert [watch.look() for _ in range(versions.REST)] == [None] * versions.REST
        if number == "2":
            shutil.copytree(tmp_path / "1" / "engines", tmp_path / number / "engines")
            assert looks(watch) == "2"
    assert watch.look() == "3", "it has none"


STOPPED = """
import sys, time, types
from bert_tf.cli import main
from bert_tf.cli.commands import serve
from bert_tf.serving import versions

def load(arguments, name, path, version, **kind):
    if version == "2":
        print("loading", flush=True)
        time.sleep(60)
    return types.SimpleNamespace(name=name, version=version, kind="classes", signatures={})

versions.SECONDS = 0.05
serve._check_folders, serve._load = (lambda *_: set()), load
sys.exit(main.main(["serve", f"m={sys.argv[1]}", "--port=0", "--reload"]))
"""


def test_server_that_is_loading_a_version_stops_at_once(tmp_path):
    (tmp_path / "1").mkdir()
    with subprocess.Popen([sys.executable, "-c", STOPPED, tmp_path], stdout=subprocess.PIPE, text=True) as server:
        lines = iter(server.stdout.readline, "")
        assert any(line.startswith("Try it at http://127.0.0.1:") for line in lines)
        (tmp_path / "2").mkdir()
        (tmp_path / "2" / "a").write_text("x")
        assert "loading\n" in lines
        server.send_signal(signal.SIGTERM)
        assert server.wait(20) == 0 and list(lines) == ["Stopped.\n"]


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
    assert "m: version 2 is now served." in shown and "m: version 2 is still served. The export" in shown
