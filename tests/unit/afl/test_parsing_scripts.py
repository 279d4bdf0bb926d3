"""The parser's trees of scripts and of doc comments, which its lexer finds by itself."""

import pytest

from afl import ast
from afl.errors import ParseError
from afl.parser import parse

Documented = ast.Namespace | ast.Callable | ast.SchemaDecl


def script(text: str) -> ast.ScriptBlock:
    (facet,) = parse(f"facet F() {text}").facets
    assert facet.pre_script is not None
    return facet.pre_script


@pytest.mark.parametrize(
    ("text", "language", "code"),
    [
        ('script "a = 1\\nb = 2"', "python", "a = 1\nb = 2"),
        ('script python "a = 1"', "python", "a = 1"),
        ('script ruby "puts"', "ruby", "puts"),
        ("script {}", "python", ""),
        ("script { a = 1 }", "python", "a = 1"),
        ("script python{a = 1}", "python", "a = 1"),
        ("script /* c */ python // d\n { a = 1 }", "python", "a = 1"),
        ("script {\n  a = 1\n  if a:\n    b = 2\n\n  c = 3\n}", "python", "a = 1\nif a:\n  b = 2\n\nc = 3"),
        ("script {\r\n  a = 1\r\n  b = 2\r\n}", "python", "a = 1\nb = 2"),
        ("script { a = 1\n    b = 2\n      c = 3 }", "python", "a = 1\nb = 2\n  c = 3 "),
        ("script {\n\ta = 1\n\t\tb\n}", "python", "a = 1\n\tb"),
        ("script {\n\n  a = 1\n}", "python", "\na = 1"),
    ],
)
def test_the_code_is_free_of_marks_and_of_its_common_indentation(text: str, language: str, code: str) -> None:
    found = script(text)

    assert (found.language, found.code) == (language, code)


@pytest.mark.parametrize(
    "code",
    [
        'a = "}"',
        "a = '}'",
        "a = '\\'}'",
        'a = "\\"}"',
        'a = """}\n"} \\""" } """',
        "a = '''}''' + ''",
        'a = "" + "}"',
        "# }\na = 1",
        "a = 1 # it's {",
        "a = {'b': {'c': 1}}",
        "a = 7 // 2  # no comment of AFL's",
        'a = "/*"',
        "a = f'{b}' # ' {",
        "`~é$?@",
    ],
)
def test_braces_in_strings_and_comments_of_python_end_nothing(code: str) -> None:
    text = f"facet F() script {{\n{code}\n}} andThen {{ }} facet G()"

    first, second = parse(text).facets
    assert first.pre_script is not None
    assert (first.pre_script.code, second.sig.name) == (code, "G")


def test_a_string_that_its_line_does_not_end_hides_no_brace_of_the_next_line() -> None:
    assert script("script {\na = 'b\n}").code == "a = 'b"
    assert script("script {\na = 'b\\\n}").code == "a = 'b\\"


@pytest.mark.parametrize("code", ["", "a = {", 'a = """ }', "# }", "a = ' }"])
def test_a_script_that_never_ends_is_refused_at_its_brace(code: str) -> None:
    with pytest.raises(ParseError, match="this script is never closed") as refused:
        parse(f"facet F()\n  script {{{code}")

    assert (refused.value.line, refused.value.column) == (2, 10)


def test_places_behind_a_script_are_exact() -> None:
    program = parse("facet F() script {\n é = '''\n'''} facet G()\nfacet H()")

    assert [item.location for item in program.facets] == [
        ast.SourceLocation(1, 1, 3, 5),
        ast.SourceLocation(3, 6, 3, 15),
        ast.SourceLocation(4, 1, 4, 10),
    ]


@pytest.mark.parametrize(
    ("text", "line", "column", "indent"),
    [
        ("script {\n    x\n    y\n}", 2, 5, 4),
        ("script { x }", 1, 20, 0),
        ("script {  x\n    y\n}", 1, 21, 4),
        ("script {\n\n  x }", 2, 3, 2),
        ('script\n  "x"', 2, 4, 0),
        ('script python "x"', 1, 26, 0),
    ],
)
def test_a_place_in_the_code_can_be_told_in_the_source(text: str, line: int, column: int, indent: int) -> None:
    found = script(text)

    assert (found.code_line, found.code_column, found.indent) == (line, column, indent)


def test_a_script_covers_its_keyword_and_its_body() -> None:
    assert script("script {\nx\n}").location == ast.SourceLocation(1, 11, 3, 2)
    assert script('script "x"').location == ast.SourceLocation(1, 11, 1, 21)


def test_a_script_stands_in_front_of_clauses_or_is_one() -> None:
    (facet,) = parse('facet F() script { a } andThen script { b } andThen script "c" catch { }').facets

    assert facet.pre_script == ast.ScriptBlock("python", "a")
    assert [clause.script for clause in ast.clauses(facet.body)] == [
        ast.ScriptBlock("python", "b"),
        ast.ScriptBlock("python", "c"),
    ]
    assert facet.catch is not None


@pytest.mark.parametrize(
    "text",
    [
        "namespace script { facet F() }",
        "namespace a.script { facet F() }",
        "namespace a { schema script { x: Int } }",
        "namespace as schema script { x: Int }",
        "facet F() andThen foreach x in script { }",
        "facet F() andThen foreach x in $.script { }",
        "facet F() andThen foreach x in a.script { }",
        "facet F() with M() as script andThen { }",
        "facet script(script: script) andThen { script = script(script = script) }",
    ],
)
def test_where_script_is_a_name_the_brace_opens_a_block(text: str) -> None:
    assert parse(text) != ast.Program()


@pytest.mark.parametrize("alias", ["m", "schema", "script", "as", "andThen", "in", "namespace"])
def test_an_alias_of_any_name_may_stand_in_front_of_a_script(alias: str) -> None:
    (facet,) = parse(f"facet F() with M() as {alias} script {{ '}}' }}").facets

    assert facet.sig.mixins[0].alias == alias
    assert facet.pre_script == ast.ScriptBlock("python", "'}'")


def test_half_of_a_surrogate_pair_in_a_script_is_refused() -> None:
    with pytest.raises(ParseError, match="half of a surrogate pair"):
        parse("facet F() script { '\ud800' }")


# -- doc comments -----------------------------------------------------------------------------------------------------


def test_each_declaration_has_the_doc_comment_in_front_of_it() -> None:
    program = parse(
        "/** n */ namespace a { /** f */ facet F() /** e */ event facet E() /** w */ workflow W() "
        "/** s */ schema S { } }"
    )

    (namespace,) = program.namespaces
    declared: list[Documented] = [
        namespace,
        *namespace.facets,
        *namespace.event_facets,
        *namespace.workflows,
        *namespace.schemas,
    ]
    assert [item.doc for item in declared] == [ast.Doc(text) for text in "nfews"]


def test_the_header_of_a_file_has_its_doc_comment() -> None:
    assert parse("/** n */ namespace a facet F()").namespaces[0].doc == ast.Doc("n")


def test_the_last_of_several_doc_comments_counts() -> None:
    assert parse("/** a */ /** b */ // c\n/* d */ facet F()").facets[0].doc == ast.Doc("b")


def test_tags_of_a_doc_comment_become_entries() -> None:
    text = "/**\n * Looks.\n *\n *   Twice.\n * @param a one\n * @returns b two\n * @return c\n */ facet F()"

    assert parse(text).facets[0].doc == ast.Doc(
        "Looks.\n\n  Twice.", [ast.DocEntry("a", "one")], [ast.DocEntry("b", "two"), ast.DocEntry("c", "")]
    )


@pytest.mark.parametrize(
    "text",
    [
        "/** a */ use b facet F()",
        "/** a */ ; facet F()",
        "/** a */ implicit x = F() facet F()",
        "facet /** a */ F()",
        "facet F() /** a */",
        "/**/ facet F()",
        "/* a */ facet F()",
        "facet F(/** a */) andThen { /** b */ s = G() /** c */ }",
    ],
)
def test_a_doc_comment_elsewhere_is_an_ordinary_comment(text: str) -> None:
    (namespace,) = parse(f"namespace n {{ {text} }}").namespaces

    assert [item.doc for item in namespace.facets] == [None]


def test_an_empty_doc_comment_is_one() -> None:
    assert parse("/***/ facet F()").facets[0].doc == ast.Doc()


def test_a_doc_comment_knows_its_place() -> None:
    doc = parse("\n  /** a\n */ facet F()").facets[0].doc

    assert doc is not None
    assert doc.location == ast.SourceLocation(2, 3, 3, 4)
