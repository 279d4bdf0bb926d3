"""The compiled program: its JSON read into declarations, its fingerprint, and how names in it resolve."""

from typing import TYPE_CHECKING

from afl.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from afl.compiled.program import CALLABLE as CALLABLE
    from afl.compiled.program import SCHEMA_VERSION as SCHEMA_VERSION
    from afl.compiled.program import SCHEMAS as SCHEMAS
    from afl.compiled.program import AmbiguousName as AmbiguousName
    from afl.compiled.program import CompiledProgram as CompiledProgram
    from afl.compiled.program import Declaration as Declaration
    from afl.compiled.program import Implicit as Implicit
    from afl.compiled.program import Kind as Kind
    from afl.compiled.program import Names as Names
    from afl.compiled.program import Node as Node
    from afl.compiled.program import ProgramError as ProgramError
    from afl.compiled.program import ProgramVersionError as ProgramVersionError
    from afl.compiled.program import Resolution as Resolution
    from afl.compiled.program import UnknownName as UnknownName
    from afl.compiled.program import WrongFingerprint as WrongFingerprint
    from afl.compiled.program import blocks_of as blocks_of
    from afl.compiled.program import check_schema_version as check_schema_version
    from afl.compiled.program import column_of as column_of
    from afl.compiled.program import line_of as line_of
    from afl.compiled.program import source_of as source_of

_HOMES = {
    "afl.compiled.program": (
        "AmbiguousName CALLABLE CompiledProgram Declaration Implicit Kind Names Node "
        "ProgramError ProgramVersionError Resolution SCHEMAS SCHEMA_VERSION UnknownName WrongFingerprint "
        "blocks_of check_schema_version column_of line_of source_of"
    ),
}

__all__ = [
    "AmbiguousName",
    "CALLABLE",
    "CompiledProgram",
    "Declaration",
    "Implicit",
    "Kind",
    "Names",
    "Node",
    "ProgramError",
    "ProgramVersionError",
    "Resolution",
    "SCHEMAS",
    "SCHEMA_VERSION",
    "UnknownName",
    "WrongFingerprint",
    "blocks_of",
    "check_schema_version",
    "column_of",
    "line_of",
    "source_of",
]

if not TYPE_CHECKING:
    # Out of sight of type checkers: they would take any name for one of this package.
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "chains",
    "library_mark",
    "names",
    "needs",
    "program",
    "resolved",
    "runtime_mixins",
    "runtime_use",
    "sensitive",
    "sensitive_mark",
)
