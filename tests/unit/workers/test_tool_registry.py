"""ToolRegistry: the facet's own handler, that of its short name, the default, or none."""

from __future__ import annotations

from afl.runtime import ToolRegistry


def test_the_qualified_name_goes_before_the_short_one_before_the_default() -> None:
    registry = ToolRegistry()
    assert not registry.has_handler("shop.Pay")
    assert registry.handle("shop.Pay", {}) is None

    registry.set_default_handler(lambda facet, payload: {"by": "default", "facet": facet})
    assert registry.has_handler("shop.Pay")
    assert registry.handle("shop.Pay", {}) == {"by": "default", "facet": "shop.Pay"}
    registry.register("Pay", lambda payload: {"by": "short"})
    assert registry.handle("shop.Pay", {}) == {"by": "short"}
    registry.register("shop.Pay", lambda payload: {"by": "qualified", **payload})
    assert registry.handle("shop.Pay", {"x": 1}) == {"by": "qualified", "x": 1}

    assert registry.handle("bank.Pay", {}) == {"by": "short"}
    assert registry.registered_names() == ["Pay", "shop.Pay"]
