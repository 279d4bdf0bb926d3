"""Markdown from doc comments."""

import pytest

from afl import ast
from afl.cli import main
from afl.output.documentation import markdown
from afl.syntax.doc_comments import read_doc

_TARIFF = """\
/** Everything about tariffs. */
namespace tariff {
    /**
     * Looks up a tariff.
     * @param zone area | code
     * @return rate price per unit
     */
    event facet Lookup(zone: String /* short */) => (rate: Double)
    schema Money { amount: Double }
}
"""


def test_a_doc_comment_is_a_description_and_tags() -> None:
    text = "/** Looks\n * it up.\n * @param zone area code\n   more\n * @returns rate per unit\n */"

    assert read_doc(text) == ast.Doc(
        "Looks\nit up.\nmore", [ast.DocEntry("zone", "area code")], [ast.DocEntry("rate", "per unit")]
    )


def test_a_tag_knows_its_place() -> None:
    doc = read_doc("/** @param a x\n *  @return b */", line=3, column=5)

    assert doc.location == ast.SourceLocation(3, 5, 4, 17)
    assert [entry.location for entry in (*doc.params, *doc.returns)] == [
        ast.SourceLocation(3, 9, 3, 19),
        ast.SourceLocation(4, 5, 4, 14),
    ]


def test_the_page_has_a_section_for_each_declaration() -> None:
    assert (
        markdown(_TARIFF)
        == """\
# Namespace `tariff`

Everything about tariffs.

## Event facet `Lookup`

Looks up a tariff.

```afl
event facet Lookup(zone: String) => (rate: Double)
```

| Parameter | |
|---|---|
| `zone` | area \\| code |

| Return | |
|---|---|
| `rate` | price per unit |

## Schema `Money`

```afl
schema Money { amount: Double }
```
"""
    )


def test_the_command_names_syntax_errors(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    path = f"{tmp_path}/wrong.afl"
    with open(path, "w") as file:
        file.write("facet F(")

    assert main(["doc", path]) == 1
    assert "error[PARSE_ERROR]" in capsys.readouterr().err
