"""The licences of what a deployment installs are known, and allowed."""

import json

import pytest

from tools.licences import PINS, Licence, licences, main


def test_each_distribution_that_a_deployment_installs_has_a_licence_that_is_allowed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--json"]) == 0

    listed = {each["name"]: each["licence"] for each in json.loads(capsys.readouterr().out)}
    pinned = {line.partition("==")[0] for line in PINS.read_text().splitlines() if "==" in line}
    assert set(listed) == pinned
    # As these projects say it themselves.
    assert (listed["confluent-kafka"], listed["click"], listed["pymongo"]) == (
        "Apache-2.0",
        "BSD-3-Clause",
        "Apache-2.0",
    )


def test_no_tool_of_the_extra_dev_is_under_a_licence_that_asks_for_more(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--dev", "--json"]) == 0

    listed = {each["name"]: each["licence"] for each in json.loads(capsys.readouterr().out)}
    assert listed["pytest"] == "MIT"
    assert [name for name, licence in listed.items() if "GPL" in licence and " OR " not in licence] == []


@pytest.mark.parametrize(
    ("licence", "is_allowed"),
    [
        ("MIT", True),
        ("Apache-2.0 AND BSD-2-Clause", True),
        ("GPL-3.0-only OR MIT", True),
        ("GPL-3.0-only", False),
        ("MIT AND AGPL-3.0-only", False),
        ("unknown", False),
    ],
)
def test_a_licence_is_allowed_by_all_of_its_parts(licence: str, is_allowed: bool) -> None:
    assert Licence(name="x", version="1", licence=licence).is_allowed is is_allowed


def test_only_pins_are_looked_at() -> None:
    assert [each.name for each in licences() if each.name.startswith(("#", "-"))] == []
