"""The web form in which a person answers: one page for each request, without JavaScript, on this machine only."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Final
from urllib.parse import parse_qs, quote, unquote, urlsplit

from afl_stream.errors import StreamError
from afl_stream.transport import TransportError

#: Raises the event of an answer: the request's id, the answer, and an id that makes a second click count once.
Answer = Callable[[str, Mapping[str, object], str], None]

HOST: Final = "127.0.0.1"
#: Ids as runs may have them.
_REQUEST: Final = re.compile(r"[A-Za-z0-9._~-]{1,128}\Z")
_MOST_BYTES: Final = 10_000
_MOST_CHARS: Final = 500
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'"
_STYLE: Final = """
body { font: 1.1rem/1.5 system-ui, sans-serif; max-width: 34rem; margin: 3rem auto; padding: 0 1rem; color: #1b1f23; }
h1, p { overflow-wrap: anywhere; }
label { display: block; margin-top: 1rem; }
input[type=text], textarea { box-sizing: border-box; width: 100%; padding: .5rem; font: inherit; }
button { margin: 1.5rem 1rem 0 0; padding: .6rem 1.4rem; font: inherit; border: 0; border-radius: .3rem; color: #fff; }
button[value=yes] { background: #1a6b35; }
button[value=no] { background: #a3261c; }
button.plain { background: #24507a; }
code { background: #eef1f4; padding: .1rem .3rem; }
"""


def page(title: str, body: str) -> str:
    """Return a page; `title` is text, `body` is HTML."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>\n'
        f"<body><h1>{escape(title)}</h1>\n{body}\n</body></html>\n"
    )


def front_page() -> str:
    """Return the page that asks for the id of a request."""
    return page(
        "Approvals",
        '<form action="/requests" method="get"><label>Request <input type="text" name="id" required '
        'maxlength="128" autofocus></label><button class="plain">Open</button></form>',
    )


def request_page(request: str, token: str) -> str:
    """Return the page of a request. `token` is the id that its answer will have."""
    return page(
        "Do you approve?",
        f"<p>Request <code>{escape(request)}</code></p>\n"
        f'<form action="/requests/{quote(request)}" method="post">'
        f'<input type="hidden" name="token" value="{escape(token)}">'
        # The Enter key presses the first button, and neither answer is to be given by that.
        "<button disabled hidden></button>"
        f'<label>Your name <input type="text" name="by" required maxlength="{_MOST_CHARS}"></label>'
        f'<label>Comment <textarea name="comment" rows="3" maxlength="{_MOST_CHARS}"></textarea></label>'
        '<button name="approved" value="yes">Approve</button>'
        '<button name="approved" value="no">Decline</button></form>',
    )


def thanks_page(request: str, answer: Mapping[str, object]) -> str:
    """Return the page after an answer."""
    verdict = "approved" if answer["approved"] else "declined"
    return page(
        f"Thank you, {answer['by']}",
        f"<p>You have {verdict} <code>{escape(request)}</code>. The first answer counts.</p>",
    )


class PortRefused(StreamError):
    """The form cannot be served at a port."""


class FormServer(HTTPServer):
    """Serves the form. `answer` is called on the thread that serves; one request is handled at a time."""

    def __init__(self, answer: Answer, port: int = 0) -> None:
        """Port 0: a free one. Raises PortRefused."""
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            raise PortRefused(f"port {port} of this machine: {error}; choose another by --port") from error
        self.answer = answer

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_port}"

    def names(self) -> frozenset[str]:
        """Return the values of the header Host with which browsers come here by intent."""
        return frozenset({f"{HOST}:{self.server_port}", f"localhost:{self.server_port}"})


class _Handler(BaseHTTPRequestHandler):
    server: FormServer
    #: A visitor who says nothing holds up the others.
    timeout = 10

    def do_GET(self) -> None:
        if not self._is_for_us():
            return
        asked = urlsplit(self.path)
        if asked.path == "/":
            self._send(HTTPStatus.OK, front_page())
        elif asked.path == "/requests":
            found = parse_qs(asked.query).get("id", [""])[0].strip()
            self._redirect(found)
        elif (request := self._request_of(asked.path)) is not None:
            self._send(HTTPStatus.OK, request_page(request, secrets.token_hex(16)))
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "There is no such page.")

    def do_POST(self) -> None:
        if not self._is_for_us():
            return
        request, length = self._request_of(self.path), self.headers.get("Content-Length", "")
        if request is None:
            self._refuse(HTTPStatus.NOT_FOUND, "There is no such page.")
        elif not length.isascii() or not length.isdigit() or int(length) > _MOST_BYTES:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "That is too long.")
        else:
            self._take(request, self.rfile.read(int(length)))

    def _take(self, request: str, body: bytes) -> None:
        fields = {name: values[0] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
        by, token = fields.get("by", "").strip(), fields.get("token", "")
        if fields.get("approved") not in ("yes", "no") or not by or not re.fullmatch("[0-9a-f]{32}", token):
            self._refuse(HTTPStatus.BAD_REQUEST, "Please give your name, and approve or decline.")
            return
        answer = {
            "approved": fields["approved"] == "yes",
            "by": by[:_MOST_CHARS],
            "comment": fields.get("comment", "").strip()[:_MOST_CHARS],
        }
        try:
            self.server.answer(request, answer, token)
        except (StreamError, TransportError) as error:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, f"Your answer could not be sent: {error}")
            return
        self._send(HTTPStatus.OK, thanks_page(request, answer))

    def _is_for_us(self) -> bool:
        """Refuse what another site's page has a browser send: it comes under another name, or says where it is from."""
        origin = self.headers.get("Origin")
        is_ours = self.headers.get("Host", "") in self.server.names()
        is_ours = is_ours and (origin is None or urlsplit(origin).netloc in self.server.names())
        if not is_ours:
            self._refuse(HTTPStatus.FORBIDDEN, "This form is for this machine.")
        return is_ours

    def _request_of(self, path: str) -> str | None:
        start, _, request = path.rpartition("/")
        request = unquote(request)
        return request if start == "/requests" and _REQUEST.match(request) else None

    def _redirect(self, request: str) -> None:
        if not _REQUEST.match(request):
            self._refuse(HTTPStatus.BAD_REQUEST, "That is not the id of a request.")
            return
        self.send_response(HTTPStatus.SEE_OTHER)
        self.send_header("Location", f"/requests/{quote(request)}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        self.close_connection = True
        self._send(status, page("That did not work", f"<p>{escape(why)}</p>"))

    def _send(self, status: HTTPStatus, text: str) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # the name of the base class
        """Say nothing: a terminal shows what the agent tells people."""
