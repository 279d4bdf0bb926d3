"""The agents of random programs: results that follow from the facet's name and the payload alone."""

import hashlib
import json
from collections.abc import Mapping
from random import Random

from tests.random_programs.expressions import Node, Value, failure


class Answers:
    """Answers every event facet of a compiled program. Two calls with the same payload get the same result.

    Entries that a runtime adds to a payload (their names begin with `_`) do not count, and neither does whether a
    number travelled as an Int where the facet declares a Double. The agent of a facet called `Moody` fails at times.
    """

    def __init__(self, program: Node) -> None:
        self._facets: dict[str, Node] = {}
        for namespace in program["declarations"]:
            for node in namespace.get("declarations", []):
                if node["type"] == "EventFacetDecl":
                    self._facets[f"{namespace['name']}.{node['name']}"] = node

    def names(self) -> list[str]:
        """Qualified names of all event facets."""
        return list(self._facets)

    def __call__(self, facet: str, payload: Mapping[str, Value]) -> dict[str, Value]:
        node = self._facets[facet]
        types = {slot["name"]: slot["type"] for slot in node.get("params", [])}
        work = {
            name: _as_declared(value, types.get(name)) for name, value in payload.items() if not name.startswith("_")
        }
        text = json.dumps([facet, work], sort_keys=True)
        random = Random(hashlib.sha256(text.encode()).digest())
        if node["name"] == "Moody" and random.random() < 0.4:
            raise failure("Mood", "not today")
        return {slot["name"]: _value(slot["type"], random) for slot in node.get("returns", [])}


def _as_declared(value: Value, declared: object) -> Value:
    if declared == "Double" and isinstance(value, int):
        return float(value)
    if isinstance(declared, dict) and isinstance(value, list):
        return [_as_declared(element, declared["elementType"]) for element in value]
    return value


def _value(declared: object, random: Random) -> Value:
    """Return a small value of a declared type."""
    if isinstance(declared, dict):
        return [_value(declared["elementType"], random) for _ in range(random.randrange(4))]
    match declared:
        case "Int" | "Long":
            return random.randrange(-9, 10)
        case "Double":
            return random.randrange(-20, 21) / 4
        case "String":
            return random.choice(["", "a", "b c", "été", "0", "x.y"])
        case "Boolean":
            return random.random() < 0.5
        case "Json":
            return {"n": random.randrange(10), "tags": [random.randrange(3), random.randrange(3)]}
    raise NotImplementedError(f"no answer of type {declared}")
