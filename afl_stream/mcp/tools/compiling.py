"""Tools that look at AFL texts: `afl_validate` and `afl_compile`. They change nothing."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from afl.compiled.program import CompiledProgram, Declaration
from afl.emitter import emit_dict
from afl_stream.mcp.bounds import PAGE_CHARS, json_text, page_within
from afl_stream.mcp.deployment import Deployment
from afl_stream.mcp.shapes import Finding
from afl_stream.mcp.sources import MOST_FINDINGS, Checked, SourceArguments, checked, texts_of
from afl_stream.mcp.tool import Result, Tool
from afl_stream.visibility.programs import signature

#: Declarations of one answer.
_MOST_DECLARATIONS = 200


class Validation(Result):
    """What the compiler finds in a text."""

    ok: bool = Field(description="No errors: it can be compiled and started.")
    errors: int
    warnings: int
    findings: list[Finding] = Field(description=f"At most {MOST_FINDINGS}, errors first.")
    omitted: int = Field(default=0, description="Findings that are left out: mend those above first.")


class CompileArguments(SourceArguments):
    """A program to compile."""

    include_program: bool = Field(default=False, description="Also return the compiled JSON, in pages.")
    offset: int = Field(default=0, ge=0, description="Where the page of the compiled JSON begins, in characters.")


class Declared(BaseModel):
    """One declaration of a program."""

    kind: str
    name: str
    signature: str
    doc: str | None = None


class Compilation(Validation):
    """A compiled program, or why there is none."""

    program: str | None = Field(default=None, description="Its fingerprint.")
    declarations: list[Declared] = []
    omitted_declarations: int = 0
    program_json: str | None = Field(default=None, description="A page of the compiled JSON.")
    next_offset: int | None = Field(default=None, description="The offset of the next page; absent: this is the last.")


def _validate(_deployment: Deployment, arguments: SourceArguments) -> Validation:
    return Validation(**_counted(checked(texts_of(arguments), arguments.strictness)))


def _compile(_deployment: Deployment, arguments: CompileArguments) -> Compilation:
    found = checked(texts_of(arguments), arguments.strictness)
    if found.errors:
        return Compilation(**_counted(found))
    tree = emit_dict(found.analysis.program)
    program = CompiledProgram(tree)
    declared = [one for one in program.declarations.values() if not one.is_library]
    shown = page_within(
        [declared_of(one) for one in declared[:_MOST_DECLARATIONS]], lambda one: len(one.model_dump_json())
    )
    whole = json_text(tree) if arguments.include_program else ""
    end = arguments.offset + PAGE_CHARS
    return Compilation(
        **_counted(found),
        program=program.fingerprint,
        declarations=list(shown),
        omitted_declarations=len(declared) - len(shown),
        program_json=whole[arguments.offset : end] if arguments.include_program else None,
        next_offset=end if len(whole) > end else None,
    )


def declared_of(declaration: Declaration) -> Declared:
    """Return a declaration as AFL writes its first line."""
    doc = declaration.node.get("doc")
    return Declared(
        kind=declaration.kind.value,
        name=declaration.qualified_name,
        signature=signature(declaration)[:1_000],
        doc=str(doc.get("description", ""))[:500] if isinstance(doc, dict) else None,
    )


def _counted(found: Checked) -> dict[str, Any]:
    shown = page_within(found.findings[:MOST_FINDINGS], lambda finding: len(finding.model_dump_json()))
    return {
        "ok": not found.errors,
        "errors": found.errors,
        "warnings": found.warnings,
        "findings": list(shown),
        "omitted": len(found.findings) - len(shown),
    }


TOOLS = (
    Tool(
        name="afl_validate",
        title="Check an AFL text",
        description="Look for every mistake in an AFL text. Each finding has its file, line and column, a code, and "
        "often what would be right. Call it before a text is started, and again after each change.",
        arguments=SourceArguments,
        result=Validation,
        run=_validate,
    ),
    Tool(
        name="afl_compile",
        title="Compile an AFL text",
        description="Compile an AFL text: its fingerprint and the signatures of its workflows, facets and schemas; "
        "with include_program also the compiled JSON. Nothing is published; afl_execute_workflow does that.",
        arguments=CompileArguments,
        result=Compilation,
        run=_compile,
    ),
)
