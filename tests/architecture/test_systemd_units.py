"""The units of systemd hold, as far as can be told without starting them."""

import shlex
from pathlib import Path

import click
import pytest

from afl_stream.cli import afl_stream
from afl_stream.settings.config import load_config

_FOLDER = Path(__file__).parents[2] / "deploy" / "systemd"
_UNITS = sorted(_FOLDER.glob("*.service"))
#: What a drain may take beyond the grace of handlers, while the broker is away: docs/kafka.md.
_AWAY_S = 20


def _values(unit: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in unit.read_text().splitlines():
        key, is_setting, value = line.partition("=")
        if is_setting and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


@pytest.mark.parametrize("unit", _UNITS, ids=lambda unit: unit.name)
def test_a_unit_runs_a_command_of_ours_with_its_options(unit: Path) -> None:
    program, *words = shlex.split(_values(unit)["ExecStart"][0].replace("%i", "1"))
    context = click.Context(afl_stream)
    command = afl_stream.get_command(context, words[0])

    assert program == "/opt/afl-stream/bin/afl-stream"
    assert command is not None
    # Refuses options that it does not have.
    command.make_context(words[0], words[1:], parent=context)


@pytest.mark.parametrize("unit", _UNITS, ids=lambda unit: unit.name)
def test_a_unit_is_no_root_and_may_write_to_its_state_alone(unit: Path) -> None:
    values = _values(unit)

    assert values["User"] == ["afl"]
    assert values["NoNewPrivileges"] == ["yes"]
    assert values["ProtectSystem"] == ["strict"]
    assert values["CapabilityBoundingSet"] == [""]
    assert values["StateDirectory"] == ["afl-stream"]
    assert "MemoryMax" in values


@pytest.mark.parametrize("unit", [unit for unit in _UNITS if "dashboard" not in unit.name], ids=lambda unit: unit.name)
def test_a_unit_has_more_time_to_end_than_its_drain_takes(unit: Path) -> None:
    grace_s = load_config(environ={}).agent.grace_s

    assert int(_values(unit)["TimeoutStopSec"][0]) > grace_s + _AWAY_S


def test_units_of_one_machine_have_ports_of_their_own() -> None:
    commands = [shlex.split(_values(unit)["ExecStart"][0]) for unit in _UNITS]
    ports = [words[words.index("--metrics-port") + 1] for words in commands if "--metrics-port" in words]

    assert sorted(ports) == ["9464", "9465", "9466", "947%i"]


def test_the_settings_of_the_units_are_settings() -> None:
    lines = (_FOLDER / "environment").read_text().splitlines()
    given = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))

    config = load_config(environ=given)

    assert config.is_kafka
    assert config.store.retention == "30d"
