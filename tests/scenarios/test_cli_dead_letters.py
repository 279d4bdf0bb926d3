"""The commands of `dlq`: what is a dead letter is found with its reason, sent again, or marked as done with."""

from __future__ import annotations

from pathlib import Path

import pytest

from afl_stream.commands.dlq.choosing import HOPS
from afl_stream.dead_letters import Hop
from afl_stream.embedded.transport import EmbeddedTransport
from tests.scenarios.command_lines import CommandLine

SECRET = "a secret that is long enough"


@pytest.fixture
def deployed(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    return CommandLine(tmp_path, capsys).deployed()


@pytest.fixture
def refused(deployed: CommandLine) -> CommandLine:
    """With two cancellations of runs that do not exist, each a dead letter."""
    for run in ("w1", "w2"):
        assert deployed("cancel", run).code == 0
    assert deployed("evaluator", "--until-idle").code == 0
    return deployed


def places(called: CommandLine, *words: str) -> dict[str, str]:
    """Return the places of the listed letters, by their runs."""
    listed = called("dlq", "list", *words, "--json").document["dead_letters"]
    return {letter["workflow_id"]: letter["place"] for letter in listed}


def send(called: CommandLine, topic: str, key: bytes | None, value: bytes | None, count: int = 1) -> None:
    """Produce records as a stranger does."""
    transport = EmbeddedTransport(called.data_dir / "log.sqlite3")
    producer = transport.producer()
    for _ in range(count):
        producer.produce(topic, value, key=key)
    assert producer.flush(10) == 0
    producer.close()
    transport.close()


def test_without_dead_letters_the_list_says_so(deployed: CommandLine) -> None:
    found = deployed("dlq", "list")

    assert (found.code, found.out) == (0, "")
    assert "no dead letters" in found.err


def test_a_refused_command_is_listed_with_its_reason_and_its_run(refused: CommandLine) -> None:
    found = refused("dlq", "list", "--workflow", "w1")

    assert found.code == 0
    assert "NothingToCancel" in found.out
    assert "w1" in found.out
    assert "there is no workflow w1 to cancel" in found.out
    assert "w2" not in found.out
    assert f"afl-stream dlq show '{places(refused)['w1']}'" in found.err


def test_filters_choose_by_reason_hop_text_and_time(refused: CommandLine) -> None:
    send(refused, "afl.control", b"w3", b"{")
    refused("evaluator", "--until-idle")

    assert places(refused).keys() == {"w1", "w2", "w3"}
    assert places(refused, "--reason", "bad_json").keys() == {"w3"}
    assert places(refused, "--hop", "commands").keys() == {"w1", "w2"}
    assert places(refused, "--hop", "control", "--hop", "external").keys() == {"w3"}
    assert places(refused, "--text", "WORKFLOW W2").keys() == {"w2"}
    assert places(refused, "--since", "1h", "--until", "2999-01-01").keys() == {"w1", "w2", "w3"}
    assert places(refused, "--until", "1h") == {}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--reason", "bad_jsn"), "no dead letter has a reason bad_jsn; did you mean bad_json"),
        (("--reason", "NothingToCancl"), "did you mean NothingToCancel"),
        (("--facet", "net.Noat"), "no topic carries events of a facet net.Noat; did you mean net.Note"),
        (("--facet", "Note"), "did you mean net.Note?"),
    ],
)
@pytest.mark.parametrize("command", [("list",), ("replay", "--all"), ("drop", "--all")], ids=lambda words: words[0])
def test_a_filter_that_no_letter_can_have_is_told_with_what_may_be_meant(
    refused: CommandLine, command: tuple[str, ...], words: tuple[str, ...], told: str
) -> None:
    found = refused("dlq", *command, *words)

    assert found.code == 0
    assert told in found.err
    assert refused("dlq", *command, *words, "--json").err == ""


def test_a_filter_that_a_letter_can_have_is_not_doubted(refused: CommandLine) -> None:
    for words in (("--reason", "bad_json"), ("--facet", "net.Note"), ("--workflow", "w1", "--text", "x")):
        assert refused("dlq", "list", *words).err == "no dead letters that fit\n"


def test_an_event_that_cannot_be_read_is_listed_by_its_facet(deployed: CommandLine) -> None:
    send(deployed, "afl.events.net.Note", b"w1:0a", b"\x00 no event")
    deployed("agent", "--handlers", deployed.handlers, "--until-idle")

    (letter,) = deployed("dlq", "list", "--facet", "net.Note", "--json").document["dead_letters"]

    assert (letter["hop"], letter["facet"], letter["step_id"]) == ("events", "net.Note", "w1:0a")
    assert deployed("dlq", "list", "--facet", "net.Ping", "--json").document["count"] == 0


def test_the_newest_are_listed_where_there_are_more_than_the_limit(refused: CommandLine) -> None:
    newest = refused("dlq", "list", "--json").document["dead_letters"][-1]["place"]

    found = refused("dlq", "list", "--limit", "1")

    assert newest in found.out
    assert "the newest 1 of 2" in found.err


def test_a_letter_is_shown_with_its_record_and_what_can_be_done(refused: CommandLine) -> None:
    place = places(refused)["w1"]

    found = refused("dlq", "show", place)
    document = refused("dlq", "show", place, "--json").document

    assert "NothingToCancel: there is no workflow w1 to cancel" in found.out
    assert 'workflow_id = "w1"' in found.out
    assert f"afl-stream dlq replay '{place}'" in found.err
    assert f"afl-stream dlq drop '{place}'" in found.err
    assert document["record_type"] == "CancelWorkflow"
    assert document["record"]["workflow_id"] == "w1"


def test_what_cannot_be_read_is_shown_as_bytes(deployed: CommandLine) -> None:
    send(deployed, "afl.control", b"w3", b"{ nothing")
    deployed("evaluator", "--until-idle")
    place = places(deployed)["w3"]

    found = deployed("dlq", "show", place)

    assert "bad_json" in found.out
    assert "{ nothing" in found.out
    assert deployed("dlq", "show", place, "--json").document["record"] is None


def test_a_replayed_start_runs_and_a_second_replay_is_reported(deployed: CommandLine) -> None:
    send(deployed, "afl.commands", b"w9", b'{"workflow": "net.Watch", "inputs": {"hosts": []}, "workflow_id": "w9"}')
    send(deployed, "afl.commands", b"w9", b'{"workflow": "net.Later", "workflow_id": "w8", "inputs": {}}')
    deployed("evaluator", "--until-idle")
    place = places(deployed, "--workflow", "w8")["w8"]
    later = deployed.file("later.afl", "namespace net { workflow Later() => (n: Int = 1) }")
    assert deployed("deploy", later).code == 0

    first, second = deployed("dlq", "replay", place), deployed("dlq", "replay", place)
    deployed("evaluator", "--until-idle")

    assert f"{place}  sent to afl.commands" in first.out
    assert f"{place}  was replayed before: not sent again" in second.out
    assert "--again" in second.err
    assert deployed("status", "w8", "--json").document["status"] == "COMPLETED"
    assert places(deployed) == {}
    assert places(deployed, "--handled").keys() == {"w8"}


def test_a_replayed_letter_that_is_given_up_again_names_the_first_one(refused: CommandLine) -> None:
    place = places(refused)["w1"]
    refused("dlq", "replay", place)
    refused("evaluator", "--until-idle")

    again = places(refused, "--workflow", "w1")["w1"]

    assert again != place
    assert refused("dlq", "show", again, "--json").document["replayed_from"] == place
    assert f"replay of  {place}" in refused("dlq", "show", again).out


def test_a_dry_run_changes_nothing(refused: CommandLine) -> None:
    before = refused.records()

    for verb in ("replay", "drop"):
        found = refused("dlq", verb, "--all", "--dry-run")
        assert found.code == 0
        assert "2 dead letters would be" in found.err

    assert refused.records() == before
    assert places(refused).keys() == {"w1", "w2"}


def test_all_that_filters_choose_are_replayed(refused: CommandLine) -> None:
    found = refused("dlq", "replay", "--all", "--workflow", "w2", "--json")

    assert [row["sent"] for row in found.document["replayed"]] == [True]
    assert places(refused).keys() == {"w1"}


def test_many_are_handled_only_when_that_is_confirmed(deployed: CommandLine) -> None:
    send(deployed, "afl.control", b"w1", b"{", count=11)
    deployed("evaluator", "--until-idle")

    asked = deployed("dlq", "drop", "--all")
    left = deployed("dlq", "list", "--json").document["count"]
    confirmed = deployed("dlq", "drop", "--all", "--yes", "--because", "a test")

    assert asked.code == 2
    assert "11 dead letters will be dropped: look at them with --dry-run, then give --yes" in asked.err
    assert left == 11
    assert confirmed.code == 0
    assert deployed("dlq", "list", "--json").document["count"] == 0


def test_a_dropped_letter_is_left_out_and_says_why_it_was_dropped(refused: CommandLine) -> None:
    place = places(refused)["w1"]

    dropped, again = refused("dlq", "drop", place, "--because", "sent by mistake"), refused("dlq", "drop", place)

    assert f"{place}  dropped" in dropped.out
    assert f"{place}  was dropped before" in again.out
    assert places(refused).keys() == {"w2"}
    assert refused("dlq", "show", place, "--json").document["dropped_because"] == "sent by mistake"
    assert "sent by mistake" in refused("dlq", "show", place).out
    assert refused("dlq", "replay", place).code == 2
    assert refused("dlq", "replay", place, "--again").code == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("show", "afl.dlq.commands[0]@99"), 3, "there is no dead letter afl.dlq.commands[0]@99"),
        (("show", "afl.dlq.commands"), 2, "expected TOPIC[PARTITION]@OFFSET"),
        (("show", "nowhere[0]@1"), 3, "topic nowhere does not exist"),
        (("replay",), 2, "give the places of dead letters, or --all"),
        (("drop", "afl.dlq.commands[0]@0", "--facet", "net.Note"), 2, "filters go with --all"),
        (("replay", "afl.dlq.commands[0]@99"), 3, "dlq list --handled"),
        (("list", "--since", "yesterday"), 2, "--since yesterday: expected an age such as 2h"),
        (("list", "--since", "1h", "--until", "2h"), 2, "--until 2h: expected a time after that of --since 1h"),
        (("list", "--hop", "nowhere"), 2, "'nowhere' is not one of"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_mistakes_are_told_in_a_line(deployed: CommandLine, words: tuple[str, ...], code: int, said: str) -> None:
    found = deployed("dlq", *words)

    assert found.code == code
    assert said in found.err


def test_a_run_shows_refused_answers_under_the_step_that_waits(
    deployed: CommandLine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AFL_ANSWERS_TOKEN_SECRET", SECRET)
    deployed("start", "Watch", "--input", "hosts=[]", "--id", "w1")
    deployed("evaluator", "--until-idle")
    (step_id,) = deployed.steps("w1", "net.Note")
    send(deployed, "afl.control", b"w1", f'{{"step_id": "{step_id}", "result": {{"ok": true}}}}'.encode())
    deployed("evaluator", "--until-idle")

    shown = deployed("status", "w1")

    assert f"dead letters of step {step_id}:" in shown.out
    assert "AnswerRefused: the answer to step" in shown.out
    assert f"afl-stream dlq show '{places(deployed)['w1']}'" in shown.out
    warned = [record for record in caplog.records if getattr(record, "reason", "") == "AnswerRefused"]
    assert [record.levelname for record in warned] == ["WARNING"]
    assert warned[0].getMessage().endswith("it is listed by: afl-stream dlq list --workflow w1")
    assert vars(warned[0])["workflow_id"] == "w1"


def test_many_dead_letters_of_a_reason_are_warned_of_a_few_times(
    deployed: CommandLine, caplog: pytest.LogCaptureFixture
) -> None:
    send(deployed, "afl.control", b"w1", b"{", count=50)
    deployed("evaluator", "--until-idle")

    assert deployed("dlq", "list", "--json").document["count"] == 50
    assert len([record for record in caplog.records if getattr(record, "reason", "") == "bad_json"]) == 10


def test_an_agent_warns_of_its_dead_letters_with_the_reason_and_the_command(
    deployed: CommandLine, caplog: pytest.LogCaptureFixture
) -> None:
    send(deployed, "afl.events.net.Note", b"w1:0a", b"\x00 no event", count=30)
    deployed("agent", "--handlers", deployed.handlers, "--until-idle")

    warned = [record for record in caplog.records if getattr(record, "reason", "")]
    assert len(warned) == 10
    assert warned[0].getMessage().endswith("it is listed by: afl-stream dlq list --workflow w1")
    assert (vars(warned[0])["step_id"], vars(warned[0])["topic"]) == ("w1:0a", "afl.events.net.Note")


def test_the_hops_of_the_option_are_those_of_letters() -> None:
    assert [hop.value for hop in Hop] == list(HOPS)
