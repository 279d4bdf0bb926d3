"""Errors about limits: each names the limit, its value, what was found, and the setting that raises it."""

from __future__ import annotations

from dataclasses import dataclass

from afl.engine.error_base import RuntimeError, shown_path


@dataclass(eq=False)
class LimitReached(RuntimeError):
    """The base of errors about limits: the limit, what was found, and the setting that raises it."""


@dataclass(eq=False)
class IterationLimitReached(LimitReached):
    """A call used up its iterations while the workflow could still continue."""

    limit: int

    def __str__(self) -> str:
        return f"not finished after {self.limit} iterations (max_iterations)"


@dataclass(eq=False)
class RunLimitReached(LimitReached):
    """The base of limits of a run as a whole: they end it, even inside a catch."""


@dataclass(eq=False)
class StepLimitReached(RunLimitReached):
    """A run needs more steps than it may have.

    The reason is an endless recursion or foreach, or a very large one.
    """

    workflow: str
    steps: int
    limit: int

    def __str__(self) -> str:
        return (
            f"{self.workflow} has {self.steps} steps and needs more, max_steps allows {self.limit}: does it call "
            "itself without an end? Else split it, or raise evaluator.max_workflow_steps, or Evaluator(max_steps=...)"
        )


@dataclass(eq=False)
class StateTooLarge(RunLimitReached):
    """The values of a run's steps take more bytes than the limit allows."""

    size_bytes: int
    limit_bytes: int

    def __str__(self) -> str:
        return (
            f"the values of all steps take {self.size_bytes} bytes, max_state_bytes allows {self.limit_bytes}: keep "
            "large values elsewhere and pass references to them, or raise evaluator.max_state_bytes, or "
            "Evaluator(max_state_bytes=...)"
        )


@dataclass(eq=False)
class PayloadTooLarge(LimitReached):
    """A payload to an agent or a result from one takes more bytes than the limit allows."""

    what: str
    size_bytes: int
    limit_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.what} takes {self.size_bytes} bytes, max_payload_bytes allows {self.limit_bytes}: pass a reference "
            "to the large value, or raise evaluator.max_payload_bytes, or Evaluator(max_payload_bytes=...)"
        )


@dataclass(eq=False)
class ValueTooLarge(LimitReached):
    """A value takes more bytes than the limit allows: the result of an expression, or an attribute of a step."""

    what: str
    size_bytes: int
    limit_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.what} takes {self.size_bytes} bytes, max_value_bytes allows {self.limit_bytes}: keep the large "
            "value elsewhere and pass a reference to it, or raise evaluator.max_value_bytes, or "
            "Evaluator(max_value_bytes=...)"
        )


@dataclass(eq=False)
class ValueTooDeep(LimitReached):
    """A value nests more lists and maps than can be copied, stored and sent."""

    what: str
    limit: int

    def __str__(self) -> str:
        limit = f"{self.limit} deep (MAX_VALUE_DEPTH, which no setting raises)"
        return f"{self.what} nests lists and maps more than {limit}"


@dataclass(eq=False)
class NestingTooDeep(LimitReached):
    """A step is deeper in nested calls than the limit allows: most often an endless recursion."""

    step_path: str
    limit: int

    def __str__(self) -> str:
        path = shown_path(self.step_path)
        return (
            f"{path} is nested deeper than {self.limit} steps (MAX_NESTING_DEPTH, which no setting raises): does a "
            "facet call itself without an end?"
        )
