"""Settings of the compiler: from files, from the environment, and what is refused."""

import json
from pathlib import Path

import pytest

from afl.cli import main
from afl.config import (
    AFLConfig,
    ConfigUnreadable,
    MongoDBConfig,
    ResolverConfig,
    WrongSetting,
    load_config,
    misspelt_variables,
)
from afl_stream.settings.config import StreamConfig

_FILE = {"mongodb": {"url": "mongodb://db:1", "authSource": "people"}, "resolver": {"sourcePaths": ["lib"]}}


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a current folder and a home with nothing in them."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def test_settings_have_defaults() -> None:
    config = AFLConfig()

    assert config.mongodb == MongoDBConfig("mongodb://localhost:27017", "", "", "admin", "afl")
    assert config.resolver == ResolverConfig([], False, False)
    assert config.mongodb.connection_string() == "mongodb://localhost:27017"


@pytest.mark.parametrize(
    ("url", "string"),
    [
        ("mongodb://db:27017", "mongodb://kim:p%40ss@db:27017/?authSource=people"),
        ("mongodb://a:1,b:2/shop?replicaSet=r", "mongodb://kim:p%40ss@a:1,b:2/shop?replicaSet=r&authSource=people"),
        ("mongodb+srv://else:one@db/?authSource=x", "mongodb+srv://kim:p%40ss@db/?authSource=people"),
    ],
)
def test_a_user_gets_into_the_connection_string(url: str, string: str) -> None:
    config = MongoDBConfig(url=url, username="kim", password="p@ss", auth_source="people")

    assert config.connection_string() == string


def test_a_password_is_not_shown_by_accident() -> None:
    assert "p@ss" not in repr(AFLConfig(MongoDBConfig(password="p@ss")))


def test_settings_survive_the_way_through_a_file() -> None:
    config = AFLConfig(
        MongoDBConfig("mongodb://db:1", "kim", "secret", "people", "shop"), ResolverConfig(["a", "b"], True, True)
    )

    assert AFLConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_settings_are_written_in_snake_case_and_read_in_both() -> None:
    config = AFLConfig(MongoDBConfig(auth_source="people"), ResolverConfig(["lib"], mongodb_resolve=True))

    assert config.to_dict() == {
        "mongodb": {
            "url": "mongodb://localhost:27017",
            "username": "",
            "password": "",
            "auth_source": "people",
            "database": "afl",
        },
        "resolver": {"source_paths": ["lib"], "auto_resolve": False, "mongodb_resolve": True},
    }
    camel = {
        "mongodb": {"authSource": "people"},
        "resolver": {"sourcePaths": ["lib"], "mongodbResolve": True},
    }
    assert AFLConfig.from_dict(camel) == config


def test_names_with_underscores_are_read_too() -> None:
    assert MongoDBConfig.from_dict({"auth_source": "x"}).auth_source == "x"
    assert ResolverConfig.from_dict({"source_paths": ["x"], "auto_resolve": True}) == ResolverConfig(["x"], True)


def test_the_environment_decides_without_a_file(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AFL_MONGODB_URL": "mongodb://db:1",
        "AFL_MONGODB_USERNAME": "kim",
        "AFL_MONGODB_PASSWORD": "secret",
        "AFL_MONGODB_AUTH_SOURCE": "people",
        "AFL_MONGODB_DATABASE": "shop",
        "AFL_SOURCE_PATHS": "a:b",
        "AFL_AUTO_RESOLVE": "yes",
    }.items():
        monkeypatch.setenv(name, value)

    config = load_config()

    assert config.mongodb == MongoDBConfig("mongodb://db:1", "kim", "secret", "people", "shop")
    assert config.resolver == ResolverConfig(["a", "b"], True, False)


def test_the_first_file_that_there_is_counts(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = {
        "named": nowhere / "x.json",
        "here": Path("afl.config.json"),
        "home": Path.home() / ".afl/afl.config.json",
    }
    for database, path in places.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"mongodb": {"database": database}}))
    monkeypatch.setenv("AFL_CONFIG", str(places["named"]))

    assert load_config(places["home"]).mongodb.database == "home"
    assert load_config().mongodb.database == "named"
    monkeypatch.delenv("AFL_CONFIG")
    assert load_config().mongodb.database == "here"
    places["here"].unlink()
    assert load_config().mongodb.database == "home"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "wanted an object, found list"),
        ('{"mongodb": 3}', "the setting mongodb is 3, wanted an object"),
        ('{"mongodb": {"url": null}}', "the setting url is None, wanted a text"),
        ('{"resolver": {"sourcePaths": "lib"}}', "the setting sourcePaths is 'lib', wanted a list of folders"),
        ('{"resolver": {"autoResolve": "no"}}', "the setting autoResolve is 'no', wanted true or false"),
    ],
)
def test_a_file_without_settings_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "afl.config.json"
    path.write_text(text)

    with pytest.raises(ConfigUnreadable) as refused:
        load_config(path)
    assert message in str(refused.value)
    assert str(path) in str(refused.value)


def test_a_named_file_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigUnreadable, match="No such file"):
        load_config(tmp_path / "none.json")


def test_a_flag_of_the_environment_is_yes_or_no(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFL_AUTO_RESOLVE", "perhaps")

    with pytest.raises(WrongSetting, match="AFL_AUTO_RESOLVE is 'perhaps', wanted true or false"):
        load_config()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("AFL_SOURCE_PATH", "AFL_SOURCE_PATHS"),
        ("AFL_MONGODB_URI", "AFL_MONGODB_URL"),
        ("AFL_MONGODB_PASWORD", "AFL_MONGODB_PASSWORD"),
        ("AFL_MAVEN_REPO", "AFL_MAVEN_REPOSITORY"),
        ("AFL_CONFG", "AFL_CONFIG"),
        ("AFL_AUTORESOLVE", "AFL_AUTO_RESOLVE"),
    ],
)
def test_a_misspelt_variable_is_told_with_the_right_one_and_without_its_value(
    written: str,
    meant: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(written, "s3cret")
    (tmp_path / "a.afl").write_text("namespace a { facet F() }")

    assert main(["check", str(tmp_path / "a.afl")]) == 0

    reported = capsys.readouterr().err
    assert f"warning: environment {written}: no such variable; did you mean {meant}?" in reported
    assert "s3cret" not in reported


def test_the_variables_of_others_are_not_taken_for_misspelt_ones() -> None:
    variables = {f"AFL_{key.replace('.', '_')}".upper(): "x" for key in StreamConfig().describe()}

    assert misspelt_variables({**variables, "AFL_EVALUATOR_SERVICE_HOST": "x", "HOME": "/"}) == []


def test_a_named_file_that_is_not_there_is_also_the_error_of_the_system(nowhere: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"the configuration none\.json cannot be read: No such file") as missed:
        load_config("none.json")
    assert isinstance(missed.value, ConfigUnreadable)
