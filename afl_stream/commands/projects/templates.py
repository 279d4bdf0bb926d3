"""The templates of projects, and what a project is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from afl_stream.commands.refusals import CommandRefused

_FOLDER: Final = Path(__file__).with_name("templates")
#: What every project has.
_COMMON: Final = "common"
#: The ending of a template's files: they are neither modules nor pages of this tree.
_ENDING: Final = ".tmpl"
_PROGRAM: Final = "workflow.afl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A kind of project. `next_command` runs it."""

    about: str
    next_command: str
    #: The module that registers handlers in tests.
    handlers: str = "handlers"


TEMPLATES: Final[Mapping[str, Template]] = {
    "basic": Template(
        about="two event facets, one of them side by side",
        next_command="afl-stream dev workflow.afl --handlers handlers"
        ' --input customer=Ann --input \'articles=["tea", "milk"]\'',
    ),
    "saga": Template(
        about="what fails takes back all that was done before it",
        next_command="afl-stream dev workflow.afl --handlers handlers"
        " --input order=17 --input article=anvil --input card=4711 --input amount=30",
    ),
    "approval": Template(
        about="waits for a person's yes, for days",
        next_command="afl-stream dev workflow.afl --handlers handlers --id desk-1 --input item=desk --timeout 2",
    ),
    "rag": Template(
        about="answers questions from documents, with Claude",
        next_command='afl-stream dev workflow.afl --handlers rehearsal --input question="May I return a lamp?"',
        handlers="rehearsal",
    ),
}
#: What the file of each name is for, in a project's README.
_FILES: Final = {
    "workflow.afl": "the workflow, and the event facets that agents answer",
    "handlers.py": "the agent: a function for each event facet",
    "search.py": "the search in the documents",
    "rehearsal.py": "the same agent with a stand-in for Claude",
    "afl_types.py": "classes of payloads and results; `afl codegen workflow.afl --lang python -o .` writes it anew",
    "test_workflow.py": "tests: the whole workflow, and handlers by themselves",
    "conftest.py": "what runs the workflow in tests",
    "afl-stream.toml": "settings, with comments",
}
_ONWARDS: Final = """\
After a change of `workflow.afl`, write `afl_types.py` anew; `mypy` then finds each handler that no longer fits.

On a Kafka cluster, with its address in `AFL_KAFKA_BOOTSTRAP` or in `afl-stream.toml`, evaluator and agent are
processes of their own: `afl-stream topics apply workflow.afl`, `afl-stream deploy workflow.afl`, then `afl-stream
evaluator` and `afl-stream agent --handlers handlers`. With `--check` the agent says whether handlers and deployed
facets go together."""


def project_files(name: str, template: str) -> dict[str, str]:
    """Return the files of a project by their paths, with the types of its event facets."""
    files = dict(sorted([*_texts(_COMMON), *_texts(template)]))
    files["afl_types.py"] = _types(files[_PROGRAM])
    listed = "\n".join(f"| `{path}` | {about} |" for path, about in _FILES.items() if path in files)
    values = {
        "name": name,
        "handlers": TEMPLATES[template].handlers,
        "files": f"| file | what it is |\n|---|---|\n{listed}",
        "onwards": _ONWARDS,
    }
    for path, text in files.items():
        for key, value in values.items():
            text = text.replace("{{" + key + "}}", value)
        files[path] = text
    return dict(sorted(files.items()))


def write_project(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files of a project into a folder that is new or empty. Raises CommandRefused, and OSError."""
    if folder.exists() and not folder.is_dir():
        raise CommandRefused(f"{folder} is a file; name a folder that does not exist, or that is empty")
    there = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    if there:
        raise CommandRefused(
            f"{folder} is not empty: it holds {', '.join(there[:3])}{', ...' if there[3:] else ''};"
            " nothing was written; name a folder that does not exist, or that is empty"
        )
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def _texts(template: str) -> Iterator[tuple[str, str]]:
    root = _FOLDER / template
    for path in root.rglob(f"*{_ENDING}"):
        yield path.relative_to(root).as_posix().removesuffix(_ENDING), path.read_text(encoding="utf-8")


def _types(program: str) -> str:
    from afl.codegen.writing import code_of
    from afl.compiled.program import CompiledProgram
    from afl.compiler import compile_text

    return code_of(CompiledProgram(compile_text(program).program_json), "python", [_PROGRAM]).types
