"""The parts of a rule of the language."""

from __future__ import annotations

from typing import NamedTuple

from afl.diagnostics import Severity


class Rule(NamedTuple):
    """One rule.

    `message` has blanks for the facts of a case. `example` is a program that breaks the rule once, at the place
    between « and »; `near_miss` is one that keeps it. Tests run both of every rule.
    """

    code: str
    severity: Severity
    meaning: str
    message: str
    example: str
    near_miss: str
    hint: str | None = None
    #: Whether a library may leave this open for its users. In a program it is final, and commands treat it as an error
    #: (see `afl.validation.strictness`).
    is_left_open: bool = False


def error(code: str, meaning: str, message: str, example: str, near_miss: str, hint: str | None = None) -> Rule:
    """Return a rule that refuses a program which breaks it."""
    return Rule(code, Severity.ERROR, meaning, message, example, near_miss, hint)


def warning(code: str, meaning: str, message: str, example: str, near_miss: str, hint: str | None = None) -> Rule:
    """Return a rule whose breach is only reported."""
    return Rule(code, Severity.WARNING, meaning, message, example, near_miss, hint)


def left_open(code: str, meaning: str, message: str, example: str, near_miss: str, hint: str | None = None) -> Rule:
    """Return a rule that a library may break, but a program that is to be run may not."""
    return Rule(code, Severity.WARNING, meaning, message, example, near_miss, hint, is_left_open=True)
