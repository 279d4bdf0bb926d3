"""The validator under its older names: a result object with errors and warnings."""

from __future__ import annotations

from dataclasses import dataclass, field

from afl.ast import Program, SourceLocation
from afl.diagnostics import Diagnostic
from afl.validation import validate_program


@dataclass(frozen=True)
class ValidationError:
    """One finding: message, place, and the rule's code."""

    message: str
    line: int | None = None
    column: int | None = None
    code: str | None = None

    def __str__(self) -> str:
        if self.line is None:
            return self.message
        column = "" if self.column is None else f", column {self.column}"
        return f"{self.message} at line {self.line}{column}"


@dataclass
class ValidationResult:
    """The findings in a program."""

    errors: list[ValidationError] = field(default_factory=list)
    warnings: list[ValidationError] = field(default_factory=list)

    @property
    def is_valid(self) -> bool:
        """Say whether there are no errors; warnings do not count."""
        return not self.errors

    def add_error(self, message: str, location: SourceLocation | None = None) -> None:
        line, column = (location.line, location.column) if location is not None else (None, None)
        self.errors.append(ValidationError(message, line, column))


class AFLValidator:
    """Validator of programs; holds no state."""

    def validate(self, program: Program) -> ValidationResult:
        """Return all errors and warnings of a program."""
        result = ValidationResult()
        for diagnostic in validate_program(program):
            (result.errors if diagnostic.is_error else result.warnings).append(_as_error(diagnostic))
        return result


def validate(program: Program) -> ValidationResult:
    """Return all errors and warnings of a program."""
    return AFLValidator().validate(program)


def _as_error(diagnostic: Diagnostic) -> ValidationError:
    return ValidationError(diagnostic.message, diagnostic.line, diagnostic.column, diagnostic.code)
