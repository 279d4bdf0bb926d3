"""The files that code is written to: those of types are replaced, those of handlers are left once they are there."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY
from pathlib import Path
from typing import Final

from afl.codegen.golang import PACKAGE as GO_PACKAGE
from afl.codegen.golang import TYPES_FILE as GO_FILE
from afl.codegen.golang import GoCode
from afl.codegen.java import PACKAGE as JAVA_PACKAGE
from afl.codegen.java import TYPES_FILE as JAVA_FILE
from afl.codegen.java import JavaCode
from afl.codegen.model import Model, model_of
from afl.codegen.python import HANDLERS_FILE, PythonCode
from afl.codegen.python import TYPES_FILE as PYTHON_FILE
from afl.codegen.typescript import TYPES_FILE as TYPESCRIPT_FILE
from afl.codegen.typescript import TypeScriptCode
from afl.compiled.program import CompiledProgram
from afl.core.frozen import frozen

#: The text of the types in each language, and the file that they stand in.
_TYPES: Final[Mapping[str, tuple[str, Callable[[Model, str | None], str]]]] = {
    "python": (PYTHON_FILE, lambda model, _package: PythonCode(model).types()),
    "typescript": (TYPESCRIPT_FILE, lambda model, _package: TypeScriptCode(model).types()),
    "java": (JAVA_FILE, lambda model, package: JavaCode(model, package or JAVA_PACKAGE).types()),
    "go": (GO_FILE, lambda model, package: GoCode(model, package or GO_PACKAGE).types()),
}
LANGUAGES: Final = tuple(_TYPES)
#: The languages whose files say which package they are of.
PACKAGED: Final = ("java", "go")


@frozen
class Code:
    """The code of a program in one language."""

    _: KW_ONLY
    language: str
    model: Model
    package: str | None = None

    @property
    def types(self) -> str:
        """The text of the types."""
        return _TYPES[self.language][1](self.model, self.package)

    def write(self, folder: Path) -> list[tuple[Path, str]]:
        """Write the files, and return each with what became of it: written, unchanged, or kept.

        Python in a folder of its own is a package. Raises OSError.
        """
        folder.mkdir(parents=True, exist_ok=True)
        done = [_replaced(folder / _TYPES[self.language][0], self.types)]
        if self.language == "python":
            is_package = _is_package(folder)
            if is_package:
                done.append(_kept(folder / "__init__.py", ""))
            done.append(self._write_handlers(folder / HANDLERS_FILE, "." if is_package else ""))
        return done

    def _write_handlers(self, path: Path, package: str) -> tuple[Path, str]:
        code = PythonCode(self.model)
        path, outcome = _kept(path, code.handlers(package + PYTHON_FILE.removesuffix(".py")))
        missing = code.unnamed_in(path.read_text(encoding="utf-8"))
        return path, f"{outcome}; it has no handler for {', '.join(missing)}" if missing else outcome


def code_of(
    program: CompiledProgram,
    language: str,
    sources: Sequence[str] = (),
    *,
    nullable: bool = False,
    package: str | None = None,
) -> Code:
    """Return the code of a program's event facets and schemas."""
    return Code(language=language, model=model_of(program, sources, nullable=nullable), package=package)


def _is_package(folder: Path) -> bool:
    """Return whether modules in a folder import each other as those of a package.

    A new folder becomes one. A folder that has handlers, and is none, stays as it is.
    """
    if (folder / "__init__.py").exists():
        return True
    if (folder / HANDLERS_FILE).exists():
        return False
    name = folder.resolve().name
    return folder.resolve() != Path.cwd() and name.isidentifier() and not keyword.iskeyword(name)


def _replaced(path: Path, text: str) -> tuple[Path, str]:
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return path, "unchanged"
    path.write_text(text, encoding="utf-8")
    return path, "written"


def _kept(path: Path, text: str) -> tuple[Path, str]:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return path, "kept"
    return path, "written"
