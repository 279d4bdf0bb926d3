"""Build calls, statements, blocks, scripts and prompts while the parser runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from afl import ast
from afl.grammar.lexer import RAW_BODY, Token
from afl.grammar.script_bodies import cut_code
from afl.syntax.tree_base import MAX_BLOCK_DEPTH, Values
from afl.syntax.tree_expressions import ExpressionBuilder

_DIRECTIVES = ("system", "template", "model")


class Tail(NamedTuple):
    """The clauses behind the head of a declaration or the call of a step."""

    body: ast.Body | None = None
    catch: ast.CatchClause | None = None
    pre_script: ast.ScriptBlock | None = None


class BlockBuilder(ExpressionBuilder):
    """The callbacks for blocks, and for everything in and around them."""

    # -- calls and mixins ---------------------------------------------------------------------------------------------

    def call(self, values: Values, first: Token, last: Token) -> ast.CallExpr:
        return ast.CallExpr(values[0], values[2], location=self._span(first, last))

    def call_with_mixins(self, values: Values, first: Token, last: Token) -> ast.CallExpr:
        bare: ast.CallExpr = values[0]
        return ast.CallExpr(bare.name, bare.args, _on_a_call(values[1]), location=self._span(first, last))

    def arg(self, values: Values, first: Token, last: Token) -> ast.NamedArg:
        return ast.NamedArg(values[0].text, values[2], location=self._span(first, last))

    def mixin(self, values: Values, first: Token, last: Token) -> ast.MixinSig:
        return ast.MixinSig(values[0], values[2], location=self._span(first, last))

    def mixin_with_alias(self, values: Values, first: Token, last: Token) -> ast.MixinSig:
        return ast.MixinSig(values[0], values[2], values[5].text, location=self._span(first, last))

    # -- statements ---------------------------------------------------------------------------------------------------

    def statement(self, values: Values, first: Token, last: Token) -> ast.StepStmt:
        return ast.StepStmt(values[0].text, values[2], location=self._span(first, last))

    def statement_with_tail(self, values: Values, first: Token, last: Token) -> ast.StepStmt:
        tail: Tail = values[3]
        return ast.StepStmt(values[0].text, values[2], tail.body, tail.catch, location=self._span(first, last))

    def sys_log(self, values: Values, first: Token, last: Token) -> ast.SysLogStmt:
        return ast.SysLogStmt(values[4], location=self._span(first, last))

    def sys_assert(self, values: Values, first: Token, last: Token) -> ast.SysAssertStmt:
        return ast.SysAssertStmt(values[4], location=self._span(first, last))

    def give(self, values: Values, first: Token, last: Token) -> list[ast.YieldStmt]:
        return [ast.YieldStmt(values[1], location=self._span(first, last))]

    def give_with_mixins(self, values: Values, first: Token, last: Token) -> list[ast.YieldStmt]:
        """Return one yield for each target: a yield with mixins is short for that.

        The keyword occurs once only, so every yield but the first begins at the name of its target.
        """
        call: ast.CallExpr = values[1]
        own = call.location or self._span(first, last)
        return [
            ast.YieldStmt(call, location=own._replace(line=first.line, column=first.column)),
            *(
                ast.YieldStmt(ast.CallExpr(item.name, item.args, location=item.location), location=item.location)
                for item in values[2]
            ),
        ]

    # -- blocks -------------------------------------------------------------------------------------------------------

    def block(self, values: Values, first: Token, last: Token) -> ast.Block:
        return ast.Block(values[1], location=self._span(first, last))

    def block_with_yields(self, values: Values, first: Token, last: Token) -> ast.Block:
        return ast.Block(values[1], values[2], location=self._span(first, last))

    def follow(self, values: Values, first: Token, last: Token) -> ast.AndThenBlock:
        node = ast.AndThenBlock(values[1], location=self._span(first, last))
        self._deepen_blocks(node, [node.block], first)
        return node

    def follow_foreach(self, values: Values, first: Token, last: Token) -> ast.AndThenBlock:
        source: ast.Reference = values[4]
        clause = ast.ForeachClause(values[2].text, source, location=self._span(values[1], values[2]))
        node = ast.AndThenBlock(values[5], clause, location=self._span(first, last))
        self._deepen_blocks(node, [node.block], first)
        return node

    def follow_when(self, values: Values, first: Token, last: Token) -> ast.AndThenBlock:
        when: ast.WhenBlock = values[1]
        node = ast.AndThenBlock(ast.Block(), when=when, location=self._span(first, last))
        self._deepen_blocks(node, [case.block for case in when.cases], first)
        return node

    def follow_script(self, values: Values, first: Token, last: Token) -> ast.AndThenBlock:
        return ast.AndThenBlock(ast.Block(), script=values[1], location=self._span(first, last))

    def rescue(self, values: Values, first: Token, last: Token) -> ast.CatchClause:
        node = ast.CatchClause(values[1], location=self._span(first, last))
        self._deepen_blocks(node, [node.block], first)
        return node

    def rescue_when(self, values: Values, first: Token, last: Token) -> ast.CatchClause:
        when: ast.WhenBlock = values[1]
        node = ast.CatchClause(ast.Block(), when, location=self._span(first, last))
        self._deepen_blocks(node, [case.block for case in when.cases], first)
        return node

    def when(self, values: Values, first: Token, last: Token) -> ast.WhenBlock:
        return ast.WhenBlock(values[2], location=self._span(first, last))

    def case(self, values: Values, first: Token, last: Token) -> ast.WhenCase:
        return ast.WhenCase(values[3], values[1], location=self._span(first, last))

    def default_case(self, values: Values, first: Token, last: Token) -> ast.WhenCase:
        return ast.WhenCase(values[3], location=self._span(first, last))

    # -- tails --------------------------------------------------------------------------------------------------------

    def no_tail(self, values: Values, first: Token, last: Token) -> Tail:
        return Tail()

    def tail(self, values: Values, first: Token, last: Token) -> Tail:
        return Tail(_body(values[0]))

    def catch_alone(self, values: Values, first: Token, last: Token) -> Tail:
        return Tail(None, values[0])

    def tail_with_catch(self, values: Values, first: Token, last: Token) -> Tail:
        return Tail(_body(values[0]), values[1])

    def script_alone(self, values: Values, first: Token, last: Token) -> Tail:
        return Tail(pre_script=values[0])

    def script_and_tail(self, values: Values, first: Token, last: Token) -> Tail:
        tail: Tail = values[1]
        return tail._replace(pre_script=values[0])

    def prompt_alone(self, values: Values, first: Token, last: Token) -> Tail:
        return Tail(values[0])

    def prompt_and_catch(self, values: Values, first: Token, last: Token) -> Tail:
        return Tail(values[0], values[1])

    # -- scripts and prompts ------------------------------------------------------------------------------------------

    def script(self, values: Values, first: Token, last: Token) -> ast.ScriptBlock:
        return self._script("python", values[1], first, last)

    def script_in_dialect(self, values: Values, first: Token, last: Token) -> ast.ScriptBlock:
        return self._script(values[1].text, values[2], first, last)

    def _script(self, language: str, body: Token, first: Token, last: Token) -> ast.ScriptBlock:
        place = self._span(first, last)
        if body.type != RAW_BODY:
            code = self._text(body)
            return ast.ScriptBlock(
                language, code, code_line=body.line, code_column=body.column + 1, indent=0, location=place
            )
        if not body.text.isascii():
            self._check_characters(body)
        cut = cut_code(body.text)
        column = cut.offset + (body.column if cut.line == 0 else 1)
        return ast.ScriptBlock(
            language, cut.text, code_line=body.line + cut.line, code_column=column, indent=cut.indent, location=place
        )

    def directive(self, values: Values, first: Token, last: Token) -> tuple[str, str, ast.SourceLocation]:
        name: Token = values[0]
        if name.text not in _DIRECTIVES:
            self._refuse(
                f"syntax: found `{name.text}`, wanted `system`, `template`, `model` or `}}`",
                name,
                'a prompt is made of system "...", template "..." and model "..."',
            )
        return name.text, self._text(values[1]), self._span(values[1], last)

    def prompt(self, values: Values, first: Token, last: Token) -> ast.PromptBlock:
        directives: list[tuple[str, str, ast.SourceLocation]] = values[2]
        return ast.PromptBlock(
            **{name: text for name, text, _ in directives},
            places={name: place for name, _, place in directives},
            location=self._span(first, last),
        )

    # -- depths -------------------------------------------------------------------------------------------------------

    def _deepen_blocks(self, node: ast.ASTNode, blocks: Iterable[ast.Block], at: Token) -> None:
        steps = [step for block in blocks for step in block.steps if isinstance(step, ast.StepStmt)]
        inner: list[object] = [clause for step in steps for clause in ast.clauses(step.body)]
        inner += [step.catch for step in steps if step.catch is not None]
        self._deepen(node, inner, MAX_BLOCK_DEPTH, "blocks", at)


def _on_a_call(mixins: list[ast.MixinSig]) -> list[ast.MixinCall]:
    return [ast.MixinCall(item.name, item.args, item.alias, location=item.location) for item in mixins]


def _body(follows: list[ast.AndThenBlock]) -> ast.Body:
    return follows[0] if len(follows) == 1 else follows
