"""The settings with which MongoDB's client is made, by stores of steps and of events alike. It loads no client."""

from __future__ import annotations

from typing import Any, Final

#: The database of a url that names none.
DEFAULT_DATABASE: Final = "afl"
#: How long an operation may stay without an answer.
_SOCKET_TIMEOUT_S: Final = 60.0


def client_settings(url: str, timeout_s: float) -> dict[str, Any]:
    """Return the client's settings, except those that the url itself sets."""
    own = {
        "appname": "afl-stream",
        "serverSelectionTimeoutMS": int(timeout_s * 1000),
        "connectTimeoutMS": int(min(timeout_s, 20.0) * 1000) or 1,
        "socketTimeoutMS": int(_SOCKET_TIMEOUT_S * 1000),
    }
    given = {option.partition("=")[0].lower() for option in url.partition("?")[2].split("&")}
    return {name: value for name, value in own.items() if name.lower() not in given}


def database_in_path(url: str) -> str:
    """Return the database that the path of a url names, else the default."""
    return url.partition("://")[2].partition("?")[0].partition("/")[2] or DEFAULT_DATABASE
