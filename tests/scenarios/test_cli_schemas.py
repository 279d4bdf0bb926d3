"""The commands about schemas without a registry: against files, programs, the schemas topic and the runs under way."""

import json
from pathlib import Path

import fastavro.schema
import pytest

from tests.scenarios.command_lines import CommandLine

PROGRAM = """
namespace shop {
  schema Item { name: String, price: Double }
  event facet Charge(order: String, amount: %s, items: [Item]) => (%s)
  event facet Ship(order: String) => (tracking: String)
  workflow Checkout(order: String) => (tracking: String) andThen {
    paid = Charge(order = $.order, amount = %s, items = [])
    sent = Ship(order = "o")
    yield Checkout(tracking = sent.tracking)
  }
}
"""
OLD = PROGRAM % ("Long", "receipt: String", "12")
CHANGED = PROGRAM % ("String", "receipt: String, fee: Double", '"12"')
WIDER = PROGRAM % ("Long, note: String = null", "receipt: String", "12")


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    return CommandLine(tmp_path, capsys)


def test_each_facet_has_a_schema_that_is_the_same_each_time(cli: CommandLine, tmp_path: Path) -> None:
    program = cli.file("shop.afl", OLD)

    first = cli("schemas", "generate", program, "--output", "one")
    second = cli("schemas", "generate", program, "--output", "two", "--json")
    alone = cli("schemas", "generate", program, "--facet", "shop.Ship")
    both = cli("schemas", "generate", program)

    assert (first.code, second.code, alone.code) == (0, 0, 0)
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert files == ["shop.Charge.avsc", "shop.Ship.avsc"]
    assert second.document["files"] == {"shop.Charge": "two/shop.Charge.avsc", "shop.Ship": "two/shop.Ship.avsc"}
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
        fastavro.schema.parse_schema(json.loads((tmp_path / "one" / name).read_text()))
    assert alone.out == (tmp_path / "one" / "shop.Ship.avsc").read_text()
    assert list(json.loads(both.out)) == ["shop.Charge", "shop.Ship"]


def test_a_facet_that_is_not_there_is_named(cli: CommandLine) -> None:
    missing = cli("schemas", "generate", cli.file("shop.afl", OLD), "--facet", "shop.Chrge")

    assert missing.code == 3
    assert "there is no event facet shop.Chrge" in missing.err


@pytest.mark.parametrize("against", ["old.afl", "schemas"])
def test_a_change_that_would_break_is_named_by_topic_place_and_workflow(against: str, cli: CommandLine) -> None:
    old, changed = cli.file("old.afl", OLD), cli.file("changed.afl", CHANGED)
    cli("schemas", "generate", old, "--output", "schemas")

    found = cli("schemas", "check", changed, "--against", against)
    document = cli("schemas", "check", changed, "--against", against, "--json").document

    assert found.code == 1
    assert "afl.events.shop.Charge (shop.Charge) would break:" in found.out
    assert "cannot be read with the new schema: long cannot be read as string" in found.out
    assert "sent by: shop.Checkout" in found.out
    charge, ship = document["schemas"]
    assert (charge["status"], ship["status"]) == ("breaking", "same")
    assert {(each["direction"], each["path"]) for each in charge["findings"]} == {
        ("backward", "payload.amount"),
        ("forward", "payload.amount"),
    }
    assert charge["workflows"] == ["shop.Checkout"]


@pytest.mark.parametrize(("level", "code"), [("FULL_TRANSITIVE", 1), ("BACKWARD", 0), ("FORWARD", 1), ("none", 0)])
def test_what_counts_is_the_level(level: str, code: int, cli: CommandLine) -> None:
    # A reader of doubles reads integers, and not the other way round.
    new = cli.file("new.afl", PROGRAM % ("Double", "receipt: String", "1.5"))

    checked = cli("schemas", "check", new, "--against", cli.file("old.afl", OLD), "--compatibility", level)

    assert checked.code == code


def test_a_parameter_more_breaks_no_reader(cli: CommandLine) -> None:
    checked = cli("schemas", "check", cli.file("new.afl", WIDER), "--against", cli.file("old.afl", OLD), "--json")

    assert checked.code == 0
    assert [each["status"] for each in checked.document["schemas"]] == ["changed", "same"]


def test_schemas_and_runs_of_a_deployment_are_compared_before_anything_is_deployed(cli: CommandLine) -> None:
    old, changed = cli.file("old.afl", OLD), cli.file("changed.afl", CHANGED)
    before = cli("schemas", "check", old, "--json")
    cli("topics", "apply", old)
    cli("deploy", old)
    cli("start", "Checkout", "--input", "order=o", "--id", "order-1")
    cli("evaluator", "--until-idle")

    same = cli("schemas", "check", old, "--json")
    found = cli("schemas", "check", changed, "--json")
    shown = cli("schemas", "check", changed)
    without = cli("schemas", "check", changed, "--without-runs", "--compatibility", "NONE")

    assert (before.code, same.code, found.code, without.code) == (0, 0, 1, 0)
    assert [each["status"] for each in before.document["schemas"]] == ["new", "new"]
    assert [each["status"] for each in same.document["schemas"]] == ["same", "same"]
    assert [each["status"] for each in found.document["schemas"]] == ["breaking", "same"]
    assert found.document["against"] == "the topic afl.schemas"
    runs = found.document["runs"]
    assert runs["looked_at"] == 1
    assert {(each["facet"], each["topic"], *each["runs"]) for each in runs["findings"]} == {
        ("shop.Charge", "afl.events.shop.Charge", "order-1")
    }
    reasons = " ".join(each["why"] for each in runs["findings"])
    assert "amount: agents of the changed facet cannot read the runs' events: long cannot be read as string" in reasons
    assert "return fee: the runs do not know it" in reasons
    assert "would break for 1 run of shop.Checkout" in shown.out


def test_a_facet_that_a_run_still_calls_and_the_change_lacks_is_named(cli: CommandLine) -> None:
    old = cli.file("old.afl", OLD)
    cli("topics", "apply", old)
    cli("deploy", old)
    cli("start", "Checkout", "--input", "order=o", "--id", "order-1")
    cli("evaluator", "--until-idle")
    other = cli.file("other.afl", "namespace shop { event facet Refund(order: String) }")

    found = cli("schemas", "check", other, "--json")

    assert found.code == 1
    gone = {each["facet"] for each in found.document["runs"]["findings"]}
    assert gone == {"shop.Charge", "shop.Ship"}


def test_registering_needs_a_registry_and_a_check_an_existing_path(cli: CommandLine) -> None:
    program = cli.file("shop.afl", OLD)

    registered = cli("schemas", "register", program)
    checked = cli("schemas", "check", program, "--against", "nowhere")

    assert (registered.code, checked.code) == (2, 2)
    assert "AFL_REGISTRY_URL" in registered.err
    assert "there is no such file or folder" in checked.err
