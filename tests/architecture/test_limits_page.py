"""The page about limits names every one of them with its value, and no limit is stated in two places."""

import ast
import re
from pathlib import Path
from types import ModuleType

import pytest

from afl.core import limits as core
from afl.engine import limits as engine
from afl.scripts.limits import MEBIBYTE, ScriptLimits
from afl_stream import limits as stream
from afl_stream.settings.config import EvaluatorSettings, StreamConfig

_PAGE = (Path(__file__).parents[2] / "docs" / "limits.md").read_text(encoding="utf-8")
#: A constant of the stream's limits that is a format.
_NO_LIMITS = {"RECORD_FORMAT"}


def constants(module: ModuleType) -> dict[str, int]:
    return {name: value for name, value in vars(module).items() if name.isupper() and name not in _NO_LIMITS}


def values_on_the_page() -> dict[str, int]:
    found: dict[str, int] = {}
    for names, values in re.findall(r"^\| ((?:`[A-Z_]+`(?:, )?)+) \| ([^|]+) \|", _PAGE, re.MULTILINE):
        numbers = [text.replace("2^63", str(2**63)) for text in re.split(r", (?=\D|2\^)", values)]
        given = re.findall(r"`([A-Z_]+)`", names)
        texts = numbers if len(given) > 1 else [values]
        for name, text in zip(given, texts, strict=True):
            terms = [int(term) for term in text.replace(",", "").split(" - ")]
            found[name] = terms[0] - sum(terms[1:])
    return found


def assigned(module: ModuleType) -> set[str]:
    """Return the constants that the module gives their value itself, rather than take them from another."""
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    targets = [node.target for node in tree.body if isinstance(node, ast.AnnAssign)]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def test_the_page_has_every_limit_of_both_sides_with_its_value() -> None:
    assert values_on_the_page() == {**constants(core), **constants(engine), **constants(stream)}


def test_a_limit_of_both_sides_is_stated_once() -> None:
    stated = [assigned(module) for module in (core, engine, stream)]

    assert sum(map(len, stated)) == len(set().union(*stated))
    assert {"MAX_VALUE_BYTES", "MAX_STUCK_HANDLERS", "SCRIPT_WALL_S"} <= stated[0]


@pytest.mark.parametrize("side", [engine, stream])
def test_a_number_of_both_sides_is_the_same_wherever_it_is_found(side: ModuleType) -> None:
    shared = constants(core).keys() & constants(side).keys()

    assert {name: constants(side)[name] for name in shared} == {name: constants(core)[name] for name in shared}


def test_settings_have_the_limits_for_defaults() -> None:
    settings = EvaluatorSettings()

    assert settings.max_workflow_steps == engine.MAX_WORKFLOW_STEPS
    assert settings.max_payload_bytes == engine.MAX_PAYLOAD_BYTES
    assert settings.max_value_bytes == engine.MAX_VALUE_BYTES
    assert settings.max_state_bytes == engine.MAX_STATE_BYTES
    assert settings.hot_steps == engine.HOT_WORKFLOW_STEPS
    assert StreamConfig().max_event_bytes == stream.MAX_EVENT_BYTES


def test_the_page_tells_how_many_events_may_be_unanswered_on_either_side() -> None:
    of_services = EvaluatorSettings().max_unanswered_events

    assert f"| {engine.MAX_OPEN_EVENTS:,}; in services {of_services:,} |" in _PAGE


def test_scripts_have_the_same_limits_wherever_they_are_run() -> None:
    limits = ScriptLimits()

    assert (limits.wall_s, limits.cpu_s) == (stream.SCRIPT_WALL_S, stream.SCRIPT_CPU_S)
    assert limits.memory_bytes == stream.SCRIPT_MEMORY_MIB * MEBIBYTE
    assert (limits.output_bytes, limits.printed_bytes) == (stream.SCRIPT_OUTPUT_BYTES, stream.SCRIPT_PRINTED_BYTES)
    assert limits.idle_bytes == stream.SCRIPT_IDLE_MIB * MEBIBYTE


def test_every_setting_that_the_page_names_exists() -> None:
    known = StreamConfig().describe()
    named = set(re.findall(r"`((?:evaluator|scripts)\.[a-z_]+)`", _PAGE)) | {"max_event_bytes"}

    assert named <= known.keys()
