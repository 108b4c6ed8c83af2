"""Who may use the server (Host header, token, TLS), and its log."""

import datetime
import itertools
import json
import re
import shutil
import subprocess
import types

import pytest
from starlette.testclient import TestClient

from bert_tf.cli.commands import serve
from bert_tf.errors import UserError
from bert_tf.runtime import access_token
from bert_tf.serving.app import HTML, PAGE, Server

TOKEN = "s3cret"


class Echo:
    """A signature that answers what it is given."""

    inputs = outputs = {"x": ("string", (None,))}
    has_rows, has_large_outputs = True, False

    def __call__(self, arrays):
        return arrays


def client(**options):
    server = Server([types.SimpleNamespace(name="m", version="1", signatures={"serving_default": Echo()})], **options)
    return TestClient(server.app(), base_url="http://localhost:8501")


@pytest.mark.parametrize(
    ("hosts", "host", "code"),
    [
        (["localhost", "127.0.0.1", "::1"], "localhost:8501", 405),
        (["localhost", "127.0.0.1", "::1"], "LOCALHOST", 405),
        (["localhost", "127.0.0.1", "::1"], "[::1]:8501", 405),
        (["[::1]"], "[::1]", 405),
        (["localhost"], "evil.example:8501", 400),
        (["localhost"], "localhost.evil.example", 400),
        (["localhost"], "evil.example@localhost:x", 400),
        (["localhost"], "[", 400),
        (["localhost"], "", 400),
        (["*"], "evil.example", 405),
    ],
)
def test_host_header_is_checked(hosts, host, code):
    with client(allowed_hosts=hosts) as each:
        assert each.get("/v1/models/m:predict", headers={"host": host}).status_code == code
        assert each.get("/healthz", headers={"host": host}).status_code == 200, "probes use addresses"


@pytest.mark.parametrize(
    ("given", "address", "expected"),
    [
        (None, "127.0.0.1", ["localhost", "127.0.0.1", "::1", "127.0.0.1"]),
        (None, "::1", ["localhost", "127.0.0.1", "::1", "::1"]),
        (None, "0.0.0.0", ["*"]),
        ("a.example, b", "127.0.0.1", ["a.example", "b"]),
        ("localhost,", "127.0.0.1", ["localhost"]),
    ],
)
def test_only_a_local_server_has_hosts_by_default(given, address, expected):
    assert serve.allowed_hosts(given, address) == expected


def test_no_host_is_refused():
    with pytest.raises(UserError, match="--allowed_hosts .*no name"):
        serve.allowed_hosts(" ,", "127.0.0.1")


@pytest.mark.parametrize("hosts", [["*"], ["good.example"]])
@pytest.mark.parametrize("path", ["/v1/models", "/healthz"])
def test_several_host_headers_are_refused(hosts, path):
    with client(allowed_hosts=hosts) as each:
        response = each.get(path, headers=[("host", "good.example"), ("host", "good.example")])
    assert response.status_code == 400 and "several Host headers" in response.json()["error"]


def test_pages_of_allowed_origins_may_read_answers_and_others_not():
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization, content-type"}
    with client(token=TOKEN, allowed_hosts=["localhost"], allowed_origins=["https://a.example"]) as each:
        for origin, code in (("https://a.example", 200), ("https://b.example", 400)):
            preflight = each.options("/v1/models/m:predict", headers={"origin": origin, **asked})
            response = each.get("/v1/models", headers={"origin": origin})
            assert (preflight.status_code, response.status_code) == (code, 401)
            expected = "https://a.example" if code == 200 else None
            assert response.headers.get("access-control-allow-origin") == expected, "errors can be read, too"
        assert (
            each.get("/v1/models", headers={"origin": "https://a.example", "host": "evil.example"}).status_code == 400
        )
    with client() as each:
        assert each.options("/v1/models/m:predict", headers={"origin": "https://a.example", **asked}).status_code == 405


def test_origins_are_checked():
    assert serve.check_origins("https://a.example/, http://localhost:3000") == [
        "https://a.example",
        "http://localhost:3000",
    ]
    assert serve.check_origins("") == [] and serve.check_origins("*") == ["*"]
    for wrong in ("a.example", "https://a.example/path"):
        with pytest.raises(UserError, match="expected a scheme and a host"):
            serve.check_origins(wrong)


def test_path_with_a_slash_more_is_unknown():
    with client() as each:
        assert each.post("/v1/models/m:predict/", json={}, follow_redirects=False).status_code == 404


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/m", "/metrics", "/openapi.json", "/no/such/path"])
@pytest.mark.parametrize(
    "header", [None, "", TOKEN, "Bearer x", f"Bearer {TOKEN}x", f"Basic {TOKEN}", f"Bearer{TOKEN}"]
)
def test_requests_need_the_token(path, header):
    with client(token=TOKEN) as each:
        response = each.get(path, headers={} if header is None else {"authorization": header})
    assert response.status_code == 401 and response.headers["www-authenticate"] == "Bearer"
    assert TOKEN not in response.text


def test_token_is_taken_and_not_needed_for_health_and_the_page():
    with client(token=TOKEN) as each:
        body = {"instances": ["a"]}
        response = each.post("/v1/models/m:predict", json=body, headers={"authorization": f"Bearer {TOKEN}"})
        assert response.json() == {"predictions": ["a"]}
        assert each.post("/v1/models/m:predict", json=body).status_code == 401
        assert [each.get(path).status_code for path in ("/healthz", "/readyz", "/", "/page.js")] == [200] * 4


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")


def test_every_route_and_method_needs_the_token_but_reading_the_page_and_health():
    gate = Server([types.SimpleNamespace(name="m", version="1", signatures={"serving_default": Echo()})], token=TOKEN)
    gate = gate.app()
    paths = {re.sub(r"{version}", "1", route.path.replace("{name}", "m")) for route in gate.app.routes}
    assert {"/", "/embed", "/rerank", "/v1/models/m:predict", "/metrics"} <= paths, "the routes of the application"
    files = {f"/{name}" for name in (*HTML, *PAGE)}
    with TestClient(gate, base_url="http://localhost:8501") as each:
        for path, method in itertools.product(sorted(paths), METHODS):
            is_open = path in files | {"/healthz", "/readyz"} and method in ("GET", "HEAD")
            answered = each.request(method, path, headers={"authorization": "Bearer other"}).status_code
            assert (answered != 401) == is_open, (method, path, answered)
            assert not is_open or answered == 200, (method, path, answered)
        assert each.post("/", json={"inputs": "a"}).status_code == 401


def test_scheme_of_the_token_has_any_case_and_there_is_one_header():
    with client(token=TOKEN) as each:
        for scheme in ("bearer", "BEARER", "Bearer "):
            assert each.get("/v1/models/m", headers={"authorization": f"{scheme} {TOKEN}"}).status_code == 200
        for first, second in itertools.permutations([f"Bearer {TOKEN}", "Bearer x"]):
            response = each.get("/metrics", headers=[("authorization", first), ("authorization", second)])
            assert response.status_code == 400 and "several Authorization headers" in response.json()["error"]


@pytest.mark.parametrize(
    ("address", "allowed", "expected"),
    [
        ("127.0.0.1", ["localhost", "127.0.0.1"], "127.0.0.1:1"),
        ("0.0.0.0", ["*"], "127.0.0.1:1"),
        ("::", ["*"], "[::1]:1"),
        ("192.0.2.1", ["*"], "192.0.2.1:1"),
        ("0.0.0.0", ["models.example.org"], "models.example.org:1"),
        ("0.0.0.0", ["[::1]"], "[::1]:1"),
    ],
)
def test_address_to_try_is_one_that_can_be_opened(address, allowed, expected):
    listener = types.SimpleNamespace(getsockname=lambda: (address, 1))
    assert serve.reachable(listener, allowed) == expected


def test_token_comes_from_a_file_or_the_environment(tmp_path):
    (tmp_path / "token").write_text(f"{TOKEN}\nsecond line\n")
    (tmp_path / "empty").write_text("\n")
    assert access_token.read(str(tmp_path / "token"), "other") == TOKEN
    assert access_token.read(None, TOKEN) == TOKEN and access_token.read(None, None) == ""
    for path, variable in ((str(tmp_path / "empty"), TOKEN), (str(tmp_path / "no"), None), (None, ""), (None, "ä b")):
        with pytest.raises(UserError, match=r"contains no token|cannot be read"):
            access_token.read(path, variable)


def test_log_has_a_line_per_request(capsys):
    for form in ("text", "json"):
        with client(log_format=form, token=TOKEN) as each:
            each.get("/healthz")
            each.post("/v1/models/m:predict%0A%22", json={}, headers={"user-agent": "x\ty"})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    pattern = r'testclient - - \[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d \+0000\] "GET /healthz HTTP/1.1" 200 18 \d+\.\d{4}'
    assert re.fullmatch(pattern, lines[0]) and '"POST /v1/models/m:predict%0A%22 HTTP/1.1" 401 ' in lines[1]
    first, second = map(json.loads, lines[2:])
    assert set(first) == {"time", "client", "method", "path", "status", "bytes", "seconds"}
    assert (first["method"], first["path"], first["status"], first["bytes"]) == ("GET", "/healthz", 200, 18)
    assert second["status"] == 401 and datetime.datetime.fromisoformat(second["time"]).tzinfo


@pytest.mark.skipif(not shutil.which("openssl"), reason="makes a certificate with openssl")
def test_certificate_is_loaded_before_the_model(tmp_path):
    certificate, key, other = (str(tmp_path / name) for name in ("cert.pem", "key.pem", "other.pem"))
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost -days 1".split()
    for cert, private in ((certificate, key), (other, other + ".key")):
        subprocess.run([*command, "-out", cert, "-keyout", private], check=True, capture_output=True)
    assert serve.check_tls(certificate, key).cert_store_stats() == {"x509": 0, "crl": 0, "x509_ca": 0}
    assert serve.check_tls(None, None) is None
    for wrong in ((certificate, None), (certificate, other + ".key"), ("no", "no"), (None, key)):
        with pytest.raises(UserError, match="are not a certificate and its private key|needs --ssl_certfile"):
            serve.check_tls(*wrong)
