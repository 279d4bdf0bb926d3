"""Typed functions as tools: their schemas, the check of arguments, and what becomes of results and errors."""

from __future__ import annotations

import asyncio
import enum
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import partial, wraps
from typing import Annotated, Any, Literal, NotRequired

import pytest
from typing_extensions import TypedDict

from afl_stream.pubsub.llm.errors import FunctionUnusable
from afl_stream.pubsub.llm.functions import FunctionTool
from afl_stream.pubsub.llm.messages import ToolCall, ToolResult
from afl_stream.pubsub.model.context import InvokeContext

CONTEXT = InvokeContext(assistant_request_id="r1", user_id="kim")


class Unit(enum.Enum):
    CELSIUS = "c"
    KELVIN = "k"


@dataclass
class Place:
    """A place on a map."""

    name: str
    height_m: float = 0.0


class Range(TypedDict):
    first: date
    last: NotRequired[date]


def weather(
    city: Annotated[str, "the city's name"],
    days: int = 3,
    unit: Unit = Unit.CELSIUS,
    exact: bool | None = None,
    detail: Literal["short", "long"] = "short",
) -> str:
    """Tell the weather.

    It comes from the archive.

    :param city: not shown, the type says it
    :param days: how many days ahead
    """
    return f"{city} {days} {unit.name} {exact} {detail}"


def called(function: Callable[..., object], **arguments: object) -> ToolResult:
    """Return the outcome of a call with these arguments."""
    return called_with(function, arguments)


def called_with(function: Callable[..., object], arguments: object) -> ToolResult:
    call = ToolCall(id="c1", name="any", arguments=arguments)
    return asyncio.run(FunctionTool(function).call(CONTEXT, call))


def schema_of(function: Callable[..., object]) -> Any:
    return FunctionTool(function).spec["parameters"]


def test_a_spec_says_what_signature_and_docstring_say() -> None:
    assert FunctionTool(weather).spec == {
        "name": "weather",
        "description": "Tell the weather.\n\nIt comes from the archive.",
        "parameters": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "city": {"type": "string", "description": "the city's name"},
                "days": {"type": "integer", "description": "how many days ahead", "default": 3},
                "unit": {"$ref": "#/$defs/Unit", "default": "c"},
                "exact": {"anyOf": [{"type": "boolean"}, {"type": "null"}], "default": None},
                "detail": {"type": "string", "enum": ["short", "long"], "default": "short"},
            },
            "required": ["city"],
            "$defs": {"Unit": {"type": "string", "enum": ["c", "k"], "title": "Unit"}},
        },
    }


def test_a_spec_is_a_value_of_json() -> None:
    def find(places: list[Place], within: Range, weights: dict[str, float]) -> None: ...

    spec = FunctionTool(find).spec

    assert json.loads(json.dumps(spec)) == spec


@pytest.mark.parametrize(
    "docstring",
    [
        "Look.\n\nArgs:\n    place: where\n        to look\n    at: when\n",
        "Look.\n\nParameters\n----------\nplace : str\n    where\n    to look\nat : int\n    when\n",
        "Look.\n\n:param place: where\n    to look\n:param at: when\n",
    ],
)
def test_the_usual_styles_of_docstrings_describe_parameters(docstring: str) -> None:
    def look(place: str, at: int) -> None: ...

    look.__doc__ = docstring

    assert FunctionTool(look).spec["description"] == "Look."
    assert [found["description"] for found in schema_of(look)["properties"].values()] == ["where\nto look", "when"]


def test_containers_and_records_have_schemas_of_their_parts() -> None:
    def find(places: list[Place], within: Range, weights: dict[str, float], key: int | str) -> None: ...

    schema = schema_of(find)

    assert schema["properties"] == {
        "places": {"type": "array", "items": {"$ref": "#/$defs/Place"}},
        "within": {"$ref": "#/$defs/Range"},
        "weights": {"type": "object", "additionalProperties": {"type": "number"}},
        "key": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
    }
    assert schema["$defs"]["Place"]["description"] == "A place on a map."
    assert schema["$defs"]["Place"]["required"] == ["name"]
    assert schema["$defs"]["Range"]["properties"]["first"] == {"type": "string", "format": "date"}


def test_arguments_arrive_as_the_types_of_the_function() -> None:
    def find(place: Place, within: Range, unit: Unit) -> str:
        assert isinstance(place, Place)
        assert isinstance(within["first"], date)
        return f"{place.name} {place.height_m} {within['first'].year} {unit.name}"

    result = called(find, place={"name": "Ulm", "height_m": 478}, within={"first": "2026-05-01"}, unit="k")

    assert result.text == "Ulm 478.0 2026 KELVIN"


def test_what_is_left_out_has_the_functions_default() -> None:
    assert called(weather, city="Oslo").text == "Oslo 3 CELSIUS None short"


def test_a_default_that_json_cannot_say_stays_the_functions_secret() -> None:
    marker = object()

    def find(name: str, missing: Any = marker) -> str:
        return f"{name} {missing is marker}"

    assert schema_of(find)["properties"]["missing"] == {}
    assert called(find, name="a").text == "a True"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "city: Field required"),
        ({"city": 7}, "city: Input should be a valid string, found 7"),
        ({"city": "Oslo", "days": "3"}, 'days: Input should be a valid integer, found "3"'),
        ({"city": "Oslo", "days": True}, "days: Input should be a valid integer, found true"),
        ({"city": "Oslo", "unit": "f"}, "unit: Input should be 'c' or 'k', found \"f\""),
        ({"city": "Oslo", "town": "x"}, 'town: Extra inputs are not permitted, found "x"'),
        ({"city": "Oslo", "detail": "both"}, "detail: Input should be 'short' or 'long', found \"both\""),
        ("{city:", 'the arguments are no JSON object: "{city:"'),
        (["Oslo"], 'the arguments are no JSON object: ["Oslo"]'),
        (None, "the arguments are no JSON object: null"),
    ],
)
def test_arguments_that_do_not_fit_are_an_error_for_the_model(arguments: object, complaint: str) -> None:
    result = called_with(weather, arguments)

    assert result.is_error
    assert result.text.startswith("weather was not called: ")
    assert complaint in result.text


def test_a_fault_deep_inside_is_named_by_its_path() -> None:
    def find(places: list[Place]) -> None: ...

    result = called(find, places=[{"name": "Ulm"}, {"name": 3}])

    assert "places[1].name: Input should be a valid string, found 3" in result.text


def test_many_faults_are_counted_and_the_first_ones_named() -> None:
    def add(numbers: list[int]) -> int:
        return sum(numbers)

    result = called(add, numbers=["x"] * 20)

    assert "numbers[7]" in result.text
    assert "numbers[8]" not in result.text
    assert result.text.endswith("and 12 more")


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ("as it is", "as it is"),
        (None, "null"),
        (Place("Ulm", 478.0), '{"name":"Ulm","height_m":478.0}'),
        ([Unit.KELVIN, date(2026, 5, 1)], '["k","2026-05-01"]'),
        ({"share": float("inf")}, '{"share":"Infinity"}'),
        ("half a pair \ud83d", "half a pair ?"),
    ],
)
def test_results_are_text_for_the_model(returned: object, text: str) -> None:
    def give() -> object:
        return returned

    assert called(give) == ToolResult(call_id="c1", name="give", text=text)


def test_a_long_result_is_cut_and_says_so() -> None:
    def give() -> str:
        return "x" * 1_000

    tool = FunctionTool(give, max_result_chars=10)

    assert asyncio.run(tool.call(CONTEXT, ToolCall(id="c1", name="give"))).text == (
        "xxxxxxxxxx\n(the first 10 of 1000 characters)"
    )


def test_what_a_function_raises_is_an_error_for_the_model() -> None:
    def give() -> None:
        raise LookupError("no such city")

    assert called(give) == ToolResult(call_id="c1", name="give", text="LookupError: no such city", is_error=True)


def test_a_result_that_has_no_text_is_an_error_for_the_model() -> None:
    def give() -> object:
        return threading.Lock()

    result = called(give)

    assert result.is_error
    assert "lock" in result.text


def test_a_function_that_finds_nothing_next_ends_the_call() -> None:
    def give(values: list[int]) -> int:
        return next(iter(values))

    async def give_later(values: list[int]) -> int:
        return give(values)

    assert "StopIteration" in called(give, values=[]).text
    assert called(give_later, values=[]).is_error


def test_exit_in_a_function_ends_the_call_and_not_the_process() -> None:
    def give() -> None:
        raise SystemExit(3)

    assert called(give).text == "SystemExit: 3"


def test_a_coroutine_function_runs_on_the_event_loop_and_a_plain_one_in_a_thread() -> None:
    here = threading.current_thread().name

    async def on_the_loop() -> bool:
        return threading.current_thread().name == here

    def in_a_thread() -> bool:
        return threading.current_thread().name != here

    assert called(on_the_loop).text == "true"
    assert called(in_a_thread).text == "true"


def test_an_object_that_can_be_called_is_a_function() -> None:
    class Adder:
        """Add two numbers."""

        async def __call__(self, a: int, b: int) -> int:
            return a + b

    tool = FunctionTool(Adder(), name="add")

    assert asyncio.run(tool.call(CONTEXT, ToolCall(id="c1", name="add", arguments={"a": 1, "b": 2}))).text == "3"
    assert list(tool.spec["parameters"]["properties"]) == ["a", "b"]


def test_a_function_with_some_arguments_given_is_itself_without_them() -> None:
    tool = FunctionTool(partial(weather, "Oslo", days=5))

    result = asyncio.run(tool.call(CONTEXT, ToolCall(id="c1", name="weather", arguments={"detail": "long"})))

    assert tool.name == "weather"
    assert tool.spec["description"].startswith("Tell the weather.")
    assert list(tool.spec["parameters"]["properties"]) == ["days", "unit", "exact", "detail"]
    assert tool.spec["parameters"]["properties"]["days"]["default"] == 5
    assert result.text == "Oslo 5 CELSIUS None long"


def test_the_type_of_a_result_may_be_for_type_checkers_only() -> None:
    def give(word: str) -> Nowhere:  # type: ignore[name-defined]  # noqa: F821 - what the test is about
        return word

    assert called(give, word="a").text == "a"


def test_a_decorated_function_has_the_parameters_of_the_one_inside() -> None:
    def logged(function: Callable[..., object]) -> Callable[..., object]:
        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> object:
            return function(*args, **kwargs)

        return run

    assert called(logged(weather), city="Oslo").text == "Oslo 3 CELSIUS None short"


def test_a_method_takes_its_object_from_the_program() -> None:
    class Desk:
        name = "desk 4"

        def ticket(self, number: int) -> str:
            """Fetch a ticket."""
            return f"{self.name}: {number}"

    assert called(Desk().ticket, number=9).text == "desk 4: 9"


def test_a_context_is_given_by_the_program_and_hidden_from_the_model() -> None:
    def whoami(greeting: str, context: InvokeContext) -> str:
        return f"{greeting} {context.user_id}"

    assert list(schema_of(whoami)["properties"]) == ["greeting"]
    assert called(whoami, greeting="hi").text == "hi kim"
    assert called(whoami, greeting="hi", context={}).is_error


def test_a_call_that_takes_too_long_is_an_error_for_the_model() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    tool = FunctionTool(wait, timeout_s=0.01)

    result = asyncio.run(tool.call(CONTEXT, ToolCall(id="c1", name="wait")))

    assert result == ToolResult(call_id="c1", name="wait", text="wait took longer than 0.01 s", is_error=True)


def test_a_time_out_of_the_function_itself_is_its_own() -> None:
    async def wait() -> None:
        raise TimeoutError("the database is slow")

    assert called(wait).text == "TimeoutError: the database is slow"


def test_a_cancellation_inside_of_a_function_is_an_error_and_one_from_outside_ends_the_call() -> None:
    async def give_up() -> None:
        raise asyncio.CancelledError("inside")

    async def wait() -> None:
        await asyncio.Event().wait()

    async def cancelled_from_outside() -> bool:
        task = asyncio.create_task(FunctionTool(wait).call(CONTEXT, ToolCall(id="c1", name="wait")))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert called(give_up).text == "CancelledError: inside"
    assert asyncio.run(cancelled_from_outside())


def _no_type(city) -> None:  # type: ignore[no-untyped-def]  # what the test is about
    ...


def _many(*cities: str) -> None: ...
def _any_names(**cities: str) -> None: ...
def _by_place(city: str, /) -> None: ...
def _lazily(cities: Iterator[str]) -> None: ...
def _function(then: Callable[[int], int]) -> None: ...
def _unknown(city: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821 - what the test is about


class _Opaque:
    pass


def _object(city: _Opaque) -> None: ...


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (_no_type, "function _no_type: parameter city has no type; write `city: str`, say"),
        (_many, "function _many: parameter *cities: 'str' cannot be given by its name; models give names only"),
        (_any_names, "function _any_names: parameter **cities: 'str' cannot be given by its name"),
        (_by_place, "function _by_place: parameter city: 'str' cannot be given by its name"),
        (_function, "function _function: parameter then has a type that no JSON Schema describes: "),
        (_lazily, "function _lazily: parameter cities has a type that no JSON Schema describes: "),
        (_object, "function _object: parameter city has a type that no JSON Schema describes: _Opaque"),
        (_unknown, "function _unknown: a type of its parameters cannot be read: name 'Nowhere' is not defined"),
        (lambda: None, "function <lambda>: a model cannot call it by this name"),
    ],
)
def test_a_function_that_no_schema_describes_is_refused_by_function_and_parameter(
    function: Callable[..., object], complaint: str
) -> None:
    with pytest.raises(FunctionUnusable) as refused:
        FunctionTool(function)

    assert str(refused.value).startswith(complaint)


@pytest.mark.parametrize(
    "arguments", [{"city": "\ud800"}, {"city": object()}, {"\ud800": 1}], ids=["half a pair", "an object", "a name"]
)
def test_arguments_that_are_no_json_are_an_error_for_the_model(arguments: dict[str, object]) -> None:
    def find(city: str) -> str:
        return city

    result = called(find, **arguments)

    assert result.is_error
    assert result.text.startswith("find was not called: ")


def test_a_default_that_json_cannot_say_is_not_told() -> None:
    def measure(most: float = float("inf"), least: float = 0.0) -> float:
        return most - least

    assert FunctionTool(measure).spec["parameters"]["properties"] == {
        "most": {"type": "number"},
        "least": {"type": "number", "default": 0.0},
    }


def test_a_function_that_never_returns_keeps_no_program_from_ending() -> None:
    returns = threading.Event()

    def hang(name: str, function: str) -> bool:
        return returns.wait(30)

    tool = FunctionTool(hang, timeout_s=0.01)
    began_s = time.monotonic()
    call = ToolCall(id="c1", name="hang", arguments={"name": "n", "function": "f"})
    result = asyncio.run(tool.call(CONTEXT, call))
    took_s = time.monotonic() - began_s
    returns.set()

    assert result.text == "hang took longer than 0.01 s"
    assert took_s < 10


def test_names_of_models_base_classes_are_ordinary_names() -> None:
    def keep(copy: int, json: str, schema: bool, model_config: str, _hidden: int = 1) -> str:
        return f"{copy} {json} {schema} {model_config} {_hidden}"

    result = called(keep, copy=1, json="j", schema=True, model_config="m", _hidden=2)

    assert result.text == "1 j True m 2"


def test_without_the_extra_the_package_loads_and_a_function_names_it() -> None:
    program = (
        "import sys\n"
        "sys.modules['pydantic'] = None\n"
        "import afl_stream.pubsub.llm.functions as functions\n"
        "try: functions.FunctionTool(lambda: None, name='a')\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)

    assert "FunctionsNotInstalled the package pydantic is not installed; install afl-stream[llm]" in done.stdout
