"""Sessions of browsers: who has signed in, the token that forms carry, and the notes for the next page."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from afl_stream.web.access import Principal

COOKIE: Final = "afl_session"
#: How long somebody stays signed in: seconds.
LIFETIME_S: Final = 12 * 3_600
#: Sessions that are kept; the oldest go.
_MOST: Final = 10_000
_MOST_NOTES: Final = 5


@dataclass(slots=True)
class _Session:
    until_s: float
    principal: Principal | None = None
    notes: list[tuple[str, str]] = field(default_factory=list)


class Sessions:
    """The sessions of one process; a restart ends them. Any thread may use them."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._known: OrderedDict[str, _Session] = OrderedDict()
        self._lock = threading.Lock()

    @staticmethod
    def new_id() -> str:
        """Draw an id for a browser that has none."""
        return secrets.token_urlsafe(32)

    def csrf_token(self, session_id: str) -> str:
        """Return what a form must carry to act in a session: no other site can read it."""
        return hmac.new(self._key, session_id.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()

    def takes_csrf(self, session_id: str, token: str) -> bool:
        """Return whether a form was made for this session."""
        given = token.encode("utf-8", "surrogatepass")
        return bool(session_id) and hmac.compare_digest(self.csrf_token(session_id).encode(), given)

    def sign_in(self, principal: Principal) -> str:
        """Begin a session of somebody, and return its id."""
        session_id = self.new_id()
        with self._lock:
            self._session(session_id).principal = principal
        return session_id

    def sign_out(self, session_id: str) -> None:
        """End a session."""
        with self._lock:
            self._known.pop(session_id, None)

    def principal_of(self, session_id: str) -> Principal | None:
        """Return who has signed in in a session that is not over."""
        with self._lock:
            session = self._known.get(session_id)
            if session is None or session.until_s < time.monotonic():
                self._known.pop(session_id, None)
                return None
            return session.principal

    def note(self, session_id: str, kind: str, text: str) -> None:
        """Keep a note for the next page of a session; `kind` is `done` or `failed`."""
        with self._lock:
            notes = self._session(session_id).notes
            notes.append((kind, text))
            del notes[:-_MOST_NOTES]

    def take_notes(self, session_id: str) -> list[tuple[str, str]]:
        """Return the notes of a session, which are shown once."""
        with self._lock:
            session = self._known.get(session_id)
            if session is None:
                return []
            notes, session.notes = session.notes, []
            return notes

    def _session(self, session_id: str) -> _Session:
        session = self._known.get(session_id)
        if session is None:
            session = self._known[session_id] = _Session(time.monotonic() + LIFETIME_S)
            while len(self._known) > _MOST:
                self._known.popitem(last=False)
        return session
