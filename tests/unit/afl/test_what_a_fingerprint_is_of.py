"""A program's fingerprint: its subject, what stands beside it, and that neither can be forged."""

from __future__ import annotations

import copy
import hashlib
import json
import zlib
from typing import Any

import pytest

from afl.compiled.annotations import pack
from afl.compiled.program import CompiledProgram, ProgramError, WrongFingerprint
from afl.compiler import compile_text
from afl.emitter import JSONEmitter
from afl.evaluation.evaluator import Evaluator
from afl.formatting import format_text
from afl.parser import AFLParser
from afl.stores.memory.store import MemoryStore

SOURCE = """
/** Greets. */
namespace greet {
  event facet Ask(name: String = "you") => (answer: String)
  // Asks once.
  workflow Hello(name: String) => (text: String) andThen {
    a = Ask(name = $.name)
    yield Hello(text = a.answer ++ "!")
  }
}
"""


def program(text: str = SOURCE) -> CompiledProgram:
    return CompiledProgram(compile_text(text).program_json)


@pytest.mark.parametrize(
    "text",
    [
        SOURCE.replace("a = Ask", "a  =  Ask"),
        SOURCE.replace("  // Asks once.\n", ""),
        SOURCE.replace("Asks once", "Asks one time"),
        SOURCE.replace("\n", "\r\n"),
        SOURCE.replace("\n", "\n\n"),
        SOURCE.replace("Greets.", "Greets somebody."),
        SOURCE.replace("/** Greets. */\n", ""),
        format_text(SOURCE),
    ],
    ids=["space", "no comment", "comment", "line ends", "blank lines", "doc comment", "no doc comment", "afl fmt"],
)
def test_a_fingerprint_is_the_same_however_the_source_is_laid_out(text: str) -> None:
    assert text != SOURCE
    assert program(text).fingerprint == program().fingerprint
    assert program(text).text == program().text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"!"', '"?"'),
        ('"you"', '"me"'),
        ("$.name", '"name"'),
        ("answer: String", "answer: Json"),
        ("a = Ask(name = $.name)", "b = Ask(name = $.name) a = Ask(name = $.name)"),
        ("event facet Ask", "facet Ask"),
        ("namespace greet", "namespace greets"),
    ],
)
def test_a_fingerprint_changes_with_what_a_program_does(before: str, after: str) -> None:
    assert program(SOURCE.replace(before, after)).fingerprint != program().fingerprint


def test_a_fingerprint_does_not_change_with_the_name_of_the_file() -> None:
    emitter = JSONEmitter(include_provenance=True)
    named = [
        emitter.emit_dict(AFLParser().parse(SOURCE, source_id=name)) for name in ("file://a.afl", "file://b/c.afl")
    ]

    assert named[0] != named[1]
    assert {CompiledProgram(tree).fingerprint for tree in named} == {program().fingerprint}


def test_the_text_of_a_program_says_no_places_and_no_doc_comments() -> None:
    assert b"location" not in program().text
    assert b"Greets" not in program().text
    assert hashlib.sha256(program().text).hexdigest() == program().fingerprint


def test_what_is_written_by_hand_keeps_what_only_looks_like_a_place() -> None:
    def with_default(default: object) -> CompiledProgram:
        facet = {"type": "FacetDecl", "name": "F", "params": [{"name": "p", "type": "Json", "default": default}]}
        return CompiledProgram({"type": "Program", "declarations": [facet]})

    data = [
        {"location": {"line": 1}},
        {"location": {"line": 2}},
        {"type": "String", "value": {"type": "Namespace", "location": {"line": 1}, "doc": {"description": "a"}}},
        {"type": "String", "value": {"type": "Namespace", "location": {"line": 2}, "doc": {"description": "a"}}},
        {"type": "String", "value": {"type": "Namespace", "location": {"line": 2}, "doc": {"description": "b"}}},
        {"type": "InputRef", "path": ["a"], "location": {"line": "1"}},
        {"type": "InputRef", "path": ["a"], "location": {"line": 1, "more": 1}},
        {"type": "InputRef", "path": ["a"], "doc": {"description": "a"}},
    ]

    assert len({with_default(default).fingerprint for default in data}) == len(data)


def test_a_stored_program_has_its_places_and_doc_comments_again() -> None:
    stored = CompiledProgram.stored(program().fingerprint, program().text, program().annotations)

    assert stored.tree == program().tree
    assert stored.workflow("Hello").line == 6
    assert (stored.fingerprint, stored.text, stored.annotations) == (
        program().fingerprint,
        program().text,
        program().annotations,
    )


def test_a_program_of_an_earlier_release_keeps_its_fingerprint_and_does_the_same() -> None:
    whole = json.dumps(program().tree, sort_keys=True, separators=(",", ":")).encode()
    fingerprint = hashlib.sha256(whole).hexdigest()

    stored = CompiledProgram.stored(fingerprint, whole)

    assert fingerprint != program().fingerprint
    assert (stored.fingerprint, stored.text, stored.annotations) == (fingerprint, whole, b"")
    assert stored.behaviour == program().behaviour == program().fingerprint
    assert stored.workflow("Hello").line == 6


def test_the_text_of_a_fingerprint_may_be_laid_out_otherwise() -> None:
    stored = CompiledProgram.stored(program().fingerprint, json.dumps(program().tree, indent=2))

    assert (stored.text, stored.annotations) == (program().text, program().annotations)
    assert stored.workflow("Hello").line == 6


def test_data_that_is_named_like_an_annotation_hides_none() -> None:
    tree = compile_text(SOURCE).program_json
    tree["declarations"][0]["declarations"][0]["params"][0].update(type="Json", default={"doc": 1})
    whole = CompiledProgram(tree)

    stored = CompiledProgram.stored(whole.fingerprint, whole.text, whole.annotations)

    assert stored.tree == tree
    assert stored.fingerprint == whole.fingerprint


@pytest.mark.parametrize("text", [program(SOURCE.replace('"!"', '"?"')).text, b"{}", b"no json", program().text[:-1]])
def test_another_text_under_a_fingerprint_is_refused(text: bytes) -> None:
    with pytest.raises(ProgramError):
        CompiledProgram.stored(program().fingerprint, text, program().annotations)


def test_the_refusal_names_both_fingerprints() -> None:
    other = program(SOURCE.replace('"!"', '"?"'))
    with pytest.raises(WrongFingerprint) as refused:
        CompiledProgram.stored(program().fingerprint, other.text)
    assert program().fingerprint in str(refused.value)
    assert other.fingerprint in str(refused.value)


def every_node(key: str, value: object) -> list[Any]:
    """Annotations that put a value on each of the first hundred nodes."""
    return [[number, value, None] if key == "location" else [number, None, value] for number in range(100)]


@pytest.mark.parametrize(
    "annotations",
    [
        b"no zlib",
        zlib.compress(b"no json"),
        zlib.compress(b"{}"),
        zlib.compress(b"[[1]]"),
        zlib.compress(b"[" * 100_000),
        pack([["0", {"line": 1}, None]]),
        pack([[10**30, {"line": 1}, None], [-1, {"line": 1}, None]]),
        pack(every_node("location", [1, 2])),
        pack(every_node("location", {"line": -1})),
        pack(every_node("location", {"line": True})),
        pack(every_node("location", {"line": 10**400})),
        pack(every_node("location", {"line": "1"})),
        pack(every_node("location", {"type": "WorkflowDecl"})),
        pack(every_node("location", "x")),
        pack(every_node("doc", {"description": 1})),
        pack(every_node("doc", {"params": {}})),
        pack(every_node("doc", [{"description": "a"}])),
        pack(every_node("location", {"line": 5, "sourceId": "file://elsewhere"})),
        pack(every_node("doc", {"description": "Sends money.", "params": [], "returns": []})),
    ],
)
def test_annotations_change_nothing_that_a_program_does(annotations: bytes) -> None:
    stored = CompiledProgram.stored(program().fingerprint, program().text, annotations)

    assert CompiledProgram(stored.tree).fingerprint == program().fingerprint
    assert isinstance(stored.workflow("Hello").line, int)
    evaluator = Evaluator(MemoryStore())
    assert evaluator.execute("greet.Hello", {"name": "a"}, stored).error is None


def test_annotations_are_the_same_bytes_for_the_same_source() -> None:
    assert program().annotations == program().annotations != program("\n" + SOURCE).annotations
    assert program(SOURCE).annotations
    assert CompiledProgram(compile_text("facet F()", include_locations=False).program_json).annotations == b""


def test_the_caller_s_tree_is_left_as_it_is() -> None:
    tree = compile_text(SOURCE).program_json
    before = copy.deepcopy(tree)

    _ = CompiledProgram(tree).fingerprint

    assert tree == before
