"""A tool: its name, what it takes and returns, and what it does to the deployment."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from afl.core.errors import AFLError
from afl.core.text.near_names import did_you_mean, near_names
from afl_stream.mcp.bounds import bounded_text
from afl_stream.mcp.deployment import Deployment


class Arguments(BaseModel):
    """The arguments of a tool. A name that it does not have is refused."""

    model_config = ConfigDict(extra="forbid")


class Result(BaseModel):
    """The structured result of a tool."""


A = TypeVar("A", bound=Arguments)
R = TypeVar("R", bound=Result)


class BadArguments(AFLError):
    """Arguments do not fit a tool's schema."""

    def __init__(self, tool: str, problems: str) -> None:
        super().__init__(f"bad arguments for {tool}: {problems}")
        self.tool = tool


class ArgumentNeeded(AFLError):
    """An action needs an argument that was left out."""

    def __init__(self, name: str, action: str) -> None:
        super().__init__(f"{name} is needed for the action {action}")


class RunNeeded(ArgumentNeeded):
    """An action is about one run, and none is named."""

    def __init__(self, action: str) -> None:
        super().__init__("runner_id (the id of a run; the action list has them)", action)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool(Generic[A, R]):
    """One tool. `destructive`: what it does may end or replace something that somebody else has made."""

    name: str
    title: str
    description: str
    arguments: type[A]
    result: type[R]
    run: Callable[[Deployment, A], R]
    writes: bool = False
    destructive: bool = False
    idempotent: bool = False

    def call(self, deployment: Deployment, given: Mapping[str, Any]) -> R:
        """Run it with the arguments of a request. Raises BadArguments, and what the tool raises."""
        try:
            arguments = self.arguments.model_validate(dict(given))
        except ValidationError as error:
            raise BadArguments(self.name, self._problems(error)) from None
        return self.run(deployment, arguments)

    def _problems(self, error: ValidationError) -> str:
        known = list(self.arguments.model_fields)
        found = []
        for problem in error.errors(include_url=False)[:5]:
            name = ".".join(map(str, problem["loc"])) or "arguments"
            if problem["type"] == "extra_forbidden":
                near = near_names(str(problem["loc"][-1]), known) if len(problem["loc"]) == 1 else ()
                found.append(f"there is no argument {bounded_text(name, 60)}{'; ' if near else ''}{did_you_mean(near)}")
            elif problem["type"] == "missing":
                found.append(f"{name} is missing")
            else:
                found.append(f"{bounded_text(name, 60)}: {problem['msg']}, found {_shown(problem['input'])}")
        return f"{'; '.join(found)} (it takes {', '.join(known) or 'none'})"


def _shown(value: object) -> str:
    return bounded_text(repr(value) if not isinstance(value, int) or abs(value) < 10**60 else "a huge number", 80)


def _object_or_text(value: object) -> object:
    """Return what a JSON text says: some hosts pass objects and lists as texts."""
    if isinstance(value, str):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


#: A JSON object of AFL values by name.
Values = Annotated[dict[str, Any], BeforeValidator(_object_or_text)]
#: A list of names.
Names = Annotated[list[str], BeforeValidator(_object_or_text)]
