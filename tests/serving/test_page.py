"""The page of the server in a headless Chromium: every tab, by address and by keyboard, on a phone, and attention."""

import contextlib
import copy
import json
import shlex
import threading
import time
import urllib.parse

import httpx
import pytest
import uvicorn
from browser import COMMAND, CONTROL, Browser

from bert_tf.cli.commands import serve
from bert_tf.serving import connection, zero_shot_signature
from bert_tf.serving.app import Server

pytestmark = pytest.mark.skipif(not COMMAND, reason="the page is tried in Chromium, which is missing")
ANSWER = r"document.querySelector('#answer').innerText.replace(/\n+/g, '\n')"
ANSWERED = f"document.querySelector('#answer .small') && {ANSWER}"


@contextlib.contextmanager
def serving(server):
    """Where a server listens."""
    listening = serve.listen("127.0.0.1", 0)
    running = uvicorn.Server(connection.settings(server))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not running.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    running.should_exit = True
    thread.join(30)


@pytest.fixture(scope="module")
def address(served):
    """Where a server of all kinds of exports listens, one of them of entailment."""
    nli = copy.copy(served["pair"])
    nli.name, nli.labels = "nli", ["entailment", "contradiction"]
    nli.signatures = nli.signatures | zero_shot_signature.added(nli)
    with serving(Server([*(model for name, model in served.items() if name != "other"), nli])) as where:
        yield where


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture
def browser(chromium):
    """The browser; in the end nothing may have failed in it, nor been refused by the page's own policy."""
    yield chromium
    assert chromium.complaints == []


def shared(address, **fields):
    return f"{address}#{urllib.parse.urlencode(fields)}"


@pytest.mark.parametrize(
    ("model", "fields", "answer"),
    [
        ("single", {"text_a": "a text that is long"}, "long\nlong\n83%\nshort\n17%"),
        ("pair", {"text_a": "xyz", "text_b": "é+&=#"}, "short\nshort\n64%\nlong\n36%"),
        (
            "choice",
            {"text_a": "x", "choices": "ab\nthe other choice, longer than a line"},
            "Most likely\nthe other choice",
        ),
        ("number", {"text_a": "abcdef"}, "2.000"),
        ("mask", {"text": "a [MASK] and a [MASK]"}, "[MASK] 1\na\n75%\nb\n25%\n[MASK] 2\na\n75%"),
        (
            "question",
            {"question": "who?", "context": "<b>é</b>🦊 ran\nhome"},
            "<b>é</b>🦊\n<b>é</b>🦊 ran\nhome\n<b>é</b>🦊\n75%",
        ),
        ("entities", {"text": "🦊s ran"}, "🦊sWORD ran"),
        ("nli:zero_shot", {"text": "xyz", "labels": "a\nbc"}, "bc\nbc\n73%\na\n27%"),
        ("vectors", {"text": "abc\nabcd\n" + "x" * 99}, "abcd\n1.00\n" + "x" * 99 + "\n0.38"),
    ],
)
def test_address_holds_the_input_and_page_fits_a_phone(browser, address, model, fields, answer):
    browser.go(shared(address, model=model, **fields), width=390)
    assert browser.wait(ANSWERED).startswith(answer)
    assert browser.value("document.documentElement.scrollWidth") == 390
    shown = [browser.value(f"document.getElementById('{name}').value") for name in fields]
    assert shown == list(fields.values())
    assert browser.value("document.querySelectorAll('[role=tab]').length") == 10
    panels = "[...document.querySelectorAll('summary')].map(each => each.innerText)"
    assert browser.value(panels) == (["Attribution", "Attention"] if model == "number" else []), "as its signatures"
    widths = "new Set([...document.querySelectorAll('.bar')].map(bar => bar.offsetWidth)).size"
    assert browser.value(widths) <= 1, "bars have one scale"
    if model in ("question", "entities"):
        assert browser.value("document.querySelector('.text mark').firstChild.data") in ("<b>é</b>🦊", "🦊s")


def test_page_works_with_the_keyboard_alone(browser, address):
    browser.go(shared(address, model="single"))
    browser.wait("document.getElementById('text_a') !== null")
    for key in ("Tab", "Tab"):  # the chosen tab, then the text: other tabs are reached with arrows
        browser.press(key)
    browser.write("some words")
    browser.press("Enter", CONTROL)
    assert browser.wait(ANSWERED).startswith("long")
    handed_on = browser.value("location.href")
    assert handed_on == shared(address, model="single", text_a="some words")
    browser.value("document.querySelector('[role=tab][aria-selected=true]').focus()")
    browser.press("ArrowRight")
    assert browser.value("document.activeElement.id") == "tab-pair"
    assert browser.value("document.getElementById('tab-pair').getAttribute('aria-selected')") == "true"
    browser.press("Tab")
    assert browser.value("document.activeElement.id") == "text_a"
    browser.go(handed_on)
    assert browser.wait(ANSWERED).startswith("long")


def test_attention_view_shows_layers_and_heads_and_can_be_shared(browser, address):
    browser.go(shared(address, model="number", text_a="abcdef"))
    browser.wait(ANSWERED)
    browser.value("document.querySelector('#attention summary').focus()")
    browser.press("Enter")
    browser.wait("document.querySelectorAll('.maps canvas').length === 6")
    title = "document.querySelector('details h3').innerText + document.querySelector('details .best').innerText"
    assert browser.value(title) == "Layer 1, head 1: “b” attends tob\n100%"
    browser.press("Tab")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "Tab", "ArrowRight"):
        browser.press(key)
    assert browser.value(title) == "Layer 2, head 3: “c” attends tob\n100%"  # 3 + 2 letters on
    share = "document.querySelectorAll('.tokens button')[1].style.getPropertyValue('--share')"
    assert browser.value(share) == "1.000"
    dots = "[...document.querySelectorAll('.maps canvas')[5].getContext('2d').getImageData(0, 0, 6, 1).data]"
    assert [alpha > 0 for alpha in browser.value(dots)[3::4]] == [False] * 5 + [True]  # of "a"
    handed_on = browser.value("location.href")
    assert handed_on == shared(address, model="number", text_a="abcdef", look="2.3.3")
    browser.go(handed_on, width=390)
    browser.wait("document.querySelector('.tokens') !== null")
    assert browser.value(title) == "Layer 2, head 3: “c” attends tob\n100%"
    assert browser.value("document.documentElement.scrollWidth") == 390


def test_attribution_view_shows_signs_and_their_sum(browser, address):
    browser.go(shared(address, model="number", text_a="abcd"), width=390)
    browser.wait(ANSWERED)
    browser.value("document.querySelector('#attribution summary').focus()")
    browser.press("Enter")
    inside = "document.querySelector('#attribution .tokens') && document.querySelector('#attribution').innerText"
    text = browser.wait(inside)
    assert "Sum −2.00; the logit is −1.50, with [MASK] for every token 0.50: a difference of −2.00." in text
    rows = "[...document.querySelectorAll('#attribution .row')].map(each => each.innerText.replace(/\\s+/g, ' '))"
    assert browser.value(rows) == ["d −4.00", "c +3.00", "b −2.00", "a +1.00"]
    kinds = "[...document.querySelectorAll('#attribution .tokens span')].map(each => each.className)"
    assert browser.value(kinds) == ["for", "against"] * 2
    assert browser.value("document.documentElement.scrollWidth") == 390
    widths = "[...document.querySelectorAll('.balance i')].map(each => each.style.width)"
    assert browser.value(widths) == ["50%", "37.5%", "25%", "12.5%"]


def test_routes_are_shown_and_tried_from_their_description(browser, address):
    browser.go(f"{address}docs", width=390)
    routes = browser.wait(
        "(all => all.length && all)([...document.querySelectorAll('summary code')].map(x => x.innerText))"
    )
    assert {"POST /v1/models/pair:predict", "GET /metrics"} <= set(routes)
    box = f"document.querySelectorAll('details')[{routes.index('POST /v1/models/pair:predict')}]"
    browser.value(f"{box}.open = true")
    assert '{"instances": [{"text_a": string, "text_b": string}, ...]}' in browser.value(f"{box}.innerText")
    body = json.dumps({"instances": [{"text_a": "xyz", "text_b": "x"}]})
    browser.value(f"{box}.querySelector('textarea').value = {json.dumps(body)}")
    browser.value(f"{box}.querySelector('select').value = '1'")
    browser.value(f"{box}.querySelector('form').requestSubmit()")
    shown = browser.wait(f"{box}.querySelector('[role=status]').innerText")
    assert "Response 200" in shown, shown
    assert '"long": 0.66' in shown and "pair:predict?verbose=1'" in shown
    assert browser.value("document.documentElement.scrollWidth") == 390


def test_error_is_shown_in_words(browser, address):
    browser.go(shared(address, model="choice", text_a="x", choices="only one"))
    assert browser.wait(f"document.querySelector('#answer .error') && {ANSWER}").startswith("choices has the shape")


def test_late_response_to_an_earlier_request_is_ignored(browser, address):
    browser.go(shared(address, model="single"))
    browser.wait("document.getElementById('text_a') !== null")
    held = "new Promise(done => { window.late = () => now(...given).then(done); })"
    browser.value(f"{{ const now = fetch; window.fetch = (...given) => window.late ? now(...given) : {held}; }}")
    for text in ("a text that is long", "x"):
        browser.value(f"document.getElementById('text_a').value = '{text}'")
        browser.value("document.getElementById('form').requestSubmit()")
    assert browser.wait(ANSWERED).startswith("short")
    browser.value("window.late().then(() => setTimeout(() => { window.done = true; }, 100)), 0")
    browser.wait("window.done")
    assert browser.value(ANSWER).startswith("short")


def test_token_examples_and_command_for_a_shell(browser, served):
    model = copy.copy(served["choice"])
    examples = [{"text_a": f"it's {word}", "choices": ["ab", "abc" * n]} for n, word in enumerate(("one", "two"))]
    model.results = {"score": {"name": "macro_f1", "value": 0.5}, "date": "2026-11-24", "examples": examples}
    with serving(Server([model], token="s3cret", allowed_hosts=["127.0.0.1"])) as address:
        browser.go(address)
        for token, expected in (("wrong", "#about .error"), ("s3cret", "#text_a")):
            browser.wait("document.getElementById('token') !== null")
            browser.value(f"document.getElementById('token').value = '{token}'")
            browser.value("document.querySelector('#about form').requestSubmit()")
            browser.wait(f"document.querySelector('{expected}') !== null")
        assert browser.value("document.querySelector('.about').innerText") == "choice · macro F1 50.0% · 24 Nov 2026"
        assert browser.value("document.getElementById('text_a').value") == "it's one"
        browser.value("document.querySelectorAll('.examples button')[1].click()")
        assert browser.wait(ANSWERED).startswith("Most likely\nabc")
        browser.value("document.querySelector('#form > .second').click()")
        command = browser.wait("document.querySelector('#command pre')?.innerText")
        words = shlex.split(command)
        assert words[:4] == ["curl", "-H", "authorization: Bearer $BERT_TF_TOKEN", "--data-binary"]
        response = httpx.post(words[5], content=words[4], headers={"authorization": "Bearer s3cret"})
        assert json.loads(words[4]) == {"instances": examples[1:]} and "predictions" in response.json()
        browser.value("sessionStorage.clear()")
