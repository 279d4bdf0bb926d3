"""AFL texts of requests: checked, compiled, and kept beside the embedded log so that later calls find their lines."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from afl.compiled.program import CompiledProgram
from afl.compiler import CheckedInput, check_input, compile_files
from afl.core.errors import AFLError
from afl.core.process.private_files import make_private_file, make_private_folder
from afl.core.strictness import Strictness
from afl.diagnostics import Diagnostic
from afl.source import MAX_SOURCE_BYTES, CompilerInput, FileOrigin, SourceEntry
from afl_stream.mcp.bounds import TEXT_CHARS, listed
from afl_stream.mcp.shapes import Finding, finding_of
from afl_stream.mcp.tool import Arguments, Values
from afl_stream.settings.config import StreamConfig

#: Findings of one answer.
MOST_FINDINGS: Final = 30
#: Where the texts of programs are kept that were started from a text, below the data folder.
_KEPT: Final = "sources"


class SourceArguments(Arguments):
    """The texts of one program."""

    source: str = Field(description="The AFL text.")
    filename: str = Field(
        default="workflow.afl", min_length=1, max_length=500, description="What findings call the text."
    )
    other_sources: Annotated[Values, Field(description="Further texts of the same program, by file name.")] = {}
    strictness: Literal["lenient", "program", "strict"] = Field(
        default="program",
        description="program: unknown names are errors, as before a start; lenient: they are warnings; "
        "strict: all warnings are errors.",
    )


class SourceRefused(AFLError):
    """Texts are no program: what was found is in the message, the first findings with their places."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        errors = [finding for finding in findings if finding.severity == "error"]
        lines = [
            f"{finding.file}:{finding.line}:{finding.column}: error[{finding.code}]: {finding.message}"
            + (f"; help: {finding.help}" if finding.help else "")
            for finding in errors[:5]
        ]
        more = f"\n... and {len(errors) - 5} more; afl_validate has all" if len(errors) > 5 else ""
        super().__init__("the text does not compile, and nothing was started:\n" + "\n".join(lines) + more)


class SourceTooLarge(AFLError):
    """A text is larger than the compiler takes."""

    def __init__(self, name: str, size: int) -> None:
        super().__init__(f"{name[:TEXT_CHARS]} has {size:,} bytes; a text may have {MAX_SOURCE_BYTES:,}: split it")


class NotAText(AFLError):
    """A source is given that is no text."""

    def __init__(self, name: str) -> None:
        super().__init__(f"other_sources: {name[:TEXT_CHARS]}: expected its text, found another value")


@dataclass(frozen=True, slots=True)
class Checked:
    """What the compiler found in texts, and how many errors and warnings there are."""

    findings: list[Finding]
    errors: int
    warnings: int
    analysis: CheckedInput


def texts_of(arguments: SourceArguments) -> dict[str, str]:
    """Return the texts by their names. Raises SourceTooLarge and NotAText."""
    texts = {arguments.filename: arguments.source}
    for name, text in arguments.other_sources.items():
        if not isinstance(text, str):
            raise NotAText(name)
        texts[name] = text
    for name, text in texts.items():
        if (size := len(text.encode("utf-8", "surrogatepass"))) > MAX_SOURCE_BYTES:
            raise SourceTooLarge(name, size)
    return texts


def checked(texts: Mapping[str, str], strictness: str) -> Checked:
    """Return what the compiler finds in texts, taken together; errors first."""
    sources = CompilerInput([SourceEntry(text, FileOrigin(name)) for name, text in texts.items()])
    analysis = check_input(sources, strictness=Strictness(strictness))
    found: Sequence[Diagnostic] = analysis.diagnostics
    by_id = {FileOrigin(name).to_source_id(): text for name, text in texts.items()}
    ordered = sorted(found, key=lambda diagnostic: not diagnostic.is_error)
    errors = sum(diagnostic.is_error for diagnostic in found)
    return Checked(
        [finding_of(diagnostic, by_id.get(diagnostic.source_id or "")) for diagnostic in ordered],
        errors,
        len(found) - errors,
        analysis,
    )


def program_to_start(config: StreamConfig, texts: Mapping[str, str], strictness: str) -> CompiledProgram:
    """Compile texts that are to be started, and keep them as files: lines of steps are shown from there.

    Raises SourceRefused.
    """
    found = checked(texts, strictness)
    if found.errors:
        raise SourceRefused(found.findings)
    folder = config.data_dir / _KEPT
    make_private_folder(folder)
    paths = [_kept(folder, name, text) for name, text in texts.items()]
    compiled = compile_files(paths, strictness=Strictness(strictness), include_sources=True)
    return CompiledProgram(compiled.program_json)


def _kept(folder: Path, name: str, text: str) -> Path:
    """Keep a text under its digest and what is harmless of its name."""
    stem = "".join(char for char in Path(name).stem if char.isascii() and (char.isalnum() or char in "-_"))[:40]
    path = folder / f"{stem or 'workflow'}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.afl"
    make_private_file(path)
    path.write_text(text, encoding="utf-8", newline="")
    return path


def workflow_names(program: CompiledProgram) -> list[str]:
    """Return the qualified names of a program's workflows."""
    return [found.qualified_name for found in program.workflows()]


class WorkflowToChoose(AFLError):
    """A program has no workflow, or several, and none was named."""

    def __init__(self, names: Sequence[str]) -> None:
        told = f"name one of them as `workflow`: {listed(names)}" if names else "the text declares none"
        super().__init__(f"which workflow is to be started? {told}")
