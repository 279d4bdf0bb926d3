"""Quoted text in a log line steers no terminal, begins no line of its own, and shows no secret."""

from __future__ import annotations

import logging
import sys

import pytest

from afl.core.text.exception_text import MAX_TRACEBACK_CHARS
from afl.core.text.log_lines import MAX_MESSAGE_CHARS, LogLineFormatter
from afl.core.text.masking import MASK, Secrets

HOSTILE = "a\x1b[2Jb\nERROR afl: c\r\x9bd\u202ee\u2028f\ud800"


def line(
    message: object, *arguments: object, secrets: Secrets | None = None, error: BaseException | None = None
) -> str:
    info = None if error is None else (type(error), error, error.__traceback__)
    record = logging.LogRecord("afl.x", logging.WARNING, "x.py", 1, message, arguments, info)
    return LogLineFormatter(secrets).format(record)


def raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as caught:  # noqa: BLE001 - any that is given
        return caught


def test_a_message_is_one_line_of_printable_text() -> None:
    for shown in (line("of %s", HOSTILE), line(HOSTILE), line("of %(x)s", {"x": HOSTILE})):
        assert shown.isprintable()
        assert "\\x1b[2Jb\\nERROR afl: c\\r\\x9bd\\u202ee\\u2028f\\ud800" in shown


def test_only_what_the_template_puts_on_further_lines_stands_below_and_is_indented() -> None:
    head, *below = line("facet %s failed, 100 %%\n%s", HOSTILE, f"Traceback:\n{HOSTILE}").split("\n")

    assert head.endswith("failed, 100 %")
    assert "\\nERROR" in head
    assert all(text.startswith("  ") and text.isprintable() for text in below)
    assert len(below) == 3


def test_a_traceback_stands_below_and_is_indented() -> None:
    head, *below = line("it failed", error=raised(ValueError(HOSTILE))).split("\n")

    assert head.endswith("it failed")
    assert all(text.startswith("  ") and text.isprintable() for text in below)
    assert any("ValueError: a\\x1b[2Jb" in text for text in below)


def test_lengths_are_bounded_and_told() -> None:
    message, traceback = line("%s", "x" * 1_000_000), line("%s\n%s", "failed", "y" * 1_000_000)

    assert len(message) < MAX_MESSAGE_CHARS + 200
    assert len(traceback) < MAX_TRACEBACK_CHARS + 200
    assert "(1000000 characters)" in traceback


def test_what_cannot_be_written_is_a_line_all_the_same() -> None:
    class Mute:
        def __str__(self) -> str:
            raise ValueError

    assert "of %s (its arguments cannot be written)" in line("of %s", Mute())
    assert "%d (its arguments cannot be written)" in line("%d", "x")
    assert "failed" in line("failed", error=raised(type("Bad", (Exception,), {"__str__": Mute.__str__})()))


@pytest.mark.parametrize("secret", ["hunter22", "sk-ant-1234", "p@ss/w?rd"])
def test_secrets_and_persons_of_urls_are_masked_in_messages_and_tracebacks(secret: str) -> None:
    secrets = Secrets([f"{secret}\n"])

    refused = ValueError(f"Illegal header value {(secret + chr(10)).encode()!r}")
    for shown in (
        line("with %s", secret, secrets=secrets),
        line("with\n%s", secret, secrets=secrets),
        line("at mongodb://kim:%s@db", secret),
        line("failed", error=raised(refused), secrets=secrets),
    ):
        assert secret not in shown
        assert MASK in shown


def test_a_line_can_be_written_anywhere() -> None:
    assert line("of %s", HOSTILE).encode(sys.stderr.encoding or "utf-8")
