"""Class and text of an exception that somebody else's code raised. The one place that asks such an object for them."""

from __future__ import annotations

from typing import Final

#: Characters kept of an exception's text, and of its class's name.
MAX_EXCEPTION_CHARS: Final = 10_000
MAX_CLASS_CHARS: Final = 200


def exception_class(error: BaseException) -> str:
    """Return the name of the exception's class, as a text that can be encoded and has a bound."""
    try:
        # Read from the type itself: `__class__` and a metaclass's properties are the object's own to fake.
        name = type.__dict__["__name__"].__get__(type(error))
        return _bounded(str(name), MAX_CLASS_CHARS)
    except Exception:  # noqa: BLE001 - a name may be anything that a metaclass made of it
        return "Exception"


def exception_text(error: BaseException) -> str:
    """Return what the exception says, as a text that can be encoded and has a bound; never raises an Exception."""
    try:
        return _bounded(str(error), MAX_EXCEPTION_CHARS)
    except Exception as failure:  # noqa: BLE001 - `__str__` is a handler's own code
        return f"({exception_class(error)} whose text cannot be read: its __str__ raised {exception_class(failure)})"


def _bounded(text: str, max_chars: int) -> str:
    # str() of a subclass may keep the subclass, with methods of its own.
    plain = str.__str__(text)
    kept = plain if len(plain) <= max_chars else f"{plain[:max_chars]}... ({len(plain)} characters)"
    return kept.encode("utf-8", "backslashreplace").decode()
