"""Hints for typical mistakes in the syntax of a text.

A text gets the hint of a program below when both fail in the same state of the parser at a token of the same kind; if a
keyword precedes that token in the program, the text must have the same one.
"""

from __future__ import annotations

#: Each hint, with the programs that get it.
SYNTAX_HELP: list[tuple[str, list[str]]] = [
    ("a facet needs a parameter list, even an empty one: facet Ping()", ["facet Ping", "facet Ping facet B()"]),
    ("a facet needs a parameter list, even an empty one: facet Ping()", ["facet Ping => (a: Int)", "facet Ping {"]),
    ("a parameter is written name: Type, as in amount: Double", ["facet Pay(Double amount)"]),
    ("a parameter needs a type: amount: Double", ["facet Pay(amount)", "facet Pay(a: Long, b)", "facet Pay(a = 1)"]),
    ("a type is a name or [name]: tags: [String]", ["facet Pay(a: 1)", 'facet Pay(a: "String")']),
    ("results stand in parentheses: => (total: Double)", ["facet Pay() => total", "facet Pay() => {"]),
    ("a body begins with andThen: facet Pay() andThen { ... }", ["facet Pay() {", "facet Pay() => (a: Int) {"]),
    (
        "a body begins with andThen: andThen foreach name in $.list { ... }",
        ["facet Pay() foreach x in $.a { }", "facet Pay() => (a: Int) foreach x in $.a { }"],
    ),
    (
        "andThen is followed by {, by foreach name in source {, by when { or by script",
        ["facet F() andThen s", "facet F() andThen (", "facet F() andThen catch { }"],
    ),
    (
        "foreach goes over $.name or step.attribute",
        ["facet F() andThen foreach v in [1] {", 'facet F() andThen foreach v in "a" {'],
    ),
    (
        "foreach has a block; what else there is goes into that of a step",
        ["facet F() andThen foreach x in $.a when { }", 'facet F() andThen foreach x in $.a script "x"'],
    ),
    ("foreach is written: foreach name in $.list { ... }", ["facet F() andThen foreach v of $.list {"]),
    ("say event facet, not just event", ["event Ping()", "namespace a { event Ping() }"]),
    ("the opposite of an event facet is a plain one: facet Ping()", ["event workflow Ping()"]),
    (
        "arguments are named: Charge(amount = 5)",
        [
            "facet F() andThen { a = G(1) }",
            "facet F() andThen { a = G($.x) }",
            'facet F() andThen { a = G("x") }',
            "facet F() andThen { a = G(x) }",
            "facet F() andThen { a = G(b = 1, c) }",
            "facet F() andThen { a = G(b = 1, 2) }",
            "facet F() andThen { yield F(s.x) }",
        ],
    ),
    ("an argument is given with =, not with a colon", ["facet F() andThen { a = G(x: 1) }"]),
    (
        "a step is written: name = Facet(argument = value)",
        [
            "facet F() andThen { G() }",
            "facet F() andThen { a.b = G() }",
            "facet F() andThen { a: G() }",
            "facet F() andThen { a }",
        ],
    ),
    (
        "a step calls a facet: name = Facet(argument = value)",
        [
            "facet F() andThen { a = 1 }",
            "facet F() andThen { a = $.x }",
            'facet F() andThen { a = "x" }',
            "facet F() andThen { a = b }",
            "facet F() andThen { a = [1] }",
        ],
    ),
    (
        "this word cannot name a step",
        [
            "facet F() andThen { true = G() }",
            "facet F() andThen { with = G() }",
            "facet F() andThen { as = G() }",
            "facet F() andThen { null = G() }",
            "facet F() andThen { false = G() }",
            "facet F() andThen { _ = G() }",
            "facet F() andThen { andThen = G() }",
            "facet F() andThen { catch = G() }",
            "facet F() andThen { yield = G() }",
        ],
    ),
    (
        "all yields come after the steps of their block",
        ["facet F() andThen { yield F() a = G() }", "facet F() andThen { yield F() sys.log(a = 1) }"],
    ),
    ("yield names what it gives to: yield Pay(total = s.total)", ["facet F() andThen { yield (a = 1) }"]),
    ("yield names what it gives to: yield Pay(total = s.total)", ["facet F() andThen { yield }"]),
    (
        "a bare $ means nothing; write $.name",
        [
            "facet F(a: Int = $)",
            "facet F() andThen { a = G(x = $ + 1) }",
            "facet F() andThen { a = G(x = $a) }",
            "facet F() andThen { a = G(x = ${a}) }",
        ],
    ),
    (
        "a result is read by the step's name: s = G() and then s.value",
        ["facet F() andThen { a = G(x = 1).y }", "facet F() andThen { a = G().y }"],
    ),
    (
        "equality is written ==, and its opposite !=",
        ["facet F(x: Boolean = $.a === 1)", "facet F(x: Boolean = $.a !== 1)", "facet F(x: Boolean = $.a <> 1)"],
    ),
    ("there is no power; multiply, or compute it in a script", ["facet F(x: Int = 2 ** 3)"]),
    ("strings are joined with ++", ['facet F(x: String = "a" . "b")', 'facet F() andThen { a = G(x = "a" . "b") }']),
    ("a list is written [1, 2]", ["facet F(x: Json = (1, 2))", "facet F() andThen { a = G(x = (1, 2)) }"]),
    (
        "a comment is written // ..., or /* ... */ over several lines",
        [
            "-- a",
            "facet F() andThen { -- a",
            "facet F() andThen { s = G() -- a",
            "<!-- a -->",
            "facet F() andThen { <!-- }",
        ],
    ),
    (
        "there are no functions in expressions; what is computed stands in a facet of its own, or in a script",
        ["facet F() andThen { a = G(x = y => 1) }", "facet F() andThen { a = G(x = $.y.z()) }"],
    ),
    (
        "comparisons do not chain; join two of them: a < b && b < c",
        [
            "facet F(x: Boolean = 1 < 2 < 3)",
            "facet F(x: Boolean = 1 == 2 == 3)",
            "facet F(x: Boolean = 1 < 2 == true)",
            "facet F(x: Boolean = $.a in $.b == true)",
            "facet F(x: Boolean = 1 <= $.a <= 3)",
        ],
    ),
    (
        "equality is written ==",
        [
            "facet F(x: Boolean = 1 = 2)",
            "facet F(x: Boolean = $.a = 2)",
            "facet F() andThen { a = G(x = s.y = 1) }",
            "facet F() andThen { a = G(x = s.y[0] = 1) }",
            'facet F() andThen { a = G(x = "a" = "b") }',
        ],
    ),
    (
        "negation is written with ! in front, and `not` only as in: a not in b",
        ["facet F(x: Boolean = not $.a)", "facet F(x: Boolean = $.a && not $.b)"],
    ),
    ("`not` stands before `in` only: a not in b", ["facet F(x: Boolean = $.a not contains $.b)"]),
    ("there is no member access on an index result", ["facet F() andThen { a = G(x = s.a[0].b) }"]),
    ("map entries are written key: value", ["facet F(a: Json = #{k = 1})", 'facet F(a: Json = #{"k" = 1})']),
    (
        "a map is written #{key: value}",
        ["facet F(a: Json = {", "facet F(a: Json = [{", "facet F() andThen { a = G(x = {"],
    ),
    ("numbers have digits on both sides of the point: 0.5", ["facet F(a: Double = .5)", "facet F(a: Double = 5.)"]),
    (
        "calls stand alone in a step; use its result: s = G() and then s.value",
        ["facet F() andThen { a = G(x = H()) }", "facet F() andThen { a = G(x = m.H()) }"],
    ),
    (
        "a comma is missing",
        [
            "facet F(x: Int y: Int)",
            "facet F(x: Int = 1 y: Int)",
            "facet F() andThen { a = G(x = 1 y = 2) }",
            "facet F(x: Json = [1 2])",
            "facet F(x: Json = #{a: 1 b: 2})",
        ],
    ),
    ("a field is written name: Type", ["namespace a { schema S { x } }", "namespace a { schema S { x = Int } }"]),
    ("fields have no defaults", ["namespace a { schema S { x: Int = 1 } }"]),
    (
        "schema fields stand in braces: schema Money { amount: Double }",
        ["schema S(a: Int)", "schema S: Int", "schema S with M() { }"],
    ),
    ("a namespace without braces must come first in its file", ["facet F() namespace a.b facet G()"]),
    ("namespaces do not nest; write the whole name: namespace a.b { }", ["namespace a { namespace b { } }"]),
    ("use stands inside a namespace", ["use a.b", "facet F() use a.b", "facet F() uses a.b"]),
    ("a namespace has a name: namespace shop.orders { }", ["namespace { }", 'namespace "a" { }', "namespace a. { }"]),
    ("a } too many", ["facet F() }", "namespace a { } }"]),
    (
        "a } is missing",
        [
            "namespace a { facet F()",
            "namespace a { facet F() andThen {",
            "facet F() andThen { a = G()",
            "facet F() andThen { yield F()",
            "namespace a {",
        ],
    ),
    (
        "a declaration begins with namespace, facet, event facet, workflow, schema or implicit",
        [
            "function F()",
            "F()",
            "a = F()",
            "task F()",
            "123",
            '"text"',
            "{ }",
            "namespace a { x = F() }",
            "namespace a { catch { } }",
            "namespace a { when { } }",
            "namespace a { script { } }",
        ],
    ),
    # -- when and case
    (
        "a case is written: case condition => { ... }",
        [
            "facet F() andThen when { case $.a { } }",
            "facet F() andThen when { case s.a { } }",
            "facet F() andThen when { case $.a > 1 { } }",
            "facet F() andThen when { case ($.a) { } }",
            "facet F() andThen when { case true { } }",
            "facet F() andThen when { case $.a: { } }",
            "facet F() andThen when { case $.a > 1: { } }",
            "facet F() andThen when { case => { } }",
            "facet F() andThen when { $.a => { } }",
            "facet F() andThen when { a => { } }",
            "facet F() andThen when { (a) => { } }",
            "facet F() andThen when { !a => { } }",
            "facet F() andThen when { true => { } }",
            "facet F() andThen when { s = G() }",
            "facet F() andThen when { yield F() }",
            "facet F() catch when { $.error => { } }",
        ],
    ),
    (
        "the case for everything else is written: case _ => { ... }",
        [
            "facet F() andThen when { case _ { } }",
            "facet F() andThen when { case _: { } }",
            "facet F() andThen when { _ => { } }",
            "facet F() andThen when { case _ when $.a => { } }",
        ],
    ),
    (
        "what a case does stands in braces: case condition => { ... }",
        [
            "facet F() andThen when { case $.a => s = G() }",
            "facet F() andThen when { case $.a => yield F() }",
            "facet F() andThen when { case _ => s = G() }",
            "facet F() andThen when { case _ => yield F() }",
        ],
    ),
    ("each condition has a case of its own; join them with || or &&", ["facet F() andThen when { case a, b => { } }"]),
    (
        "the conditions of when stand in its cases: when { case condition => { ... } }",
        [
            "facet F() andThen when $.a { }",
            "facet F() andThen when ($.a) { }",
            "facet F() andThen when a { }",
            "facet F() catch when $.a { }",
            "facet F() catch when a { }",
        ],
    ),
    (
        "when stands behind andThen or catch: andThen when { case ... }",
        [
            "facet F() when { case _ => { } }",
            "facet F() andThen { when { case _ => { } } }",
            "facet F() andThen { s = G() when { } }",
        ],
    ),
    (
        "a case stands in the braces of a when",
        ["facet F() andThen { case x => { } }", "facet F() andThen { case _ => { } }"],
    ),
    # -- catch
    (
        "catch is followed by a block or by when: catch { ... }",
        [
            "facet F() catch",
            "facet F() catch s = G()",
            "facet F() catch yield F()",
            "facet F() catch (e) { }",
            "facet F() catch => { }",
            "facet F() catch foreach x in $.a { }",
            "facet F() catch andThen { }",
            "facet F() catch script { }",
        ],
    ),
    (
        "a catch comes last, and there is only one",
        [
            "facet F() catch { } catch { }",
            "facet F() catch { } andThen { }",
            "facet F() andThen { s = G() catch { } catch { } }",
            "facet F() andThen { s = G() catch { } andThen { } }",
        ],
    ),
    (
        "a yield has no blocks of its own",
        ["facet F() andThen { yield F() andThen { } }", "facet F() andThen { yield F() catch { } }"],
    ),
    # -- mixins
    ("a mixin is called, perhaps without arguments: with Retry()", ["facet F() with M", "facet F() with M as m"]),
    ("a mixin is called, perhaps without arguments: with Retry()", ["facet F() andThen { s = G() with M t = G() }"]),
    (
        "every mixin has its own with: with A() with B()",
        [
            "facet F() with M(), N()",
            "facet F() andThen { s = G() with M(), N() }",
            "facet F() andThen { yield F() with M(), N() }",
        ],
    ),
    ("an alias is a name: with Retry() as retry", ['facet F() with M() as "m"', "facet F() with M() as (m)"]),
    ("only a mixin has an alias", ["facet F() as x", "facet F() andThen { s = G() as x }"]),
    (
        "mixins come before blocks, scripts and prompts: facet Pay() with Retry() andThen { ... }",
        [
            "facet F() andThen { } with M()",
            "facet F() catch { } with M()",
            "facet F() script { } with M()",
            "facet F() prompt { } with M()",
            "facet F() andThen { s = G() andThen { } with M() }",
            "facet F() andThen { s = G() catch { } with M() }",
        ],
    ),
    ("mixins come after the results: facet Pay() => (id: Int) with Retry()", ["facet F() with M() => (a: Int)"]),
    # -- sys
    (
        "there are sys.log(name = value) and sys.assert(condition)",
        [
            "facet F() andThen { sys.print(a = 1) }",
            "facet F() andThen { sys.foo }",
            "facet F() andThen { sys log(a = 1) }",
        ],
    ),
    (
        "what is logged has a name: sys.log(total = s.total)",
        [
            'facet F() andThen { sys.log("x") }',
            "facet F() andThen { sys.log($.x) }",
            "facet F() andThen { sys.log(1) }",
        ],
    ),
    ("log and assert belong to sys: sys.log(name = value)", ["facet F() andThen { log(a = 1) }"]),
    ("log and assert belong to sys: sys.assert(condition)", ["facet F() andThen { assert(true) }"]),
    (
        "an assertion is one condition: sys.assert(s.total > 0)",
        [
            "facet F() andThen { sys.assert() }",
            "facet F() andThen { sys.assert(condition = 1) }",
            'facet F() andThen { sys.assert($.a, "text") }',
            'facet F() andThen { sys.assert($.a > 1, "text") }',
        ],
    ),
    # -- scripts
    (
        'a script has its code in braces or as a string: script { result["a"] = 1 }',
        [
            "facet F() script",
            "facet F() script python",
            "facet F() script andThen { }",
            "facet F() script 5",
            "facet F() script ($.a)",
            "facet F() andThen script",
        ],
    ),
    (
        "a script stands in front of the andThen clauses, once, or is one: andThen script { ... }",
        [
            "facet F() andThen { } script { a }",
            "facet F() script { a } script { b }",
            "facet F() catch { } script { a }",
        ],
    ),
    (
        "a step has its script in a clause: andThen script { ... }",
        [
            "facet F() andThen { script { a } }",
            'facet F() andThen { script "a" }',
            "facet F() andThen { s = G() script { a } }",
        ],
    ),
    # -- prompts
    (
        'a prompt is written: prompt { template "..." }, perhaps with system "..." and model "..."',
        [
            'facet F() prompt "x"',
            "facet F() prompt template",
            'facet F() prompt { "x" }',
            'facet F() prompt { template "x", model "y" }',
            'facet F() prompt { template = "x" }',
            'facet F() prompt { template: "x" }',
        ],
    ),
    (
        "the texts of a prompt are strings; {name} in them stands for a parameter",
        [
            "facet F() prompt { template $.x }",
            "facet F() prompt { template 5 }",
            "facet F() prompt { template x }",
            "facet F() prompt { template }",
            'facet F() prompt { template "a" ++ "b" }',
        ],
    ),
    (
        "beside a prompt there can only be a catch",
        [
            'facet F() prompt { template "a" } andThen { }',
            'facet F() prompt { template "a" } script { a }',
            'facet F() prompt { template "a" } prompt { }',
            'facet F() andThen { } prompt { template "a" }',
            "facet F() script { a } prompt { }",
        ],
    ),
    (
        "a prompt belongs to a declaration",
        [
            "facet F() andThen { prompt { } }",
            "facet F() andThen { s = G() prompt { } }",
            "facet F() andThen prompt { }",
        ],
    ),
    # -- implicit
    (
        "implicit is written: implicit name = Facet(parameter = value)",
        [
            "implicit F(a = 1)",
            "implicit x F(a = 1)",
            "implicit x: F(a = 1)",
            "implicit x = 5",
            "implicit x = F",
            "implicit a.b = F()",
            "facet F() andThen { implicit x = F() }",
        ],
    ),
    ("an implicit has no blocks of its own", ["implicit x = F() andThen { }", "implicit x = F() catch { }"]),
    (
        "results follow =>: facet Pay() => (total: Double)",
        ["facet F() -> (a: Int)", "facet F() : Int", "facet F() = 1"],
    ),
    ("a list type is written [String]", ["facet F(a: List<String>)", "facet F(a: Array[Int])", "facet F(a: Int[])"]),
]
