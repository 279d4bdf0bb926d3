"""Handlers whose results and exceptions are objects that harm their readers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from enum import StrEnum
from typing import Any

Payload = dict[str, Any]


class Proxy:
    """Raises on any attribute, its class included."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"no {name} today")


class Everything:
    """Has every attribute, and each is true: a mock."""

    def __getattr__(self, name: str) -> Any:
        return self


class Raising:
    """Raises whatever is asked of it."""

    def _no(self, *_: object) -> Any:
        raise ValueError("not with me")

    __bool__ = __len__ = __iter__ = __eq__ = __hash__ = __repr__ = __str__ = __contains__ = __getitem__ = _no


class Lying:
    """Says that it is a dict."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return dict


class Leaving:
    """Ends the process that asks for its truth or its attributes."""

    def __bool__(self) -> bool:
        raise SystemExit(9)

    def __getattribute__(self, name: str) -> Any:
        raise SystemExit(9)


class BadMapping(Mapping[str, Any]):
    """A map that cannot be read."""

    def __getitem__(self, key: str) -> Any:
        raise KeyboardInterrupt

    def __iter__(self) -> Iterator[str]:
        raise SystemExit(9)

    def __len__(self) -> int:
        raise GeneratorExit


class OwnDict(dict[str, Any]):
    """A dict whose methods raise; what it holds is read all the same."""

    def _no(self, *_: object) -> Any:
        raise SystemExit(9)

    __iter__ = __len__ = __getitem__ = __bool__ = items = keys = values = get = copy = _no


class OwnText(str):
    """A text that encodes to something else."""

    def encode(self, *_: object) -> Any:
        return [999, "x"]

    def isascii(self) -> bool:
        raise SystemExit(9)

    def __len__(self) -> int:
        raise SystemExit(9)


class OwnNumber(int):
    """A number that compares as it likes."""

    def __le__(self, other: object) -> bool:
        raise SystemExit(9)

    __ge__ = __lt__ = __gt__ = __rle__ = __lshift__ = __le__


class OwnList(list[Any]):
    """A list that cannot be gone through."""

    def __iter__(self) -> Iterator[Any]:
        raise KeyboardInterrupt

    def __len__(self) -> int:
        raise KeyboardInterrupt


class Colour(StrEnum):
    RED = "red"


class Awful(Exception):
    """Its text ends the process."""

    def __str__(self) -> str:
        raise SystemExit(9)

    __repr__ = __str__


class Faceless(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise SystemExit(9)


class Nameless(Exception, metaclass=Faceless):
    """Its class has no name that can be asked for; nor does it say what its notes are."""

    @property
    def __notes__(self) -> Any:  # type: ignore[override]
        raise SystemExit(9)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise SystemExit(9)


class OwnBase(BaseException):
    """No Exception, and none of Python's."""


def good(payload: Payload) -> Any:
    return {"value": {"plain": [1, 2.5, "x", None, True]}}


def subclasses(payload: Payload) -> Any:
    return OwnDict(value=[OwnText("text"), OwnNumber(7), OwnList([1, 2]), Colour.RED, OwnDict(a=(1, 2))])


def proxy(payload: Payload) -> Any:
    return Proxy()


def proxy_inside(payload: Payload) -> Any:
    return {"value": Proxy()}


def mock(payload: Payload) -> Any:
    return Everything()


def raising(payload: Payload) -> Any:
    return Raising()


def raising_inside(payload: Payload) -> Any:
    return {"value": [Raising()]}


def raising_key(payload: Payload) -> Any:
    return {3: Raising()}


def lying(payload: Payload) -> Any:
    return Lying()


def lying_inside(payload: Payload) -> Any:
    return {"value": Lying()}


def leaving(payload: Payload) -> Any:
    return Leaving()


def leaving_inside(payload: Payload) -> Any:
    return {"value": {"deep": [Leaving()]}}


def mapping(payload: Payload) -> Any:
    return BadMapping()


def mapping_inside(payload: Payload) -> Any:
    return {"value": BadMapping()}


def endless(payload: Payload) -> Any:
    value: list[Any] = []
    value.append(value)
    return {"value": value}


def generator(payload: Payload) -> Generator[int]:
    yield 1


async def coroutine_of_coroutine(payload: Payload) -> Any:
    return good_async(payload)


async def good_async(payload: Payload) -> Any:
    return good(payload)


class WaitsWrongly:
    def __await__(self) -> Any:
        raise SystemExit(9)


def waits_wrongly(payload: Payload) -> Awaitable[Any]:
    return WaitsWrongly()


def awful(payload: Payload) -> Any:
    raise Awful("x")


async def awful_async(payload: Payload) -> Any:
    raise Awful("x")


def nameless(payload: Payload) -> Any:
    raise Nameless("x")


def leaves(payload: Payload) -> Any:
    raise SystemExit(9)


async def leaves_async(payload: Payload) -> Any:
    raise SystemExit(9)


def leaves_when_awaited(payload: Payload) -> Any:
    return leaves_async(payload)


def interrupts(payload: Payload) -> Any:
    raise KeyboardInterrupt


async def interrupts_async(payload: Payload) -> Any:
    raise KeyboardInterrupt


def generator_exit(payload: Payload) -> Any:
    raise GeneratorExit


async def cancelled_async(payload: Payload) -> Any:
    raise asyncio.CancelledError


def own_base(payload: Payload) -> Any:
    raise OwnBase("x")


async def own_base_async(payload: Payload) -> Any:
    raise OwnBase("x")


def group(payload: Payload) -> Any:
    raise BaseExceptionGroup("both", [Awful("x"), SystemExit(9), ExceptionGroup("inner", [Nameless("x")])])


def looped(payload: Payload) -> Any:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    raise first


def chatty(payload: Payload) -> Any:
    raise ValueError("\ud800" + "x" * 3_000_000)


def stops(payload: Payload) -> Any:
    raise StopIteration(3)


async def leaves_a_task(payload: Payload) -> Any:
    async def leave() -> None:
        raise SystemExit(9)

    task = asyncio.create_task(leave())
    await asyncio.sleep(0.05)
    del task
    return good(payload)


def updates(payload: Payload, context: Any) -> Any:
    context.update({"value": Leaving()})


def updates_wholly(payload: Payload, context: Any) -> Any:
    context.update(Proxy())


#: What becomes of each: the type of its failure, or None where it completes.
HOSTILE: dict[Callable[..., Any], str | None] = {
    good: None,
    good_async: None,
    subclasses: None,
    leaves_a_task: None,
    proxy: "BadResult",
    proxy_inside: "ValueRefused",
    mock: "BadResult",
    raising: "BadResult",
    raising_inside: "ValueRefused",
    raising_key: "ValueRefused",
    lying: "BadResult",
    lying_inside: "ValueRefused",
    leaving: "BadResult",
    leaving_inside: "ValueRefused",
    mapping: "BadResult",
    mapping_inside: "BadResult",
    endless: "ValueRefused",
    generator: "BadResult",
    coroutine_of_coroutine: "BadResult",
    updates: "ValueRefused",
    updates_wholly: "BadResult",
    waits_wrongly: "SystemExit",
    awful: "Awful",
    awful_async: "Awful",
    nameless: "Nameless",
    leaves: "SystemExit",
    leaves_async: "SystemExit",
    leaves_when_awaited: "SystemExit",
    interrupts: "KeyboardInterrupt",
    interrupts_async: "KeyboardInterrupt",
    generator_exit: "GeneratorExit",
    cancelled_async: "CancelledError",
    own_base: "OwnBase",
    own_base_async: "OwnBase",
    group: "BaseExceptionGroup",
    looped: "ValueError",
    chatty: "ValueError",
    stops: "StopIteration",
}


def facet_of(handler: Callable[..., Any]) -> str:
    return handler.__name__.title().replace("_", "")


PROGRAM = "namespace hostile {\n" + "".join(
    f"    event facet {facet_of(handler)}() => (value: Json)\n"
    f"    workflow Run{facet_of(handler)}() => (value: Json) andThen {{\n"
    f"        x = {facet_of(handler)}()\n"
    f"        yield Run{facet_of(handler)}(value = x.value)\n"
    "    }\n"
    for handler in HOSTILE
) + "}\n"  # fmt: skip


def register_handlers(runner: Any) -> None:
    for handler in HOSTILE:
        runner.register_handler(
            facet_name=f"hostile.{facet_of(handler)}", module_uri=__name__, entrypoint=handler.__name__
        )
