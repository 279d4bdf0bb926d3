"""Variables that begin as settings do, and are none."""

import logging

import pytest

from afl_stream.commands.invocation import Invocation
from afl_stream.settings.config import StreamConfig
from afl_stream.settings.variables import unknown_variables


@pytest.mark.parametrize(
    ("variable", "is_unknown"),
    [
        ("AFL_EVALUATOR_MAX_STEPS", True),
        ("AFL_TOPICS_SOMETHING", True),
        # It is a setting.
        ("AFL_EVALUATOR_MAX_WORKFLOW_STEPS", False),
        # There is no such section: it may be for anybody.
        ("AFL_LIMITS_MAX_STEPS", False),
        # librdkafka gets it, and says whether it knows it.
        ("AFL_KAFKA_FETCH_MIN_BYTES", False),
        # Kubernetes sets them in each container beside a service `afl-evaluator`.
        ("AFL_EVALUATOR_SERVICE_HOST", False),
        ("AFL_EVALUATOR_SERVICE_PORT_METRICS", False),
        ("AFL_EVALUATOR_PORT", False),
        ("AFL_EVALUATOR_PORT_8080_TCP_ADDR", False),
        ("HOME", False),
    ],
)
def test_a_variable_of_a_section_that_is_no_setting_is_found(variable: str, is_unknown: bool) -> None:
    assert unknown_variables([variable], StreamConfig().describe()) == [variable] * is_unknown


def test_a_command_tells_once_of_a_variable_that_nothing_reads(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AFL_EVALUATOR_MAX_STEPS", "5")
    invocation = Invocation()
    with caplog.at_level(logging.WARNING):
        invocation.settings()
        invocation.settings()

    told = [record.getMessage() for record in caplog.records if "AFL_EVALUATOR_MAX_STEPS" in record.getMessage()]
    assert told == ["environment AFL_EVALUATOR_MAX_STEPS: no such setting, ignored; `afl-stream config` lists all"]
