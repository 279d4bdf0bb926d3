"""Texts in a form that databases can hold: text that is not valid Unicode becomes bytes, and is restored."""

from __future__ import annotations


def key_of(text: str) -> str | bytes:
    """Return a text as a database can hold it: with lone surrogates, which are not valid Unicode, it becomes bytes."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="surrogatepass")
    return text


def text_of(key: str | bytes) -> str:
    """Return the text that `key_of` was given."""
    return key if isinstance(key, str) else key.decode(errors="surrogatepass")
