"""One editor window for all tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.unit.editors.editor import Editor

#: A library that the texts of the tests use; its lines are counted in them.
SHOP = """\
/** What is sold. */
namespace shop.prices {
    schema Price { net: Double, currency: String }

    /**
     * Take something off a price.
     *
     * @param percent how much, of a hundred
     * @return gross what is left to pay
     */
    facet Discount(price: Price, percent: Int = 0) => (gross: Double)

    event facet Charge(token: String, amount: Double) => (receipt: String, ok: Boolean)
}
"""


@pytest.fixture(scope="session")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    folder = tmp_path_factory.mktemp("work")
    (folder / "shop.afl").write_text(SHOP)
    editor = Editor(folder)
    yield editor
    assert editor.close() == 0
