"""Texts as databases can hold them: what is no Unicode text becomes bytes, and comes back."""

from __future__ import annotations


def key_of(text: str) -> str | bytes:
    """Return a text as a database can hold it: lone surrogates, which are no Unicode text, make it bytes."""
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
