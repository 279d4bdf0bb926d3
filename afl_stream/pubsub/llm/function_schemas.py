"""JSON Schemas of typed functions, and the check of arguments against them. Needs extra `llm`.

pydantic reads the types, and docstring_parser the docstring: both know far more of Python than a few types, and
follow its versions. No other module imports them; this one loads when the first function is described.
"""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Annotated, Any, Final, NotRequired

from afl.core.text.exception_text import exception_text
from afl_stream.pubsub.llm.errors import FunctionsNotInstalled, FunctionUnusable

try:
    import docstring_parser
    import pydantic
    import pydantic_core
    from pydantic.json_schema import GenerateJsonSchema
    from typing_extensions import TypedDict
except ImportError as missing:
    raise FunctionsNotInstalled(missing.name or "pydantic") from missing

#: Arguments are checked as they are declared: "5" is no integer, and a name that is not declared is a mistake.
_CHECKS: Final = pydantic.ConfigDict(extra="forbid", strict=True)
#: Faults of one call that its result names: the model mends the first ones first.
_MOST_FAULTS: Final = 8
#: For types that are made while running, which type checkers do not follow.
_typed_dict: Any = TypedDict


class _Schema(GenerateJsonSchema):
    """Schemas without titles of fields, which repeat the names."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's method
        return False


class FunctionSchema:
    """A function's parameters: the description and the schema for a model, and the check of what it gives."""

    def __init__(self, name: str, function: Callable[..., object], given: type) -> None:
        """Read the signature. A parameter of type `given` is no one's to fill but the program's.

        Raises FunctionUnusable that names the parameter.
        """
        defined: Any = function
        while isinstance(defined, partial):
            defined = defined.func
        parsed = docstring_parser.parse(inspect.getdoc(defined) or "")
        described = {param.arg_name: param.description or "" for param in parsed.params}
        hints = _hints(name, defined)
        fields: dict[str, Any] = {}
        #: The parameter that takes an object of type `given`, if there is one.
        self.given_parameter: str | None = None
        for parameter in inspect.signature(function).parameters.values():
            if hints.get(parameter.name) is given:
                self.given_parameter = parameter.name
            else:
                fields[parameter.name] = _field(name, parameter, hints, described.get(parameter.name, ""))
        self.description = "\n\n".join(part for part in (parsed.short_description, parsed.long_description) if part)
        self._arguments = _adapter(fields)
        self.parameters = self._arguments.json_schema(schema_generator=_Schema)
        del self.parameters["title"]

    def read(self, arguments: object) -> tuple[Mapping[str, Any], str]:
        """Return the arguments as the function's types, and no fault; or else the faults as text for the model."""
        if not isinstance(arguments, Mapping):
            return {}, f"the arguments are no JSON object: {_look(arguments)}"
        try:
            # As JSON text: there a date is a text and an enum's member its value.
            return self._arguments.validate_json(pydantic_core.to_json(arguments)), ""
        except pydantic_core.PydanticSerializationError as error:
            return {}, f"the arguments are no value of JSON: {exception_text(error)}"
        except pydantic.ValidationError as error:
            faults = error.errors(include_url=False, include_context=False)
            shown = [
                f"{_path(fault['loc'])}: {fault['msg']}, found {_look(fault['input'])}"
                for fault in faults[:_MOST_FAULTS]
            ]
            more = [f"and {len(faults) - _MOST_FAULTS} more"] if len(faults) > _MOST_FAULTS else []
            return {}, "; ".join([*shown, *more])


def result_text(result: object) -> str:
    """Return what a function returned as text for a model: a text as it is, other values as JSON."""
    if isinstance(result, str):
        return result.encode("utf-8", "replace").decode()
    return pydantic_core.to_json(result, inf_nan_mode="strings").decode()


def _hints(name: str, function: Callable[..., object]) -> Mapping[str, Any]:
    """Return the types of the parameters. What the function returns may have a type that is for type checkers only."""
    called: Any = function if inspect.isroutine(function) else type(function).__call__
    defined: Any = inspect.unwrap(called)
    try:
        named = {parameter: hint for parameter, hint in defined.__annotations__.items() if parameter != "return"}
        # What get_type_hints reads of an object are its annotations.
        source = SimpleNamespace(__annotations__=named)
        return typing.get_type_hints(source, defined.__globals__, include_extras=True)
    except (AttributeError, NameError, SyntaxError, TypeError) as error:
        raise FunctionUnusable(name, f"a type of its parameters cannot be read: {error}") from None


def _field(name: str, parameter: inspect.Parameter, hints: Mapping[str, Any], described: str) -> Any:
    """Return the annotation of one parameter as a field. Raises FunctionUnusable."""
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
        raise FunctionUnusable(name, f"parameter {parameter} cannot be given by its name; models give names only")
    if parameter.name not in hints:
        raise FunctionUnusable(name, f"parameter {parameter.name} has no type; write `{parameter.name}: str`, say")
    hint = hints[parameter.name]
    extra: dict[str, Any] = {}
    if description := _annotated_text(hint) or described:
        extra["description"] = description
    try:
        schema = pydantic.TypeAdapter(hint)
        schema.json_schema()
    except (pydantic.PydanticUserError, pydantic_core.PydanticSerializationError) as error:
        reason = str(error).partition("\n")[0]
        raise FunctionUnusable(
            name, f"parameter {parameter.name} has a type that no JSON Schema describes: {_type_text(hint)} ({reason})"
        ) from None
    if parameter.default is not parameter.empty:
        # One that JSON cannot say is left out: the function knows it, and the model may leave the parameter out.
        with suppress(pydantic_core.PydanticSerializationError, ValueError):
            default = schema.dump_python(parameter.default, mode="json", warnings=False)
            json.dumps(default, ensure_ascii=False, allow_nan=False).encode()
            extra["default"] = default
    described_hint = Annotated[hint, pydantic.Field(json_schema_extra=extra)] if extra else hint
    return described_hint if parameter.default is parameter.empty else NotRequired[described_hint]


def _adapter(fields: Mapping[str, Any]) -> pydantic.TypeAdapter[Mapping[str, Any]]:
    return pydantic.TypeAdapter(pydantic.with_config(_CHECKS)(_typed_dict("Arguments", dict(fields))))


def _annotated_text(hint: object) -> str:
    """Return the text in `Annotated[type, "text"]`."""
    return next((item for item in getattr(hint, "__metadata__", ()) if isinstance(item, str)), "")


def _type_text(hint: object) -> str:
    return hint.__qualname__ if isinstance(hint, type) else str(hint)


def _path(places: tuple[int | str, ...]) -> str:
    text = "".join(f"[{place}]" if isinstance(place, int) else f".{place}" for place in places)
    return text.removeprefix(".") or "the arguments"


def _look(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 60 else f"{text[:57]}..."
