"""The parser's trees of mixins, cases, catches, system statements, yields, prompts and implicits."""

import pytest

from afl import ast
from afl.errors import ParseError
from afl.parser import parse
from afl.syntax.tree_builder import MAX_BLOCK_DEPTH

from .programs import WHOLE_LANGUAGE


def facet(text: str) -> ast.FacetDecl:
    (found,) = parse(text).facets
    return found


def statement(text: str) -> ast.Statement:
    body = facet(f"facet F() andThen {{ {text} }}").body
    assert isinstance(body, ast.AndThenBlock)
    (found,) = body.block.steps
    return found


def step(text: str) -> ast.StepStmt:
    found = statement(text)
    assert isinstance(found, ast.StepStmt)
    return found


def call(name: str, **arguments: int) -> ast.CallExpr:
    return ast.CallExpr(name, [argument(key, value) for key, value in arguments.items()])


def argument(name: str, value: int) -> ast.NamedArg:
    return ast.NamedArg(name, ast.Literal(value, "integer"))


def test_a_program_of_all_constructs_is_parsed() -> None:
    tools, work = parse(WHOLE_LANGUAGE).namespaces

    assert [item.sig.name for item in tools.facets] == ["Retry", "Limit"]
    assert [item.name for item in work.implicits] == ["usual"]
    (settle,) = work.workflows
    assert [bool(clause.when) for clause in ast.clauses(settle.body)] == [False, True, False]
    assert settle.pre_script is not None
    assert settle.catch is not None
    assert settle.catch.when is not None


# -- mixins -----------------------------------------------------------------------------------------------------------


def test_a_signature_has_mixins_with_and_without_alias() -> None:
    text = "facet F(a: Int) => (b: Int) with x.M(n = 1,) as m with N()"

    assert facet(text).sig.mixins == [ast.MixinSig("x.M", [argument("n", 1)], "m"), ast.MixinSig("N")]
    assert facet("facet F() with N()").sig.mixins == [ast.MixinSig("N")]


def test_a_call_has_mixins_of_its_own() -> None:
    made = step("s = G(a = 1) with x.M(n = 1) as m with N() andThen { }")

    assert made.call.mixins == [ast.MixinCall("x.M", [argument("n", 1)], "m"), ast.MixinCall("N")]
    assert made.call.args == [argument("a", 1)]
    assert made.body == ast.AndThenBlock(ast.Block())


def test_a_call_covers_its_mixins() -> None:
    place = step("s = G() with M() as m").call.location

    assert place == ast.SourceLocation(1, 25, 1, 42)


def test_words_of_the_mixin_clause_are_names_as_well() -> None:
    made = step("s = as() with with(as = 1) as as")

    assert made.call == ast.CallExpr("as", [], [ast.MixinCall("with", [argument("as", 1)], "as")])


def test_an_alias_may_be_any_word() -> None:
    text = (
        "facet F() with M() as andThen andThen { } facet G() with M() as script andThen { } facet H() with M() as catch"
    )

    assert [item.sig.mixins[0].alias for item in parse(text).facets] == ["andThen", "script", "catch"]


# -- when and catch ---------------------------------------------------------------------------------------------------


def test_cases_keep_their_order_and_the_default_has_no_condition() -> None:
    body = facet("facet F() andThen when { case $.a => { s = G() }; case _ => { yield F() } }").body

    assert isinstance(body, ast.AndThenBlock)
    assert body.block == ast.Block()
    assert body.when == ast.WhenBlock(
        [
            ast.WhenCase(ast.Block([ast.StepStmt("s", call("G"))]), ast.Reference(["a"], True)),
            ast.WhenCase(ast.Block([], [ast.YieldStmt(call("F"))])),
        ]
    )


@pytest.mark.parametrize(
    ("cases", "conditions"),
    [
        ("", []),
        ("case _ => { } case _ => { }", [None, None]),
        ("case _ => { } case true => { }", [None, ast.Literal(True, "boolean")]),
        ("case case => { }", [ast.Reference(["case"], False)]),
    ],
)
def test_any_list_of_cases_can_be_parsed(cases: str, conditions: list[ast.Expression | None]) -> None:
    body = facet(f"facet F() andThen when {{ {cases} }}").body

    assert isinstance(body, ast.AndThenBlock)
    assert body.when is not None
    assert [case.condition for case in body.when.cases] == conditions


def test_declarations_and_steps_have_a_catch() -> None:
    assert facet("facet F() catch { s = G() }").catch == ast.CatchClause(ast.Block([ast.StepStmt("s", call("G"))]))
    assert facet("facet F() andThen { } catch { }").catch == ast.CatchClause(ast.Block())
    assert parse("event facet F() catch { }").event_facets[0].catch == ast.CatchClause(ast.Block())
    assert parse("workflow F() catch { }").workflows[0].catch == ast.CatchClause(ast.Block())
    assert step("s = G() catch { }").catch == ast.CatchClause(ast.Block())
    assert step("s = G() with M() andThen { } catch { }").catch == ast.CatchClause(ast.Block())


def test_a_catch_may_have_cases() -> None:
    when = ast.WhenBlock([ast.WhenCase(ast.Block())])

    assert facet("facet F() catch when { case _ => { } }").catch == ast.CatchClause(ast.Block(), when)
    assert step("s = G() catch when { case _ => { } }").catch == ast.CatchClause(ast.Block(), when)


def test_clauses_of_all_forms_stand_side_by_side() -> None:
    many = 'andThen { } andThen foreach x in $.a { } andThen when { } andThen script "x" andThen { }'
    for body in (facet(f"facet F() {many}").body, step(f"s = G() {many}").body):
        shown = [
            (clause.foreach is not None, clause.when is not None, clause.script is not None)
            for clause in ast.clauses(body)
        ]
        assert shown == [
            (False, False, False),
            (True, False, False),
            (False, True, False),
            (False, False, True),
            (False, False, False),
        ]


NESTINGS = {
    "statements": ("s = G() andThen {", "}"),
    "cases": ("s = G() andThen when { case _ => {", "} }"),
    "catches": ("s = G() catch {", "}"),
    "cases of catches": ("s = G() catch when { case _ => {", "} }"),
}


@pytest.mark.parametrize("kind", NESTINGS)
def test_blocks_of_every_kind_nest_to_the_limit_and_no_further(kind: str) -> None:
    opening, closing = NESTINGS[kind]

    def nested(depth: int) -> str:
        return "facet F() andThen {" + opening * (depth - 1) + closing * (depth - 1) + "}"

    parse(nested(MAX_BLOCK_DEPTH))
    with pytest.raises(ParseError, match="blocks are nested too deeply"):
        parse(nested(MAX_BLOCK_DEPTH + 1))
    with pytest.raises(ParseError, match="blocks are nested too deeply"):
        parse(nested(5_000))


# -- system statements ------------------------------------------------------------------------------------------------


def test_a_log_has_named_values() -> None:
    assert statement("sys.log(a = 1,)") == ast.SysLogStmt([argument("a", 1)])
    assert statement("sys . log ( )") == ast.SysLogStmt()


def test_an_assertion_has_a_condition() -> None:
    assert statement("sys.assert($.a)") == ast.SysAssertStmt(ast.Reference(["a"], True))


def test_system_statements_keep_their_place_among_the_steps() -> None:
    body = facet("facet F() andThen { a = G() sys.log() b = G(); sys.assert(a.x) sys = G() log = G() }").body

    assert isinstance(body, ast.AndThenBlock)
    kinds = [type(item) for item in body.block.steps]
    assert kinds == [ast.StepStmt, ast.SysLogStmt, ast.StepStmt, ast.SysAssertStmt, ast.StepStmt, ast.StepStmt]


# -- yields -----------------------------------------------------------------------------------------------------------


def test_a_yield_with_mixins_is_one_yield_for_each_target() -> None:
    body = facet("facet F() andThen { yield F(a = 1) with M(b = 2) with N() as n yield G() }").body

    assert isinstance(body, ast.AndThenBlock)
    assert body.block.yield_stmts == [
        ast.YieldStmt(call("F", a=1)),
        ast.YieldStmt(call("M", b=2)),
        ast.YieldStmt(call("N")),
        ast.YieldStmt(call("G")),
    ]


def test_every_yield_of_several_begins_at_its_own_target() -> None:
    body = facet("facet F() andThen { yield F() with M() with N() }").body

    assert isinstance(body, ast.AndThenBlock)
    places = [item.location[1:4:2] for item in body.block.yield_stmts if item.location]
    assert places == [(21, 30), (36, 39), (45, 48)]


# -- prompts ----------------------------------------------------------------------------------------------------------


def test_a_prompt_has_its_directives_in_any_order_and_keeps_the_last_of_each() -> None:
    text = 'facet F() prompt { ; model "a" template "b\\n"; system "c" template "d" }'

    assert facet(text).body == ast.PromptBlock("c", "d", "a")
    assert facet("facet F() prompt { }").body == ast.PromptBlock()


def test_a_prompt_may_have_a_catch_behind_it() -> None:
    found = facet('facet F() prompt { template "a" } catch { }')

    assert (found.body, found.catch) == (ast.PromptBlock(template="a"), ast.CatchClause(ast.Block()))


def test_the_words_of_a_prompt_are_names_elsewhere() -> None:
    text = "facet prompt(system: Int, template: Int, model: Int) andThen { prompt = script(model = $.model) }"

    assert facet(text).sig.name == "prompt"


# -- implicits --------------------------------------------------------------------------------------------------------


def test_implicits_stand_in_namespaces_and_at_top_level() -> None:
    program = parse("implicit a = x.F(n = 1); namespace x { implicit b = F() with M() implicit implicit = F() }")

    assert program.implicits == [ast.ImplicitDecl("a", call("x.F", n=1))]
    assert program.namespaces[0].implicits == [
        ast.ImplicitDecl("b", ast.CallExpr("F", [], [ast.MixinCall("M")])),
        ast.ImplicitDecl("implicit", call("F")),
    ]


def test_a_file_with_a_header_holds_its_implicits() -> None:
    assert [item.name for item in parse("namespace x implicit b = F()").namespaces[0].implicits] == ["b"]
