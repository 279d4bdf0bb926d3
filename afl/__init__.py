"""AFL: the language, its compiler and its engine.

Names are loaded when they are first used, so that the engine does not pay for the compiler.
"""

from typing import TYPE_CHECKING

from afl.core.lazy_names import lazy_names
from afl.core.release import VERSION

if TYPE_CHECKING:
    from afl.ast import AndThenBlock as AndThenBlock
    from afl.ast import ArrayLiteral as ArrayLiteral
    from afl.ast import ArrayType as ArrayType
    from afl.ast import ASTNode as ASTNode
    from afl.ast import BinaryExpr as BinaryExpr
    from afl.ast import Block as Block
    from afl.ast import CallExpr as CallExpr
    from afl.ast import CatchClause as CatchClause
    from afl.ast import ConcatExpr as ConcatExpr
    from afl.ast import Doc as Doc
    from afl.ast import DocEntry as DocEntry
    from afl.ast import EventFacetDecl as EventFacetDecl
    from afl.ast import FacetDecl as FacetDecl
    from afl.ast import FacetSig as FacetSig
    from afl.ast import ForeachClause as ForeachClause
    from afl.ast import ImplicitDecl as ImplicitDecl
    from afl.ast import IndexExpr as IndexExpr
    from afl.ast import Literal as Literal
    from afl.ast import MapEntry as MapEntry
    from afl.ast import MapLiteral as MapLiteral
    from afl.ast import MixinCall as MixinCall
    from afl.ast import MixinSig as MixinSig
    from afl.ast import NamedArg as NamedArg
    from afl.ast import Namespace as Namespace
    from afl.ast import Parameter as Parameter
    from afl.ast import Program as Program
    from afl.ast import PromptBlock as PromptBlock
    from afl.ast import Reference as Reference
    from afl.ast import ReturnClause as ReturnClause
    from afl.ast import SchemaDecl as SchemaDecl
    from afl.ast import SchemaField as SchemaField
    from afl.ast import ScriptBlock as ScriptBlock
    from afl.ast import SourceLocation as SourceLocation
    from afl.ast import StepStmt as StepStmt
    from afl.ast import SysAssertStmt as SysAssertStmt
    from afl.ast import SysLogStmt as SysLogStmt
    from afl.ast import TypeRef as TypeRef
    from afl.ast import UnaryExpr as UnaryExpr
    from afl.ast import UsesDecl as UsesDecl
    from afl.ast import WhenBlock as WhenBlock
    from afl.ast import WhenCase as WhenCase
    from afl.ast import WorkflowDecl as WorkflowDecl
    from afl.ast import YieldStmt as YieldStmt
    from afl.compiler import Compiled as Compiled
    from afl.compiler import compile_files as compile_files
    from afl.compiler import compile_text as compile_text
    from afl.config import AFLConfig as AFLConfig
    from afl.config import MongoDBConfig as MongoDBConfig
    from afl.config import ResolverConfig as ResolverConfig
    from afl.config import load_config as load_config
    from afl.diagnostics import Diagnostic as Diagnostic
    from afl.diagnostics import Severity as Severity
    from afl.emitter import JSONEmitter as JSONEmitter
    from afl.emitter import emit_dict as emit_dict
    from afl.emitter import emit_json as emit_json
    from afl.errors import AFLError as AFLError
    from afl.errors import CompileError as CompileError
    from afl.errors import ParseError as ParseError
    from afl.errors import SourceUnreadable as SourceUnreadable
    from afl.loader import SourceLoader as SourceLoader
    from afl.parser import AFLParser as AFLParser
    from afl.parser import parse as parse
    from afl.publisher import PublishError as PublishError
    from afl.publisher import SourcePublisher as SourcePublisher
    from afl.resolver import DependencyResolver as DependencyResolver
    from afl.resolver import MongoDBNamespaceResolver as MongoDBNamespaceResolver
    from afl.resolver import NamespaceIndex as NamespaceIndex
    from afl.source import CompilerInput as CompilerInput
    from afl.source import FileOrigin as FileOrigin
    from afl.source import MavenOrigin as MavenOrigin
    from afl.source import MongoDBOrigin as MongoDBOrigin
    from afl.source import SourceEntry as SourceEntry
    from afl.source import SourceOrigin as SourceOrigin
    from afl.source import SourceRegistry as SourceRegistry
    from afl.validator import AFLValidator as AFLValidator
    from afl.validator import ValidationError as ValidationError
    from afl.validator import ValidationResult as ValidationResult
    from afl.validator import validate as validate

__version__ = VERSION

_AST_NAMES = (
    "ASTNode AndThenBlock ArrayLiteral ArrayType BinaryExpr Block CallExpr CatchClause ConcatExpr Doc DocEntry "
    "EventFacetDecl FacetDecl FacetSig ForeachClause ImplicitDecl IndexExpr Literal MapEntry MapLiteral MixinCall "
    "MixinSig NamedArg Namespace Parameter Program PromptBlock Reference ReturnClause SchemaDecl SchemaField "
    "ScriptBlock SourceLocation StepStmt SysAssertStmt SysLogStmt TypeRef UnaryExpr UsesDecl WhenBlock WhenCase "
    "WorkflowDecl YieldStmt"
)
_HOMES = {
    "afl.ast": _AST_NAMES,
    "afl.compiler": "Compiled compile_files compile_text",
    "afl.config": "AFLConfig MongoDBConfig ResolverConfig load_config",
    "afl.diagnostics": "Diagnostic Severity",
    "afl.emitter": "JSONEmitter emit_dict emit_json",
    "afl.errors": "AFLError CompileError ParseError SourceUnreadable",
    "afl.loader": "SourceLoader",
    "afl.parser": "AFLParser parse",
    "afl.publisher": "PublishError SourcePublisher",
    "afl.resolver": "DependencyResolver MongoDBNamespaceResolver NamespaceIndex",
    "afl.source": ("CompilerInput FileOrigin MavenOrigin MongoDBOrigin SourceEntry SourceOrigin SourceRegistry"),
    "afl.validator": "AFLValidator ValidationError ValidationResult validate",
}

__all__ = sorted(["__version__", *" ".join(_HOMES.values()).split()])

if not TYPE_CHECKING:
    # Out of sight of type checkers: they would take any name for one of this package.
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
