"""The view of people in an editor that speaks with `afl lsp`."""

from pathlib import Path

import pytest
from lsprotocol import types as lsp

from tests.unit.editors.editor import Editor

#: Line 0 opens the namespace; {} is the block of the workflow, from line 3 on.
ORDERS = """\
namespace orders {
    use shop.prices
    workflow Buy(token: String, amount: Double) => (receipt: String) andThen {
%s
    }
}
"""


def test_every_finding_is_shown_at_its_place_with_its_code_and_a_hint(editor: Editor) -> None:
    cursor = editor.open(
        "wrong.afl", ORDERS % "        c = Charge(token = $.tokn)\n        yield Buy(receipt = c.receit)"
    )

    wrong, missing, attribute = sorted(editor.findings(cursor), key=lambda item: str(item.code), reverse=True)[:3]

    found = {str(item.code): item for item in (wrong, missing, attribute)}
    assert set(found) == {"REF_INVALID_INPUT", "REF_INVALID_STEP_ATTRIBUTE", "ARG_MISSING"}
    unknown = found["REF_INVALID_INPUT"]
    assert unknown.severity is lsp.DiagnosticSeverity.Error
    assert unknown.range == lsp.Range(lsp.Position(3, 27), lsp.Position(3, 33))
    assert "did you mean token?" in unknown.message
    # As in `afl check`: the text has a workflow, so it is not a library.
    assert found["ARG_MISSING"].severity is lsp.DiagnosticSeverity.Error


def test_a_mistake_in_the_syntax_is_shown_and_goes_when_it_is_mended(editor: Editor) -> None:
    cursor = editor.open("syntax.afl", "facet Ping(a: Long‸\n")
    (error,) = editor.findings(cursor)
    assert error.code == "PARSE_ERROR"

    editor.edit(cursor, ")")

    assert editor.findings(cursor) == []


def test_names_in_a_chain_of_operators_are_known_however_long_it_is(editor: Editor) -> None:
    chain = " && ".join(["$.ok"] * 500)
    step = f"        v = V(x = {chain} && $.‸ok && $.okay)\n"
    cursor = editor.open(
        "chain.afl",
        "namespace chain {\n    facet V(x: Boolean)\n    facet F(ok: Boolean) andThen {\n" + step + "    }\n}\n",
    )

    (unknown,) = editor.findings(cursor)
    assert (unknown.code, unknown.range.start) == ("REF_INVALID_INPUT", lsp.Position(3, step.index("$.okay") - 1))
    assert "Boolean" in (cursor.hover() or "")
    assert len(cursor.references()) == 502


def test_a_character_that_turns_the_order_of_a_text_is_warned_of(editor: Editor) -> None:
    cursor = editor.open("turned.afl", "namespace turned {\n    facet Ping() // \u202e } {\n}‸\n")

    (warning,) = editor.findings(cursor)

    assert (warning.code, warning.severity) == ("BIDI_CONTROL", lsp.DiagnosticSeverity.Warning)
    assert warning.range == lsp.Range(lsp.Position(1, 20), lsp.Position(1, 21))


def test_an_edit_behind_characters_of_two_units_is_made_at_its_place(editor: Editor) -> None:
    cursor = editor.open("units.afl", 'facet Smile(a: String = "😀😀", b: ‸Sting)\n')
    (unknown,) = editor.findings(cursor)
    assert unknown.range == lsp.Range(lsp.Position(0, 35), lsp.Position(0, 40))

    editor.edit(cursor, "String", over=5)

    assert editor.findings(cursor) == []


def test_a_namespace_of_another_file_is_found_once_the_file_is_there(editor: Editor) -> None:
    cursor = editor.open("late_user.afl", "namespace late.user {\n    use late.lib\n    facet A(m: late.lib.M)\n}\n")
    assert [item.code for item in editor.findings(cursor)] == ["USE_UNKNOWN_NAMESPACE", "REF_UNKNOWN_SCHEMA"]

    (editor.folder / "late_lib.afl").write_text("namespace late.lib {\n    schema M { x: Int }\n}\n")
    editor.tell_of_files()

    assert editor.findings(cursor) == []


def test_a_change_in_an_open_library_shows_in_the_text_that_uses_it(editor: Editor) -> None:
    library = editor.open("open_lib.afl", "namespace open.lib {\n    facet ‸Old()\n}\n")
    user = editor.open(
        "open_user.afl", "namespace open.user {\n    use open.lib\n    workflow W() andThen { o = Old() }\n}\n"
    )
    assert editor.findings(user) == []

    editor.edit(library, "New", over=3)

    assert [item.code for item in editor.findings(user)] == ["REF_UNKNOWN_FACET"]


@pytest.mark.parametrize(
    ("line", "definition"),
    [
        ("c = Cha‸rge(token = $.token)", ("shop.afl", 12, 16)),
        ("c = shop.prices.Char‸ge(token = $.token)", ("shop.afl", 12, 16)),
        ("c = shop.pri‸ces.Charge(token = $.token)", ("shop.afl", 1, 0)),
        ("c = Charge(tok‸en = $.token)", ("shop.afl", 12, 23)),
        ("c = Charge(token = $.tok‸en)", ("def.afl", 2, 17)),
        ("c = Charge(token = $.token)\n        yield Buy(receipt = c‸.receipt)", ("def.afl", 3, 8)),
        ("c = Charge(token = $.token)\n        yield Buy(receipt = c.rec‸eipt)", ("shop.afl", 12, 58)),
        ("c = Charge(token = $.token)\n        yield Bu‸y(receipt = c.receipt)", ("def.afl", 2, 13)),
        ("c = Charge(token = $.token)\n        yield Buy(rece‸ipt = c.receipt)", ("def.afl", 2, 52)),
        ("c = Charge(token = $.token) with Disc‸ount()", ("shop.afl", 10, 10)),
        ("p = Price(net = 1.0)\n        l = Charge(amount = p.n‸et)", ("shop.afl", 2, 19)),
    ],
)
def test_the_definition_of_a_name_is_found(editor: Editor, line: str, definition: tuple[str, int, int]) -> None:
    assert editor.open("def.afl", ORDERS % f"        {line}").definitions() == [definition]


def test_the_definitions_of_a_namespace_and_of_a_type_are_found(editor: Editor) -> None:
    used = editor.open("use.afl", "namespace user {\n    use shop.pri‸ces\n    facet A(p: Price, q: [Price])\n}\n")
    assert used.definitions() == [("shop.afl", 1, 0)]

    typed = editor.open("type.afl", "namespace user {\n    use shop.prices\n    facet A(p: Price, q: [Pri‸ce])\n}\n")
    assert typed.definitions() == [("shop.afl", 2, 11)]


def test_the_definition_of_a_loop_variable_is_its_clause(editor: Editor) -> None:
    text = "workflow Each(all: [Int]) andThen foreach one in $.all {\n    a = Take(n = $.o‸ne)\n}\nfacet Take(n: Int)\n"

    assert editor.open("each.afl", text).definitions() == [("each.afl", 0, 42)]


def test_a_callee_shows_its_signature_and_its_doc_comment(editor: Editor) -> None:
    shown = editor.open("hover.afl", ORDERS % "        d = Disc‸ount(percent = 5)").hover()

    assert shown is not None
    assert "```afl\nfacet Discount(price: Price, percent: Int = 0) => (gross: Double)\n```" in shown
    assert "in namespace `shop.prices`" in shown
    assert "Take something off a price." in shown
    assert "* `percent`: how much, of a hundred" in shown
    assert "* returns `gross`: what is left to pay" in shown


def test_a_step_shows_the_signature_of_what_it_calls(editor: Editor) -> None:
    lines = "        c = Charge(token = $.token)\n        yield Buy(receipt = ‸c.receipt)"

    shown = editor.open("step.afl", ORDERS % lines).hover()

    assert shown is not None
    assert shown.startswith("step `c`, which calls `shop.prices.Charge`")
    assert "event facet Charge(token: String, amount: Double) => (receipt: String, ok: Boolean)" in shown


def test_a_parameter_shows_its_type_its_default_and_its_tag(editor: Editor) -> None:
    shown = editor.open("argument.afl", ORDERS % "        d = Discount(perc‸ent = 5)").hover()

    assert shown == "```afl\npercent: Int = 0\n```\n\nparameter of `shop.prices.Discount`\n\nhow much, of a hundred"


def test_a_step_completes_its_attributes(editor: Editor) -> None:
    lines = "        c = Charge(token = $.token)\n        yield Buy(receipt = c.‸)"

    found = editor.open("attribute.afl", ORDERS % lines).proposals()

    assert set(found) == {"receipt", "ok"}
    assert found["ok"].detail == "Boolean"


def test_the_dollar_completes_what_is_in_scope(editor: Editor) -> None:
    found = editor.open("dollar.afl", ORDERS % "        c = Charge(token = $.‸").proposals()

    assert set(found) == {"token", "amount"}
    assert found["amount"].detail == "Double"


def test_an_equals_sign_completes_facets_by_the_shortest_name_that_means_them(editor: Editor) -> None:
    cursor = editor.open("equals.afl", "facet Charge()\n" + ORDERS % "        c = ‸")

    found = cursor.proposals()

    assert {"Price", "Discount", "Buy"} <= set(found)
    assert found["Discount"].label_details == lsp.CompletionItemLabelDetails(description="shop.prices")
    # Two are called Charge, so that neither is meant by the short name alone.
    assert "shop.prices.Charge" in found
    shown = cursor.looked_at(found["Discount"])
    assert shown.detail == "facet Discount(price: Price, percent: Int = 0) => (gross: Double)"
    assert isinstance(shown.documentation, lsp.MarkupContent)
    assert "Take something off a price." in shown.documentation.value


def test_a_call_completes_the_arguments_that_it_lacks(editor: Editor) -> None:
    found = editor.open("arguments.afl", ORDERS % "        c = Charge(token = $.token, ‸").proposals()

    assert set(found) == {"amount"}
    assert found["amount"].insert_text == "amount = "


def test_an_argument_completes_steps_above_and_parameters(editor: Editor) -> None:
    lines = "        a = Charge()\n        b = Charge(token = ‸)\n        c = Charge()"

    found = editor.open("value.afl", ORDERS % lines).proposals()

    assert {"a", "$.token", "$.amount", "null"} <= set(found)
    assert not {"b", "c"} & set(found)


def test_a_colon_completes_types_and_use_completes_namespaces(editor: Editor) -> None:
    typed = editor.open("types.afl", "namespace user {\n    use shop.prices\n    facet A(p: ‸)\n}\n").proposals()
    assert {"String", "Json", "Price", "Discount"} <= set(typed)

    used = editor.open("uses.afl", "namespace user {\n    use shop.‸\n}\n").proposals()
    assert "prices" in used


def test_nothing_is_proposed_inside_comments_strings_and_scripts(editor: Editor) -> None:
    assert editor.open("comment.afl", "// c = ‸\n").proposals() == {}
    assert editor.open("string.afl", 'facet A(a: String = "b = ‸\n').proposals() == {}
    assert editor.open("script.afl", "facet A() script {\n    a = ‸\n").proposals() == {}


def test_a_text_that_is_being_written_is_answered_from_what_was_known(editor: Editor) -> None:
    before = ORDERS % "        c = Charge(token = $.token)\n‸"
    cursor = editor.open("half.afl", before)
    assert {item.code for item in editor.findings(cursor)} == {"ARG_MISSING", "RETURN_UNSET"}

    editor.edit(cursor, "        when { foreach (c.")
    cursor.position = lsp.Position(cursor.position.line, 26)

    assert {item.code for item in editor.findings(cursor)} == {"PARSE_ERROR"}
    assert set(cursor.proposals()) == {"receipt", "ok"}
    cursor.position = lsp.Position(3, 13)
    assert cursor.definitions() == [("shop.afl", 12, 16)]


def test_the_outline_holds_namespaces_declarations_and_steps(editor: Editor) -> None:
    (namespace,) = editor.open("outline.afl", ORDERS % "        c = Charge(token = $.token)").outline()

    assert (namespace.name, namespace.kind) == ("orders", lsp.SymbolKind.Namespace)
    (workflow,) = namespace.children or ()
    assert workflow.name == "Buy"
    assert [(step.name, step.detail) for step in workflow.children or ()] == [("c", "Charge")]


def test_every_place_that_means_a_facet_is_found_across_files(editor: Editor) -> None:
    editor.open("refs_lib.afl", "namespace refs.lib {\n    facet Thing()\n}\n")
    editor.open(
        "refs_other.afl", "namespace refs.other {\n    use refs.lib\n    workflow O() andThen { t = Thing() }\n}\n"
    )
    text = (
        "namespace refs.user {\n    use refs.lib\n    workflow U() andThen { a = Thi‸ng() b = refs.lib.Thing() }\n}\n"
    )

    found = editor.open("refs_user.afl", text).references()

    assert sorted(found) == [
        ("refs_lib.afl", 1, 10),
        ("refs_other.afl", 2, 31),
        ("refs_user.afl", 2, 31),
        ("refs_user.afl", 2, 52),
    ]


def test_formatting_gives_the_one_layout_and_leaves_a_text_that_has_it_alone(editor: Editor) -> None:
    (edit,) = editor.open("layout.afl", "facet  A( )\nfacet B()\n").layout()
    assert edit == lsp.TextEdit(lsp.Range(lsp.Position(0, 6), lsp.Position(0, 10)), "A(")
    assert editor.open("laid_out.afl", "facet A()\n").layout() == []
    assert editor.open("broken.afl", "facet  A(\n").layout() == []


def test_folders_beside_the_workspace_are_searched_when_they_are_named(tmp_path: Path) -> None:
    library, work = tmp_path / "library", tmp_path / "work"
    library.mkdir()
    work.mkdir()
    (library / "far.afl").write_text("namespace far.away {\n    facet F()\n}\n")
    editor = Editor(work, "--source-path", str(library))

    cursor = editor.open("near.afl", "namespace near {\n    use far.away\n    workflow W() andThen { f = ‸F() }\n}\n")

    assert editor.findings(cursor) == []
    assert cursor.definitions() == [("far.afl", 1, 10)]
    assert editor.close() == 0


def test_a_folder_that_is_added_to_the_workspace_is_searched(editor: Editor, tmp_path: Path) -> None:
    (tmp_path / "added.afl").write_text("namespace added.later {\n    facet F()\n}\n")
    cursor = editor.open("adding.afl", "namespace adding {\n    use added.later\n}\n")
    assert [item.code for item in editor.findings(cursor)] == ["USE_UNKNOWN_NAMESPACE"]

    editor.add_folder(tmp_path)

    assert editor.findings(cursor) == []


def test_two_versions_of_a_program_side_by_side_are_two_programs(editor: Editor) -> None:
    first = editor.open("version1.afl", "namespace versions {\n    facet Same()\n}\n")
    second = editor.open("version2.afl", "namespace versions {\n    facet Same()\n}\n")

    assert editor.findings(second) == []
    editor.edit(first, " ")
    assert editor.findings(first) == []


def test_the_parts_of_a_namespace_in_one_folder_know_each_other(editor: Editor) -> None:
    editor.open("part1.afl", "namespace parts {\n    facet Other()\n}\n")

    cursor = editor.open("part2.afl", "namespace parts {\n    workflow W() andThen { o = Oth‸er() }\n}\n")

    assert editor.findings(cursor) == []
    assert cursor.definitions() == [("part1.afl", 1, 10)]


def test_formatting_leaves_the_kind_of_line_ends_to_the_editor(editor: Editor) -> None:
    (edit,) = editor.open("windows.afl", "facet  A()\r\nfacet B()\r\n").layout()
    assert edit == lsp.TextEdit(lsp.Range(lsp.Position(0, 6), lsp.Position(0, 7)), "")
    assert editor.open("windows_laid_out.afl", "facet A()\r\nfacet B()\r\n").layout() == []
