"""An exception of a handler's own making says what it can, and hurts nobody who asks it."""

from __future__ import annotations

from afl.core.exception_text import MAX_EXCEPTION_CHARS, exception_class, exception_text


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
