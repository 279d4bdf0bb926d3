"""An exception of a handler's own class shows as much as possible, and harms no reader."""

from __future__ import annotations

import pytest

from afl.core.limits import MAX_EXCEPTION_CHARS
from afl.core.text.exception_text import (
    MAX_TRACEBACK_CHARS,
    exception_class,
    exception_line,
    exception_text,
    exception_traceback,
)


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not now")


class Wordless(Exception):
    def __str__(self) -> str:
        return 7  # type: ignore[return-value]  # what is tried here


class Nameless(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]  # what is tried here
        raise RuntimeError("no name")


class OfNameless(Exception, metaclass=Nameless):
    pass


def test_an_ordinary_exception_says_what_it_says() -> None:
    assert (exception_class(ValueError("no stock")), exception_text(ValueError("no stock"))) == (
        "ValueError",
        "no stock",
    )


def test_a_text_that_cannot_be_read_is_told_as_such() -> None:
    assert exception_text(Silent()) == "(Silent whose text cannot be read: its __str__ raised RuntimeError)"
    assert exception_text(Wordless()) == "(Wordless whose text cannot be read: its __str__ raised TypeError)"


def test_a_class_that_hides_its_name_has_it_all_the_same() -> None:
    assert exception_class(OfNameless()) == "OfNameless"


def test_texts_have_a_bound_and_can_be_encoded() -> None:
    text = exception_text(ValueError("\ud800" + "x" * (MAX_EXCEPTION_CHARS * 2)))

    assert len(text) < MAX_EXCEPTION_CHARS + 100
    assert text.encode()


class Noted(Exception):
    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]
        raise SystemExit(9)


class Leaving(Exception):
    def __str__(self) -> str:
        raise SystemExit(9)


def _raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001 - what it is does not matter here
        return caught


def test_a_text_that_ends_the_process_is_told_as_such() -> None:
    assert exception_line(Leaving()) == "Leaving: (Leaving whose text cannot be read: its __str__ raised SystemExit)"


def test_a_traceback_says_where_whatever_the_exception_does() -> None:
    for error in (ValueError("x"), Leaving(), Noted("x"), ExceptionGroup("both", [Leaving(), Noted("y")])):
        text = exception_traceback(_raised(error))
        assert "in _raised" in text
        assert type(error).__name__ in text


def test_a_traceback_has_a_bound_and_both_of_its_ends() -> None:
    text = exception_traceback(_raised(ValueError("x" * 1_000_000 + "the end")))

    assert len(text) < MAX_TRACEBACK_CHARS + 100
    assert text.startswith("Traceback")
    assert text.endswith("the end")


@pytest.mark.parametrize("padding", ["", "x" * (MAX_EXCEPTION_CHARS - 30) + " "])
def test_the_person_of_a_url_is_told_by_no_text_and_no_traceback(padding: str) -> None:
    error = _raised(ValueError(f"{padding}cannot open postgres://kim:c4nary/pass?word@db/shop"))

    assert "c4nary" not in exception_text(error)
    assert "c4nary" not in exception_traceback(error)
