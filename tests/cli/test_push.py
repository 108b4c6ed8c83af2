"""`bert-tf push` against a server on this machine that answers as the hub does."""

import base64
import http.server
import json
import threading
from urllib.parse import urlsplit

import checkpoint_cases
import pytest

from bert_tf.checkpoints import formats
from bert_tf.cli import main


class Hub(http.server.BaseHTTPRequestHandler):
    """Takes the requests of an upload and keeps the files of each commit."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path = urlsplit(self.path).path
        server = self.server
        server.tokens.add(self.headers.get("Authorization"))
        if server.refuses:
            self.answer(401, {"error": "Invalid username or password."})
        elif path == "/api/repos/create":
            server.created.append(json.loads(body))
            self.answer(200, {"url": f"{server.address}/me/tiny"})
        elif path == "/api/validate-yaml":
            self.answer(200, {"errors": [], "warnings": []})
        elif "/preupload/" in path:
            files = [{"path": file["path"], "uploadMode": "regular"} for file in json.loads(body)["files"]]
            self.answer(200, {"files": [{**file, "shouldIgnore": False, "oid": None} for file in files]})
        elif "/commit/" in path:
            lines = [json.loads(line) for line in body.splitlines()]
            server.messages.append(lines[0]["value"]["summary"])
            for line in lines[1:]:
                server.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            commit = {"commitUrl": f"{server.address}/me/tiny/commit/1", "commitOid": "1", "success": True}
            self.answer(200, {**commit, "hookOutput": "", "pullRequestUrl": None})
        else:
            self.answer(404, {"error": path})

    def do_GET(self):
        self.answer(200, {"id": "me/tiny", "siblings": [], "sha": "0"})

    def answer(self, status, value):
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def hub(monkeypatch):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.address = f"http://127.0.0.1:{server.server_port}"
    server.created, server.messages, server.files, server.tokens, server.refuses = [], [], {}, set(), False
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", server.address)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("push") / "native"
    formats.write(checkpoint_cases.checkpoint(), folder, "native")
    return folder


@pytest.fixture(scope="module")
def converted(checkpoint):
    folder = checkpoint.parent / "converted"
    assert main.main(["convert", str(checkpoint), str(folder), "--format=huggingface"]) == 0
    return folder


def test_converted_folder_is_uploaded_as_it_is(hub, converted, capsys):
    assert main.main(["push", str(converted), "me/tiny", "--private", "--message=First"]) == 0
    names = "README.md config.json model.safetensors tokenizer.json tokenizer_config.json vocab.txt".split()
    assert sorted(hub.files) == names
    assert all(content == (converted / name).read_bytes() for name, content in hub.files.items())
    assert hub.messages == ["First"] and hub.tokens == {"Bearer hf_secret"}
    created = hub.created[0]
    assert (created["organization"], created["name"]) == ("me", "tiny")
    assert created.get("private") or created["visibility"] == "private"  # as older and newer clients say it
    assert f"Uploaded 6 files of {converted} to {hub.address}/me/tiny" in capsys.readouterr().out


def test_dry_run_lists_files_and_card_and_uploads_nothing(hub, converted, capsys):
    assert main.main(["push", str(converted), "me/tiny", "--dry_run"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("me/tiny would get 6 files of ") and (converted / "README.md").read_text() in said
    assert f"{(converted / 'vocab.txt').stat().st_size:,}  vocab.txt" in said
    assert not (hub.created or hub.files or hub.tokens)


def test_tokenizer_json_equals_the_vocabulary_and_casing(converted):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(converted / "tokenizer.json"))
    assert tokenizer.get_vocab() == {token: number for number, token in enumerate(checkpoint_cases.PIECES)}
    assert tokenizer.encode("A b", "C").tokens == ["[CLS]", "a", "b", "[SEP]", "c", "[SEP]"]
    (converted / "vocab.txt").rename(converted / "hidden.txt")
    assert formats.read(converted).vocabulary == checkpoint_cases.PIECES
    (converted / "hidden.txt").rename(converted / "vocab.txt")


@pytest.mark.parametrize(
    ("folder", "repository", "message"),
    [
        ("nowhere", "me/tiny", "There is no folder nowhere"),
        (".", "tiny", "tiny is not a repository: pass owner/name."),
        (".", "me/tiny", "no README.md"),
    ],
)
def test_wrong_arguments_are_refused(folder, repository, message, hub, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main.main(["push", folder, repository]) == 2
    assert message in capsys.readouterr().err and not hub.created


def test_refused_login_is_explained(hub, converted, capsys):
    hub.refuses = True
    assert main.main(["push", str(converted), "me/tiny"]) == 2
    error = capsys.readouterr().err
    assert "me/tiny could not be uploaded" in error and "hf auth login" in error and error.count("\n") == 1
