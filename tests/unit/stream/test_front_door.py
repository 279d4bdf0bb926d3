"""The front door of afl_stream: what it gives, and what a client or an agent does not have to load."""

import json
import subprocess
import sys

import pytest

import afl_stream

#: Modules and packages that only an evaluator, a compiler or a store has a use for.
HEAVY = ("afl.engine", "afl.evaluation", "afl.stores", "afl.workers", "afl.parser", "afl.grammar", "afl.syntax")
HEAVY_LIBRARIES = ("lark", "sqlite3", "pymongo", "rich", "click", "opentelemetry", "anthropic", "croniter", "dateutil")


@pytest.mark.parametrize("name", ["Client", "Agent", "Audit"])
def test_what_deploys_apart_from_the_evaluator_loads_no_engine_no_parser_and_no_database(name: str) -> None:
    script = f"import json, sys\nfrom afl_stream import {name}\nprint(json.dumps(sorted(sys.modules)))"

    shown = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    loaded = json.loads(shown)

    assert [module for module in loaded if module.startswith(HEAVY) or module.split(".")[0] in HEAVY_LIBRARIES] == []
    # The count is what an agent's image and its start pay for: about 150 for an agent.
    assert len([module for module in loaded if module.startswith(("afl.", "afl_stream."))]) < 155


def test_every_name_of_the_front_door_is_there_and_is_what_it_is_called() -> None:
    names = set(afl_stream.__all__) - {"__version__"}

    assert {name: getattr(afl_stream, name).__name__ for name in names} == {name: name for name in names}
    assert set(afl_stream.__all__) <= set(dir(afl_stream))


def test_another_name_is_an_attribute_error_that_says_so() -> None:
    with pytest.raises(AttributeError, match="module 'afl_stream' has no attribute 'Nothing'"):
        afl_stream.Nothing  # type: ignore[attr-defined]  # noqa: B018 - asking for it is the test
