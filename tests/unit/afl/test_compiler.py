"""Compiling texts and files, and what is raised when that fails."""

import gc
import subprocess
import sys
from pathlib import Path

import pytest

import afl
from afl.compiler import compile_files, compile_text
from afl.errors import CompileError, ParseError, SourceUnreadable
from afl.parser import AFLParser
from afl.validator import AFLValidator, ValidationError, ValidationResult, validate

from .programs import BILLING, EVERYTHING


def test_a_program_with_warnings_compiles_and_tells_them() -> None:
    compiled = compile_text("workflow W()", "w.afl")

    assert compiled.program_json["declarations"][0]["name"] == "W"
    assert [(item.code, item.source_id) for item in compiled.diagnostics] == [("WORKFLOW_AT_TOP_LEVEL", "w.afl")]


def test_a_refusal_holds_all_errors_and_names_them() -> None:
    with pytest.raises(CompileError) as caught:
        compile_text("namespace a { facet F(x: Nope) facet F() }", "f.afl")

    assert [item.code for item in caught.value.diagnostics] == ["REF_UNKNOWN_TYPE", "DUPLICATE_NAME"]
    assert str(caught.value) == (
        "the program has 2 errors:\n"
        "f.afl:1:26: error[REF_UNKNOWN_TYPE]: Unknown type 'Nope'\n"
        "f.afl:1:38: error[DUPLICATE_NAME]: Duplicate facet name 'F': a facet of that name is declared on line 1\n"
        "Error: 2 errors in f.afl"
    )


def test_a_refusal_lists_twenty_errors_at_most_in_its_text() -> None:
    with pytest.raises(CompileError, match=r"the program has 25 errors:(.|\n)*\.\.\. and 5 more\n") as caught:
        compile_text("namespace a { " + "facet F() " * 26 + "}")

    assert len(caught.value.diagnostics) == 25


def test_files_are_compiled_as_one_program(tmp_path: Path) -> None:
    (tmp_path / "a.afl").write_text("namespace a { use b facet F() andThen { s = G() } }")
    (tmp_path / "b.afl").write_text("namespace b { facet G() }")

    compiled = compile_files([tmp_path / "a.afl", str(tmp_path / "b.afl")])

    assert [item["name"] for item in compiled.program_json["declarations"]] == ["a", "b"]
    assert compiled.diagnostics == ()


def test_every_file_with_a_syntax_error_is_named(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.afl").write_text("facet")

    with pytest.raises(CompileError) as caught:
        compile_files([tmp_path / "a.afl", tmp_path / "b.afl"])

    assert [item.source_id for item in caught.value.diagnostics] == [f"file://{tmp_path}/{n}.afl" for n in "ab"]


@pytest.mark.parametrize(("content", "reason"), [(b"facet F() //\xff", r"Not UTF-8 \(byte 0xff at offset 12\)")])
def test_a_file_that_is_not_utf_8_is_refused_with_the_offset(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "x.afl"
    path.write_bytes(content)

    with pytest.raises(SourceUnreadable, match=reason):
        AFLParser().parse_file(path)


def test_a_missing_file_and_a_directory_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreadable, match=r"File not found: .*none\.afl"):
        compile_files([tmp_path / "none.afl"])
    with pytest.raises(SourceUnreadable, match="this is a directory"):
        compile_files([tmp_path])
    with pytest.raises(SourceUnreadable, match="Cannot be read"):
        compile_files(["a\0b"])


def test_a_parsed_file_knows_its_path_in_errors(tmp_path: Path) -> None:
    path = tmp_path / "x.afl"
    path.write_text("facet")

    with pytest.raises(ParseError) as caught:
        AFLParser().parse_file(path)

    assert caught.value.source_id == f"file://{path}"


def test_the_package_offers_its_names_and_no_others() -> None:
    assert all(getattr(afl, name) is not None for name in afl.__all__)
    assert {"parse", "Program", "emit_json", "validate", "FileOrigin", "CompileError"} <= set(dir(afl))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        afl.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_the_validator_gives_errors_and_warnings_apart() -> None:
    result = AFLValidator().validate(afl.parse("workflow W() schema S { }"))

    assert not result.is_valid
    assert [str(item) for item in result.errors] == [
        "Schema 'S' must be defined inside a namespace at line 1, column 14"
    ]
    assert [item.code for item in result.warnings] == ["WORKFLOW_AT_TOP_LEVEL"]
    assert validate(afl.parse(BILLING)).is_valid


def test_a_validation_result_takes_errors_of_others() -> None:
    result = ValidationResult()
    result.add_error("odd", afl.SourceLocation(3, 4))
    result.add_error("even")

    assert result.errors == [ValidationError("odd", 3, 4), ValidationError("even")]
    assert [str(item) for item in result.errors] == ["odd at line 3, column 4", "even"]


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("facet F() event facet F()", "Duplicate event facet name 'F'"),
        ("schema S { x: Int x: Int }", "Duplicate schema field name 'x'"),
        ("facet F() andThen { a = F2() a = F2() } facet F2()", "Duplicate step name 'a'"),
        ("facet F() => (x: Int) andThen { yield F() yield F() }", "Duplicate yield target 'F'"),
        ("facet G(x: Int) facet F() andThen { a = G(x = $.q) }", "Invalid input reference '$.q'"),
        ("facet G(x: Int) facet F() andThen { a = G(x = q.y) }", "Reference to undefined step 'q'"),
        ("facet G(x: Int) facet F() andThen { a = G(x = q.x) q = G(x = 1) }", "undefined step 'q'"),
        (
            "facet G() => (y: Int) facet F() andThen { a = G() b = G() yield F(z = a.q) }",
            "Invalid attribute 'q' for step",
        ),
        ("facet F() andThen { yield X() }", "Invalid yield target 'X'"),
        ("facet F() andThen { yield X() }", "containing facet or one of its mixins"),
        ("use q facet F()", "Invalid use statement: namespace 'q' does not exist"),
        ("facet F() andThen { s = a.b.X() }", "Unknown facet 'a.b.X'"),
        ("facet F(x: X)", "Unknown type 'X'"),
        ("facet F(x: a.X)", "Unknown schema 'a.X'"),
        ("schema S { } facet F() andThen { s = S(f = 1) }", "Unknown field 'f' for schema 'S'"),
        ('facet F(x: Json = "a" + 1)', "Type error: arithmetic operator '+' with String operand"),
        ("facet F(x: Json = 1 + true)", "Type error: arithmetic operator '+' with Boolean operand"),
        ('facet F(x: Json = -"a")', "cannot negate String operand"),
        ("facet F(x: Json = -true)", "cannot negate Boolean operand"),
    ],
)
def test_messages_keep_the_words_that_users_look_for(text: str, fragment: str) -> None:
    result = validate(afl.parse(f"namespace n {{ {text} }}"))

    assert any(fragment in item.message for item in result.errors)


@pytest.mark.parametrize("text", [BILLING, EVERYTHING])
def test_a_compiled_programs_tree_is_free_without_the_collector(text: str) -> None:
    compile_text(text)
    gc.collect()
    gc.disable()
    try:
        before = sum(issubclass(type(item), afl.ASTNode) for item in gc.get_objects())
        compiled = compile_text(text)
        after = sum(issubclass(type(item), afl.ASTNode) for item in gc.get_objects())
    finally:
        gc.enable()

    assert compiled.program_json["type"] == "Program"
    assert after == before


def test_a_mixin_of_the_runtime_is_compared_with_no_other_name() -> None:
    script = (
        "import sys\n"
        "from afl.compiler import compile_text\n"
        "compile_text('namespace n { facet F() event facet G() with Timeout(ms = 5) with Retry(times = 2) }')\n"
        "print('difflib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"
