"""The form of the approval: what it shows is text, what it sends on is an answer, and it is for this machine only."""

from __future__ import annotations

import http.client
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

import pytest

from afl_stream.transport import BrokerUnavailable
from examples.approval.form import FormServer, request_page, thanks_page

TOKEN = "0123456789abcdef0123456789abcdef"
YES = {"token": TOKEN, "by": "ada", "comment": "fine", "approved": "yes"}


@dataclass
class Answers:
    """Takes answers in the place of a client."""

    taken: list[tuple[str, Mapping[str, object], str]] = field(default_factory=list)
    error: Exception | None = None

    def __call__(self, request: str, data: Mapping[str, object], event_id: str) -> None:
        if self.error is not None:
            raise self.error
        self.taken.append((request, data, event_id))


@dataclass(frozen=True)
class Page:
    """What came back."""

    status: int
    text: str
    headers: Mapping[str, str]


class Browser:
    """Visits a form that another thread serves."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self._form = FormServer(answers)
        self.port = self._form.server_port
        self._thread = threading.Thread(target=self._form.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def visit(self, path: str, fields: Mapping[str, str] | None = None, **headers: str) -> Page:
        """Get a page, or post fields to it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            if fields is None:
                connection.request("GET", path, headers=headers)
            else:
                form = {"Content-Type": "application/x-www-form-urlencoded", **headers}
                connection.request("POST", path, urlencode(fields), form)
            answer = connection.getresponse()
            return Page(answer.status, answer.read().decode(), dict(answer.getheaders()))
        finally:
            connection.close()

    def close(self) -> None:
        self._form.shutdown()
        self._thread.join()
        self._form.server_close()


@pytest.fixture
def browser() -> Iterator[Browser]:
    made = Browser(Answers())
    yield made
    made.close()


def test_a_request_is_opened_by_its_id_and_answered_with_its_form(browser: Browser) -> None:
    assert browser.visit("/").status == 200
    opened = browser.visit("/requests?id=desk-1")
    assert (opened.status, opened.headers["Location"]) == (303, "/requests/desk-1")
    shown = browser.visit("/requests/desk-1")
    token = re.search(r'name="token" value="([0-9a-f]{32})"', shown.text)
    assert token is not None

    thanks = browser.visit("/requests/desk-1", {**YES, "token": token[1]})

    assert thanks.status == 200
    assert "You have approved" in thanks.text
    answer = {"approved": True, "by": "ada", "comment": "fine"}
    assert browser.answers.taken == [("desk-1", answer, token[1])]


def test_a_no_is_sent_as_a_no(browser: Browser) -> None:
    assert "declined" in browser.visit("/requests/desk-1", {**YES, "approved": "no"}).text

    ((_, answer, _),) = browser.answers.taken
    assert answer["approved"] is False


@pytest.mark.parametrize(
    "fields",
    [
        {**YES, "by": " "},
        {**YES, "approved": "perhaps"},
        {**YES, "token": "x"},
        {name: value for name, value in YES.items() if name != "approved"},
    ],
)
def test_what_is_not_an_answer_is_refused(browser: Browser, fields: Mapping[str, str]) -> None:
    assert browser.visit("/requests/desk-1", fields).status == 400
    assert browser.answers.taken == []


@pytest.mark.parametrize("path", ["/elsewhere", "/requests/", "/requests/a%2Fb", "/requests/%3Cb%3E", "/requests/a/b"])
def test_there_are_no_other_pages(browser: Browser, path: str) -> None:
    assert browser.visit(path).status == 404
    assert browser.visit(path, YES).status == 404


def test_an_id_that_no_run_can_have_is_not_opened(browser: Browser) -> None:
    refused = browser.visit("/requests?" + urlencode({"id": "<script>x</script>"}))

    assert refused.status == 400
    assert "<script>" not in refused.text


def test_a_long_answer_is_refused_before_it_is_read(browser: Browser) -> None:
    assert browser.visit("/requests/desk-1", YES, **{"Content-Length": "10001"}).status == 413
    assert browser.visit("/requests/desk-1", YES, **{"Content-Length": "-1"}).status == 413


@pytest.mark.parametrize(
    "headers", [{"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Origin": "null"}], ids=str
)
def test_pages_of_other_sites_cannot_answer(browser: Browser, headers: Mapping[str, str]) -> None:
    assert browser.visit("/requests/desk-1", YES, **headers).status == 403
    assert browser.answers.taken == []


def test_the_page_itself_may_answer(browser: Browser) -> None:
    assert browser.visit("/requests/desk-1", YES, Origin=f"http://127.0.0.1:{browser.port}").status == 200


def test_an_answer_that_cannot_be_sent_says_so(browser: Browser) -> None:
    browser.answers.error = BrokerUnavailable("the broker is <gone>")

    failed = browser.visit("/requests/desk-1", YES)

    assert failed.status == 503
    assert "the broker is &lt;gone&gt;" in failed.text


def test_a_long_id_or_name_is_wrapped_and_not_wider_than_the_window() -> None:
    for text in (request_page("r" * 128, TOKEN), thanks_page("r" * 128, {"approved": True, "by": "n" * 500})):
        (rule,) = re.findall(r"^(.*) \{ overflow-wrap: anywhere; \}$", text, re.MULTILINE)
        assert {"h1", "p"} <= set(rule.split(", "))


def test_texts_of_people_are_shown_as_text() -> None:
    shown = thanks_page("desk-1", {"approved": True, "by": "<img src=x onerror=alert(1)>"})

    assert "<img" not in shown
    assert "&lt;img" in shown
    assert "<b>" not in request_page("desk-1", '"><b>')


def test_pages_run_no_script_and_are_in_no_frame(browser: Browser) -> None:
    shown = browser.visit("/requests/desk-1")

    assert "<script" not in shown.text
    assert "default-src 'none'" in shown.headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in shown.headers["Content-Security-Policy"]
