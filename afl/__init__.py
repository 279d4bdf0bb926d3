"""AFL: the language, its compiler and its engine.

Names are loaded when they are first used, so that the engine does not pay for the compiler.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

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
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = sorted(["__version__", *_HOME_OF])


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOME_OF]
