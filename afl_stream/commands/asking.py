"""Commands to the evaluators: sent, and waited for until an evaluator has answered, where one may run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from afl_stream.client.client import Client, NotAnswered
from afl_stream.commands.invocation import Invocation
from afl_stream.errors import TopicMissing
from afl_stream.transport import NotAuthorized

T = TypeVar("T")

#: How long the answer to a command is waited for: longer than a rebalance among evaluators takes.
ANSWER_TIMEOUT_S: Final = 5.0


def ask(invocation: Invocation, client: Client, give: Callable[[float | None], T]) -> T | None:
    """Send a command, and return what `give` returns once an evaluator has answered; None while none has.

    `give` gets the time to wait for the answer. While this process holds the embedded log no evaluator can answer, so
    it is not waited for. Nor is an answer waited for by a user without the right to read it. Raises RefusedByEvaluator,
    and what `give` raises.
    """
    if not invocation.is_shared():
        give(None)
        return None
    try:
        return give(ANSWER_TIMEOUT_S)
    except NotAnswered:
        return None
    except (NotAuthorized, TopicMissing) as error:
        # Brokers report a topic that the user may not describe as missing. A command that was sent already does nothing
        # when it comes twice.
        if client.topology.lifecycle() not in str(error):
            raise
        give(None)
        return None


def what_comes_next(invocation: Invocation, verb: str, *, is_answered: bool) -> str:
    """Return what happens next with a command that was sent; `verb` is what an evaluator does with it."""
    if is_answered:
        return "an evaluator has accepted it"
    none_yet = f"no evaluator has answered in {ANSWER_TIMEOUT_S:g} s: " if invocation.is_shared() else ""
    return f"{none_yet}{invocation.who_applies_it(verb)}"
