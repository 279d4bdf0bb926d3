"""AFL: the language, its compiler and its engine.

Names are loaded when they are first used, so that the engine does not pay for the compiler.
"""

from afl.core.lazy_names import lazy_names
from afl.core.release import VERSION

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

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
