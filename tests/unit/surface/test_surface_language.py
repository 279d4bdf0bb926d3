"""The language's front end: tree nodes, signatures, texts that people match on, and the command's options."""

from __future__ import annotations

from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from afl import ast, cli
from afl.config import AFLConfig, MongoDBConfig, load_config
from afl.emitter import emit_dict, emit_json
from afl.parser import parse
from afl.source import CompilerInput, FileOrigin, MavenOrigin, MongoDBOrigin, SourceEntry
from afl.validator import ValidationError, ValidationResult, validate


def test_a_block_knows_its_first_yield() -> None:
    tree = parse("facet F() => (x: Long) andThen { yield F(x = 1) }")
    body = tree.facets[0].body

    assert isinstance(body, ast.AndThenBlock)
    assert body.block is not None
    assert body.block.yield_stmt is body.block.yield_stmts[0]
    assert ast.Block([], []).yield_stmt is None


def test_origins_have_their_ids() -> None:
    assert FileOrigin("a/b.afl").to_source_id() == "file://a/b.afl"
    assert MongoDBOrigin("c", "d").to_source_id() == "mongodb://c/d"
    assert MavenOrigin("g", "a", "1").to_source_id() == "maven://g/a/1"
    assert MavenOrigin("g", "a", "1", "sources").to_source_id() == "maven://g/a/1/sources"
    assert SourceEntry("", FileOrigin("x")).source_id == "file://x"


def test_primary_sources_come_first() -> None:
    first, second = SourceEntry("a", FileOrigin("a")), SourceEntry("b", FileOrigin("b"), is_library=True)

    assert CompilerInput([first], [second]).all_sources == [first, second]


def test_an_error_of_the_validator_reads_with_its_place() -> None:
    assert str(ValidationError("msg", 3, 4)) == "msg at line 3, column 4"
    assert str(ValidationError("msg")) == "msg"
    assert ValidationResult().is_valid


def test_configs_are_read_from_dictionaries_and_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("URL", "USERNAME", "PASSWORD", "AUTH_SOURCE", "DATABASE"):
        monkeypatch.setenv(f"AFL_MONGODB_{name}", name.lower())
    reported = MongoDBConfig(
        url="url", username="username", password="password", auth_source="auth_source", database="database"
    )

    assert MongoDBConfig.from_env() == reported
    assert MongoDBConfig.from_dict({"authSource": "x"}).auth_source == "x"
    assert MongoDBConfig.from_dict(reported.to_dict()) == reported
    assert AFLConfig.from_env().mongodb == reported
    assert AFLConfig.from_dict(AFLConfig(mongodb=reported).to_dict()).mongodb == reported
    (tmp_path / "c.json").write_text('{"mongodb": {"database": "other"}}')
    assert load_config(tmp_path / "c.json").mongodb.database == "other"
    monkeypatch.setenv("AFL_CONFIG", str(tmp_path / "c.json"))
    assert load_config().mongodb.database == "other"


MISTAKES: list[tuple[str, str]] = [
    ("facet A()\nfacet A()", "Duplicate facet name 'A'"),
    ("event facet A()\nfacet A()", "Duplicate"),
    ("workflow A()\nworkflow A()", "Duplicate workflow name 'A'"),
    ("namespace n { schema S { x: Long }\n schema S { y: Long } }", "Duplicate schema name 'S'"),
    ("namespace n { schema S { x: Long, x: Long } }", "Duplicate schema field name 'x'"),
    ("facet F()\nworkflow W() andThen { a = F()\n a = F() }", "Duplicate step name 'a'"),
    ("workflow W(a: Long) => (x: Long) andThen { yield W(x = $.b) }", "Invalid input reference '$.b'"),
    ("workflow W() => (x: Long) andThen { yield W(x = s.x) }", "Reference to undefined step 's'"),
    (
        "facet F() => (x: Long)\nworkflow W() => (x: Long) andThen { s = F()\n yield W(x = s.y) }",
        "Invalid attribute 'y' for step 's'",
    ),
    (
        "facet F(x: Long) => (x: Long)\nworkflow W() andThen { step1 = F(x = step2.x)\n step2 = F(x = 1) }",
        "undefined step 'step2'",
    ),
    ("facet F() => (x: Long)\nworkflow W() andThen { yield F(x = 1) }", "Invalid yield target 'F'"),
    ("namespace n { use missing.one\n facet F() }", "Invalid use statement: namespace 'missing.one' does not exist"),
    (
        "namespace a { facet F() }\nnamespace b { facet F() }\nworkflow W() andThen { s = F() }",
        "Ambiguous facet reference 'F'",
    ),
    ("workflow W() andThen { s = a.b.X() }", "Unknown facet 'a.b.X'"),
    ("facet F(x: Mystery)", "Unknown type 'Mystery'"),
    ("facet F(x: a.Mystery)", "Unknown schema 'a.Mystery'"),
    (
        "namespace n { schema S { x: Long }\n workflow W() andThen { s = S(y = 1) } }",
        "Unknown field 'y' for schema 'S'",
    ),
    ("workflow W(s: String) => (x: Long) andThen { yield W(x = $.s + 1) }", "Type error:"),
    ("workflow W(s: String) => (x: Long) andThen { yield W(x = -$.s) }", "cannot negate String"),
    ('event facet F() prompt { system "s" }', "Prompt block must have a 'template' directive"),
    ('event facet F() prompt { template "{p}" }', "Invalid placeholder '{p}' in template"),
]


@pytest.mark.parametrize(("source", "fragment"), MISTAKES)
def test_a_mistake_is_told_in_the_words_that_people_know(source: str, fragment: str) -> None:
    result = validate(parse(source))

    assert not result.is_valid
    assert any(fragment in str(error) for error in result.errors), [str(error) for error in result.errors]


def test_the_emitted_text_may_be_one_line() -> None:
    assert "\n" not in emit_json(parse("facet F()"), indent=None).strip()
    assert emit_dict(parse("facet F()"), include_locations=False)["type"] == "Program"


def ran(*args: str) -> tuple[int, str, str]:
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = cli.main(list(args))
    return code, out.getvalue(), err.getvalue()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "a.afl"
    path.write_text("namespace n { facet F(x: Long) }\n")
    return path


def test_the_command_compiles_to_the_standard_output_or_to_a_file(source: Path, tmp_path: Path) -> None:
    code, out, _ = ran(str(source), "--no-locations", "--compact")
    assert (code, out.count("\n") <= 1, '"Namespace"' in out) == (0, True, True)

    target = tmp_path / "a.json"
    assert ran("compile", "--primary", str(source), "-o", str(target))[0] == 0
    assert '"Namespace"' in target.read_text()
    assert ran(str(source), "--include-provenance")[0] == 0


def test_without_an_argument_the_command_reads_the_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", StringIO("namespace n { facet F() }"))
    code, out, _ = ran()

    assert (code, '"Namespace"' in out) == (0, True)


def test_the_command_checks_and_says_what_is_wrong(source: Path, tmp_path: Path) -> None:
    code, _, err = ran(str(source), "--check")
    assert code == 0
    assert "OK" in err

    code, _, err = ran(str(tmp_path / "missing.afl"))
    assert code == 1
    assert "File not found" in err
    source.write_text("facet F(x: Mystery)\n")
    assert ran(str(source))[0] == 1
    assert ran(str(source), "--no-validate")[0] == 0


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["x.afl", "--primary", "y.afl"], "Cannot use positional input"),
        (["--mongo", "nothing"], "Invalid MongoDB spec"),
        (["--maven", "one"], "Invalid Maven spec"),
    ],
)
def test_the_command_says_which_argument_it_cannot_use(args: list[str], text: str, source: Path) -> None:
    code, _, err = ran(*[str(source) if arg == "x.afl" else arg for arg in args])

    assert code == 1
    assert text in err


def test_a_config_without_an_environment_is_for_a_server_on_this_machine() -> None:
    assert MongoDBConfig().url == "mongodb://localhost:27017"
