"""Publishing sources to MongoDB and compiling with them, over the wire."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from afl.cli import main
from afl.compiler import compile_text
from afl.config import AFLConfig, MongoDBConfig
from afl.loader import SourceLoader, SourceNotFound
from afl.parser import parse
from afl.publisher import PublishError, SourcePublisher
from afl.resolver import MongoDBNamespaceResolver
from afl.source import CompilerInput, FileOrigin, MongoDBOrigin, SourceEntry
from afl.sources.mongo import MongoDBUnavailable, MongoSources
from afl_stream.broker.ports import free_ports

_LIB = "namespace lib.money { facet Twice(n: Int) => (n2: Int = $.n * 2) }"
_USER = """namespace shop {
    use lib.money
    workflow W(n: Int) => (n2: Int) andThen { t = Twice(n = $.n) yield W(n2 = t.n2) }
}"""


@pytest.fixture
def database(mongodb: MongoDBConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MongoDBConfig:
    """Return an empty database, which the commands of the test use, in an empty folder."""
    (tmp_path / "afl.config.json").write_text(json.dumps({"mongodb": mongodb.to_dict()}))
    monkeypatch.chdir(tmp_path)
    return mongodb


def written(**texts: str) -> None:
    for name, text in texts.items():
        Path(f"{name}.afl").write_text(text)


def stored(config: MongoDBConfig, collection: str) -> list[Mapping[str, Any]]:
    with MongoClient[dict[str, Any]](config.connection_string()) as client:
        return list(client[config.database][collection].find({}, {"_id": 0}))


def sources(*texts: str) -> CompilerInput:
    return CompilerInput([SourceEntry(text, FileOrigin(f"{n}.afl")) for n, text in enumerate(texts)])


def test_what_is_published_is_found_by_its_namespace(
    database: MongoDBConfig, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    written(lib=_LIB, user=_USER)

    assert main(["publish", "lib.afl"]) == 0
    out = capsysbinary.readouterr().out.decode().splitlines()
    assert out[0] == "published lib.money latest"
    assert main(["user.afl"]) == 1
    assert b"namespace 'lib.money' does not exist" in capsysbinary.readouterr().err
    assert main(["user.afl", "--mongo-resolve", "--include-provenance"]) == 0
    program = json.loads(capsysbinary.readouterr().out)
    assert [item["name"] for item in program["declarations"]] == ["shop", "lib.money"]
    assert program["declarations"][1]["location"]["provenance"] == {
        "type": "mongodb",
        "collectionId": "afl_sources",
        "displayName": "lib.money",
    }
    assert main(["run", "user.afl", "--mongo-resolve", "-i", "n=4"]) == 0
    assert json.loads(capsysbinary.readouterr().out) == {"n2": 8}


def test_a_publication_is_a_flow_that_can_be_named(
    database: MongoDBConfig, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    written(lib=_LIB, user=_USER)
    assert main(["publish", "lib.afl", "--json"]) == 0
    done = json.loads(capsysbinary.readouterr().out)

    assert main(["user.afl", "--mongo", f"{done['flowId']}:{done['name']}"]) == 0
    assert len(json.loads(capsysbinary.readouterr().out)["declarations"]) == 2
    (flow,) = stored(database, "flows")
    assert flow["name"] == {"name": "lib.money", "path": "lib.money@latest", "uuid": done["flowId"]}
    assert [(text["name"], text["language"]) for text in flow["compiled_sources"]] == [
        ("lib.afl", "afl"),
        ("program.json", "json"),
    ]
    assert json.loads(flow["compiled_sources"][1]["content"]) == compile_text(_LIB, "file://lib.afl").program_json


def test_several_files_are_published_together(
    database: MongoDBConfig, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    written(a="namespace a facet A()", a2="namespace a { facet A2() } namespace b { facet B() }", c="namespace c { }")

    assert main(["publish", "a.afl", "a2.afl", "c.afl", "--json"]) == 0
    done = json.loads(capsysbinary.readouterr().out)
    assert [(item["name"], item["changed"], item["origins"]) for item in done["namespaces"]] == [
        ("a", True, ["file://a.afl", "file://a2.afl"]),
        ("b", True, ["file://a.afl", "file://a2.afl"]),
        ("c", True, ["file://c.afl"]),
    ]
    found = MongoDBNamespaceResolver(database).batch_find(["a", "b", "c", "d"])
    assert sorted(found) == ["a", "b", "c"]
    # A namespace that two files open is found whole.
    assert [[facet.sig.name for facet in space.facets] for space in parse(found["a"]).namespaces] == [
        ["A"],
        ["A2"],
        ["B"],
    ]
    assert found["a"] == found["b"]


def test_a_wrong_program_is_not_published(database: MongoDBConfig, capsys: pytest.CaptureFixture[str]) -> None:
    written(bad="namespace bad { facet F(x: Nope) }", good=_LIB)

    assert main(["publish", "good.afl", "bad.afl"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "error[REF_UNKNOWN_TYPE]: Unknown type 'Nope'" in err
    assert err.endswith("Error: the program has errors; nothing is published\n")
    assert stored(database, "afl_sources") == stored(database, "flows") == []
    assert main(["publish", "bad.afl", "--json"]) == 1
    refused = json.loads(capsys.readouterr().out)
    assert (refused["published"], refused["diagnostics"][0]["code"]) == (False, "REF_UNKNOWN_TYPE")


def test_what_comes_may_use_what_is_there(database: MongoDBConfig, capsys: pytest.CaptureFixture[str]) -> None:
    written(lib=_LIB, user=_USER)

    assert main(["publish", "user.afl"]) == 1
    assert main(["publish", "lib.afl"]) == 0
    assert main(["publish", "user.afl"]) == 0
    assert "published shop latest" in capsys.readouterr().out
    # The library was only compiled along: it stays what it was.
    assert [(item["namespace_name"], item["origin"]) for item in stored(database, "afl_sources")] == [
        ("lib.money", "file://lib.afl"),
        ("shop", "file://user.afl"),
    ]


def test_publishing_again_changes_only_what_changed(database: MongoDBConfig) -> None:
    publisher = SourcePublisher(AFLConfig(database))
    first = publisher.publish(sources("namespace a { }", "namespace b { }"), name="mine")
    before = stored(database, "afl_sources")

    again = publisher.publish(sources("namespace a { facet A() }", "namespace b { }"), name="mine")

    assert again.flow_id == first.flow_id
    assert [(item.name, item.is_changed) for item in again.namespaces] == [("a", True), ("b", False)]
    after = stored(database, "afl_sources")
    assert (len(after), after[1]) == (2, before[1])
    assert len(stored(database, "flows")) == 1


def test_a_version_keeps_its_text_unless_forced(database: MongoDBConfig) -> None:
    publisher = SourcePublisher(AFLConfig(database))
    publisher.publish(sources("namespace a { }"), version="1.0")
    publisher.publish(sources("namespace a { }"), version="1.0")

    with pytest.raises(PublishError, match=r"version 1\.0 of a is published with another text"):
        publisher.publish(sources("namespace a { facet A() }"), version="1.0")
    assert MongoDBNamespaceResolver(database, "1.0").find_namespace("a") == "namespace a { }"
    assert MongoDBNamespaceResolver(database).find_namespace("a") is None
    publisher.publish(sources("namespace a { facet A() }"), version="1.0", force=True)
    assert MongoDBNamespaceResolver(database, "1.0").find_namespace("a") == "namespace a { facet A() }"


def test_what_has_no_namespace_cannot_be_published(database: MongoDBConfig) -> None:
    with pytest.raises(PublishError, match="the sources open no namespace"):
        SourcePublisher(AFLConfig(database)).publish(sources("facet F()"))


def test_what_is_published_is_listed_and_can_be_taken_back(
    database: MongoDBConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    written(lib=_LIB)
    assert main(["publish", "lib.afl"]) == 0
    capsys.readouterr()

    assert main(["publish", "--list"]) == 0
    line = capsys.readouterr().out
    assert line.startswith("lib.money latest  ")
    assert line.endswith(" UTC  file://lib.afl\n")
    assert main(["publish", "--list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["namespaces_defined"] == ["lib.money"]
    assert main(["publish", "--remove", "lib.money"]) == 0
    assert main(["publish", "--remove", "lib.money"]) == 1
    assert capsys.readouterr().err == "Error: lib.money is not published in version latest\n"
    assert stored(database, "afl_sources") == []


def texts_of_c() -> list[dict[str, str]]:
    return [{"name": "c.afl", "content": "namespace c { }"}, {"name": "c.py", "content": "", "language": "python"}]


def test_a_flow_is_loaded_with_its_afl_texts_only(database: MongoDBConfig) -> None:
    texts = [
        ("a.afl", "namespace a { }", "afl"),
        ("x.py", "import this", "python"),
        ("b.afl", "namespace b { }", "afl"),
    ]
    flow = {
        "uuid": "f1",
        "compiled_sources": [{"name": name, "content": text, "language": language} for name, text, language in texts],
    }
    with MongoSources(database) as opened:
        opened.write(flow, [])
        opened.write({"uuid": "f2", "compiled_sources": []}, [])
        opened.write({"uuid": "f3", "compiled_sources": flow["compiled_sources"][1:2], "sources": texts_of_c()}, [])

    entry = SourceLoader.load_mongodb("f1", "Mine", config=database)
    assert SourceLoader.load_mongodb("f1", "Mine", config=AFLConfig(mongodb=database)) == entry
    assert SourceLoader.load_mongodb("f3", "Mine", config=database).text.split() == ["namespace", "c", "{", "}"]

    assert entry.text.split() == ["namespace", "a", "{", "}", "namespace", "b", "{", "}"]
    assert (entry.origin, entry.is_library) == (MongoDBOrigin("f1", "Mine"), True)
    with pytest.raises(SourceNotFound, match=r"Flow not found in MongoDB: f0 \(Mine\)"):
        SourceLoader.load_mongodb("f0", "Mine", config=database)
    with pytest.raises(ValueError, match=r"Flow f2 \(Mine\) has no AFL sources"):
        SourceLoader.load_mongodb("f2", "Mine", config=database)


def test_a_server_that_is_away_is_told_without_the_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (port,) = free_ports(1)
    written_to = tmp_path / "afl.config.json"
    url = f"mongodb://kim:secret@127.0.0.1:{port}/?serverSelectionTimeoutMS=200"
    written_to.write_text(json.dumps({"mongodb": {"url": url}}))
    monkeypatch.chdir(tmp_path)
    written(user=_USER)

    assert main(["check", "--mongo-resolve", "user.afl"]) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"Error: MongoDB at mongodb://127.0.0.1:{port}")
    assert "refused" in err
    assert "secret" not in err
    assert "Traceback" not in err


def test_a_url_that_makes_no_sense_is_told() -> None:
    with pytest.raises(MongoDBUnavailable, match="the MongoDB url http://x"):
        MongoSources(MongoDBConfig(url="http://x"))
