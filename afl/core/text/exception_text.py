"""Class, text and traceback of an exception from foreign code. No other module reads them."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Final

from afl.core.limits import MAX_CLASS_CHARS, MAX_EXCEPTION_CHARS
from afl.core.text.masking import masked_text
from afl.core.text.printable import bounded

#: Characters kept of a traceback: the ends say most, where it began and what was raised.
MAX_TRACEBACK_CHARS: Final = 20_000


def class_name(kind: type) -> str:
    """Return the name of a class, as a text that can be encoded and has a bound; never raises."""
    try:
        # Read from the type itself: an object can fake `__class__`, and a metaclass can fake properties.
        return _bounded(str(type.__dict__["__name__"].__get__(kind)), MAX_CLASS_CHARS)
    except BaseException:  # noqa: BLE001 - a name may be anything that a metaclass made of it
        return "Exception" if issubclass(kind, BaseException) else "object"


def exception_class(error: BaseException) -> str:
    """Return the name of the exception's class, as a text that can be encoded and has a bound; never raises."""
    return class_name(type(error))


def exception_text(error: BaseException, hide: Callable[[str], str] | None = None) -> str:
    """Return what the exception says, as a text that can be encoded and has a bound; never raises.

    `hide` returns a text without what nobody may see. It is called before the text is cut.
    """
    try:
        text = str(error)
        # str() of a subclass may return the subclass, which can override methods.
        return _bounded(text if hide is None else hide(str.__str__(text)), MAX_EXCEPTION_CHARS)
    except BaseException as failure:  # noqa: BLE001 - `__str__` is a handler's own code, and may raise SystemExit
        return f"({exception_class(error)} whose text cannot be read: its __str__ raised {exception_class(failure)})"


def exception_line(error: BaseException) -> str:
    """Return the exception as `Class: text`."""
    return f"{exception_class(error)}: {exception_text(error)}"


def exception_traceback(error: BaseException, hide: Callable[[str], str] | None = None) -> str:
    """Return the traceback of the exception, as a text that can be encoded and has a bound; never raises.

    `hide` as in `exception_text`.
    """
    try:
        lines = "".join(traceback.format_exception(error)).rstrip()
    except BaseException:  # noqa: BLE001 - notes, causes and groups are the exception's own code
        lines = f"{_places_of(error)}{exception_class(error)}: {exception_text(error, hide)}"
    if hide is not None:
        lines = hide(lines)
    half = MAX_TRACEBACK_CHARS // 2
    if len(lines) <= MAX_TRACEBACK_CHARS:
        return masked_text(lines).encode("utf-8", "backslashreplace").decode()
    # Masking looks at more than is kept: otherwise half a password could remain.
    head, tail = masked_text(lines[: 4 * half])[:half], masked_text(lines[-4 * half :])[-half:]
    return f"{head}\n... ({len(lines)} characters) ...\n{tail}".encode("utf-8", "backslashreplace").decode()


def _places_of(error: BaseException) -> str:
    """Return the places that an exception came through; its class cannot fake them."""
    try:
        places = BaseException.__dict__["__traceback__"].__get__(error)
        return f"Traceback (most recent call last):\n{''.join(traceback.format_tb(places))}"
    except BaseException:  # noqa: BLE001 - the source of a place may be unreadable
        return ""


def _bounded(text: str, max_chars: int) -> str:
    """Return the text bounded and with users masked in urls: a driver's error names the url that it could not open."""
    # str() of a subclass may return the subclass, which can override methods.
    plain = str.__str__(text)
    # Masked before it is cut: otherwise half a password could remain.
    looked_at = 4 * max_chars
    return bounded(masked_text(plain[:looked_at]) + plain[looked_at:], max_chars)
