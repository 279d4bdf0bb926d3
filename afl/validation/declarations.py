"""Check declarations: defaults, mixins, prompt, and the statements that run in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from afl import ast
from afl.compiled.names import Kind
from afl.core.text.placeholders import PLACEHOLDER
from afl.validation.calls import CallChecker
from afl.validation.constants import ConstantChecker
from afl.validation.expressions import ExpressionChecker
from afl.validation.findings import Findings, listed, name_place
from afl.validation.scopes import Scope
from afl.validation.signatures import Signature, Slot, alias_place
from afl.validation.statements import ScopeObserver, StatementChecker
from afl.validation.symbols import Symbols
from afl.validation.unset_returns import check_unset_returns


class DeclarationChecker:
    """Checker of the declarations and implicits of a program, one by one."""

    def __init__(self, symbols: Symbols, findings: Findings, observer: ScopeObserver | None = None) -> None:
        self._findings = findings
        self._report = findings.report
        expressions = ExpressionChecker(symbols, findings)
        self._constants = ConstantChecker(findings, expressions)
        self._calls = CallChecker(symbols, findings, expressions)
        self._statements = StatementChecker(symbols, findings, expressions, self._calls, observer)
        self._implicits = symbols.implicits

    def check_implicits(self) -> None:
        for implicit, part in self._implicits:
            self._calls.check_implicit(implicit, part)

    def check(self, signature: Signature) -> None:
        """Check everything inside one declaration."""
        node = signature.node
        if node.doc is not None and node.doc.sensitive:
            self._check_sensitive(signature, node.doc.sensitive)
        if isinstance(node, ast.SchemaDecl):
            return
        self._check_defaults(signature, node.sig)
        if signature.mixins:
            self._check_mixins(signature)
        if isinstance(node.body, ast.PromptBlock):
            self._check_prompt(node.body, signature)
        self._statements.check_declaration(signature, node.body, node.catch)
        check_unset_returns(signature, self._findings)

    def _check_sensitive(self, signature: Signature, tags: Iterable[ast.DocEntry]) -> None:
        known = dict.fromkeys((*signature.params, *signature.returns))
        for tag in tags:
            if tag.name not in known:
                hint = self._findings.did_you_mean(tag.name, known)
                facts = {"name": tag.name, "owner": signature.name, "known": listed(known)}
                self._report("SENSITIVE_UNKNOWN", tag.location, hint=hint, **facts)

    def _check_defaults(self, signature: Signature, sig: ast.FacetSig) -> None:
        """Check the defaults, which may use constants and names bound earlier; returns come after all parameters."""
        earlier: set[str] = set()
        for item in sig.params:
            if item.default is not None:
                self._check_default(signature, item, item.default, earlier, signature.params)
            earlier.add(item.name)
        for item in sig.returns.params if sig.returns is not None else ():
            if item.default is not None:
                self._check_default(signature, item, item.default, earlier, signature.returns)

    def _check_default(
        self,
        owner: Signature,
        item: ast.Parameter,
        default: ast.Expression,
        earlier: Iterable[str],
        slots: Mapping[str, Slot],
    ) -> None:
        scope = Scope(declaration=owner, is_binding=True)
        slot = slots[item.name]
        self._constants.check(default, slot, item.name, "DEFAULT_NOT_CONSTANT", scope, frozenset(earlier))

    def _check_mixins(self, signature: Signature) -> None:
        """Check the mixins of a signature, whose arguments see only its parameters."""
        scope = Scope(declaration=signature, is_binding=True)
        taken = {
            **dict.fromkeys(signature.returns, "a return"),
            **dict.fromkeys(signature.params, "a parameter"),
        }
        for mixin in signature.mixins:
            self._calls.check_mixin(mixin, scope, signature)
            alias = mixin.node.alias
            if alias is None:
                continue
            self._calls.check_sub_step(mixin, signature.part)
            if alias in taken:
                self._report("MIXIN_ALIAS_NAME_CONFLICT", alias_place(mixin.node), name=alias, what=taken[alias])
            taken.setdefault(alias, "another alias")

    def _check_prompt(self, prompt: ast.PromptBlock, signature: Signature) -> None:
        place = name_place(prompt.location, "prompt")
        if signature.kind is not Kind.EVENT_FACET:
            self._report("PROMPT_NOT_EVENT", place, name=signature.name)
        if prompt.template is None:
            self._report("PROMPT_MISSING_TEMPLATE", place)
        for directive, text in (("system", prompt.system), ("template", prompt.template)):
            for name in dict.fromkeys(PLACEHOLDER.findall(text or "")):
                if name and name not in signature.params and name not in signature.scripted and not signature.is_open:
                    self._report(
                        "PROMPT_INVALID_PLACEHOLDER",
                        prompt.places.get(directive, place),
                        hint=self._findings.did_you_mean(name, signature.params),
                        name=name,
                        directive=directive,
                        known=listed(signature.params),
                    )
