"""Settings from file and environment."""

import re
from pathlib import Path

import pytest

from afl.scripts.limits import MEBIBYTE, ScriptLimits
from afl_stream.errors import ConfigError
from afl_stream.settings.config import (
    MASK,
    AgentSettings,
    AnswerSettings,
    KafkaSettings,
    ScriptSettings,
    StreamConfig,
    load_config,
)


def written(folder: Path, text: str) -> Path:
    file = folder / "afl-stream.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_defaults_hold_where_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    config = load_config(environ={})

    assert config == StreamConfig()
    assert config.prefix == "afl."
    assert config.topics.control_partitions == 6
    assert config.topics.event_partitions == 12
    assert config.evaluator_group == "afl.evaluator"
    assert config.agent_group("billing.Pay") == "afl.agent.billing.Pay"
    assert config.store_path == Path(".afl/store.sqlite3")
    assert config.log_path == Path(".afl/log.sqlite3")


def test_the_file_in_the_working_directory_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, 'prefix = "acme."')

    assert load_config(environ={}).prefix == "acme."


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, 'prefix = ""\n[agent]\nmax_concurrent = 4\ngrace_s = 5\n[store]\npath = "x.db"')

    config = load_config(file, {"AFL_AGENT_MAX_CONCURRENT": "9", "AFL_OTHER": "ignored", "AFL_EVALUATOR_PORT": "x"})

    assert config.prefix == ""
    assert config.agent == AgentSettings(max_concurrent=9, grace_s=5)
    assert config.store_path == Path("x.db")
    assert config.evaluator_group == "evaluator"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prefix = ", "is not a readable TOML file: Invalid value"),
        ("prefix = 7", "prefix: found 7, expected a string"),
        ('prefix = "a b"', "prefix: found 'a b', expected at most 100 characters"),
        ("prefx = 'a'", r"prefx: found 'a': no such key; did you mean prefix\?"),
        (
            "[agent]\nmax_concurent = 1",
            "agent.max_concurent: found 1: no such key; did you mean max_concurrent",
        ),
        ("[agent]\nmax_concurrent = 0", "agent.max_concurrent: found 0, expected 1 or more"),
        ("[agent]\nmax_concurrent = true", "agent.max_concurrent: found True, expected a whole number"),
        ("[agent]\nmax_concurrent = '4'", "agent.max_concurrent: found '4', expected a whole number"),
        ("agent = 4", r"agent: found 4, expected a table \[agent\]"),
        ("transport = 'pigeon'", "transport: found 'pigeon', expected one of auto, embedded, kafka"),
        ("[topics]\nfacet_template = 'events'", "topics.facet_template: found 'events'"),
        ("[topics]\nfacet_template = '{tenant}{facet}'", "topics.facet_template: found"),
        ("[evaluator]\ngroup = '{facet}'", "evaluator.group: found '{facet}'"),
        ("[agent]\ngroup = ''", "agent.group: found ''"),
        ("[answers]\ntoken_secret = 7", r"answers.token_secret: found '\*+', expected a string"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_with_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=rf"afl-stream\.toml:? {said}"):
        load_config(written(tmp_path, text), {})


@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        ("AFL_AGENT_GRACE_S", "soon", "agent.grace_s: found 'soon', expected a whole number"),
        ("AFL_AGENT_GRACE_S", "-1", "agent.grace_s: found -1, expected 0 or more"),
        ("AFL_PREFIX", "a/b", "prefix: found 'a/b'"),
        (
            "AFL_AGENT_MAX_CONCURENT",
            "3",
            "found '3': no such variable; did you mean AFL_AGENT_MAX_CONCURRENT?",
        ),
        ("AFL_ANSWERS_TOKEN_SECRETS", "hush-hush", f"found '{MASK}': no such variable; did you mean"),
        ("AFL_BOOTSTRAP", "a:1", "no such variable; did you mean AFL_KAFKA_BOOTSTRAP?"),
        ("AFL_DATA_DIR", "a", "no such variable; did you mean AFL_EMBEDDED_DATA_DIR?"),
        ("AFL_PREFX", "a.", "prefx: found 'a.': no such variable; did you mean AFL_PREFIX?"),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(tmp_path: Path, variable: str, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"environment {variable}: .*{re.escape(said)}"):
        load_config(written(tmp_path, ""), {variable: text})


def test_a_file_that_was_asked_for_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing"):
        load_config(tmp_path / "gone.toml", {})


def test_secrets_are_masked_wherever_settings_are_shown() -> None:
    config = StreamConfig(answers=AnswerSettings(token_secret="hush"))

    assert config.describe()["answers.token_secret"] == MASK
    assert "hush" not in repr(config)
    assert StreamConfig().describe()["answers.token_secret"] is None


def test_every_setting_says_what_it_is_for() -> None:
    for key in StreamConfig().describe():
        section, _, name = key.rpartition(".")
        owner = getattr(StreamConfig(), section) if section else StreamConfig()
        assert owner.__dataclass_fields__[name].metadata["meaning"]


@pytest.mark.parametrize(
    ("transport", "bootstrap", "is_kafka"),
    [
        ("auto", None, False),
        ("auto", "broker:9092", True),
        ("embedded", "broker:9092", False),
        ("kafka", "broker:9092", True),
    ],
)
def test_kafka_carries_the_records_when_it_is_chosen_or_has_an_address(
    transport: str, bootstrap: str | None, is_kafka: bool
) -> None:
    assert StreamConfig(transport=transport, kafka=KafkaSettings(bootstrap=bootstrap)).is_kafka is is_kafka


def test_each_setting_at_fault_is_looked_for_where_it_stands(tmp_path: Path) -> None:
    file = written(tmp_path, "[agent]\nwindow = 0\n[evaluator]\nbatch_records = 7")

    with pytest.raises(ConfigError, match=r"afl-stream\.toml: agent\.window: found 0"):
        load_config(file, {"AFL_EVALUATOR_BATCH_RECORDS": "8"})
    assert load_config(file, {"AFL_AGENT_WINDOW": "9"}).agent.window == 9


def test_a_variable_may_choose_what_another_one_completes(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, ""), {"AFL_TRANSPORT": "kafka", "AFL_KAFKA_BOOTSTRAP": "b:1"})

    assert config.is_kafka


def test_lost_records_stop_an_evaluator_unless_it_is_told_to_continue(tmp_path: Path) -> None:
    file = written(tmp_path, "[evaluator]\nlost_records = 'continue'")

    assert StreamConfig().evaluator.lost_records == "stop"
    assert load_config(file, {}).evaluator.lost_records == "continue"
    with pytest.raises(
        ConfigError, match=r"AFL_EVALUATOR_LOST_RECORDS: evaluator\.lost_records: .* one of stop, continue"
    ):
        load_config(file, {"AFL_EVALUATOR_LOST_RECORDS": "skip"})


@pytest.mark.parametrize("written_as", ["true", "True", "1", "yes"])
def test_yes_may_be_written_in_the_environment_in_the_usual_ways(written_as: str, tmp_path: Path) -> None:
    file = written(tmp_path, "[evaluator]\nallow_scripts = false")

    assert load_config(file, {"AFL_EVALUATOR_ALLOW_SCRIPTS": written_as}).evaluator.allow_scripts


def test_scripts_are_not_allowed_unless_somebody_says_so(tmp_path: Path) -> None:
    file = written(tmp_path, "[evaluator]\nallow_scripts = true\n[scripts]\nwall_s = 5")

    assert not load_config(environ={}).evaluator.allow_scripts
    assert load_config(file, {}).evaluator.allow_scripts
    assert load_config(file, {}).scripts == ScriptSettings(wall_s=5)
    assert not load_config(file, {"AFL_EVALUATOR_ALLOW_SCRIPTS": "no"}).evaluator.allow_scripts


@pytest.mark.parametrize(
    ("text", "environment", "said"),
    [
        ("[evaluator]\nallow_scripts = 1", {}, "allow_scripts: found 1, expected true or false"),
        ('[evaluator]\nallow_scripts = "yes"', {}, "allow_scripts: found 'yes', expected true or false"),
        ("", {"AFL_EVALUATOR_ALLOW_SCRIPTS": "perhaps"}, "allow_scripts: found 'perhaps', expected true or false"),
        ("[scripts]\nmemory_mib = 32", {}, "scripts.memory_mib: found 32, expected 96 or more"),
    ],
)
def test_settings_of_scripts_that_say_nothing_are_refused(
    text: str, environment: dict[str, str], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=said):
        load_config(written(tmp_path, text), environment)


def test_scripts_have_the_limits_of_the_sandbox_by_default() -> None:
    settings, limits = ScriptSettings(), ScriptLimits()

    assert (settings.wall_s, settings.cpu_s) == (limits.wall_s, limits.cpu_s)
    assert settings.memory_mib * MEBIBYTE == limits.memory_bytes
    assert (settings.output_bytes, settings.printed_bytes) == (limits.output_bytes, limits.printed_bytes)
