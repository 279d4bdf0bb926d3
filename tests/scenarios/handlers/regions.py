"""A module that registers its functions itself, with all that can be said about them."""

import asyncio
import threading
from typing import Any

REGIONS = {"Africa": 54, "Asia": 48}


def register_handlers(runner: Any) -> None:
    for region, countries in REGIONS.items():
        runner.register_handler(
            facet_name=f"geo.{region}", module_uri=__name__, metadata={"countries": countries}, checksum="1"
        )
    for name, entrypoint, timeout_ms in (
        ("geo.Follow", "follow", 20_000),
        ("geo.Wait", "wait", 150),
        ("geo.Sleep", "sleep", 150),
        ("geo.Refuse", "refuse", 20_000),
        ("geo.Nothing", "nothing", 20_000),
        ("geo.Mumble", "mumble", 20_000),
        ("geo.Mistype", "mistype", 20_000),
    ):
        runner.register_handler(
            facet_name=name, module_uri=__name__, entrypoint=entrypoint, version="2.0.0", timeout_ms=timeout_ms
        )


def handle(payload: dict[str, Any]) -> dict[str, Any]:
    region = payload["_facet_name"].rpartition(".")[2]
    return {"text": f"{region} has {payload['_handler_metadata']['countries']} countries, asked by {payload['who']}"}


async def follow(payload: dict[str, Any], context: Any) -> dict[str, Any]:
    """Tell partial results, then the last one."""
    for stage in ("sent", "on its way"):
        context.update({"stage": stage, "seen": stage})
        await asyncio.sleep(0)
    return {"stage": "there", "attempt": context.attempt, "of": context.step_id.partition(":")[0]}


def wait(payload: dict[str, Any], context: Any) -> dict[str, Any]:
    """Take longer than it may, until it is told that its time is up."""
    while not context.is_stopping:
        threading.Event().wait(0.01)
    return {"text": "too late"}


async def sleep(payload: dict[str, Any]) -> dict[str, Any]:
    await asyncio.sleep(60)
    return {"text": "too late"}


def refuse(payload: dict[str, Any]) -> dict[str, Any]:
    raise PermissionError(f"{payload['who']} may not")


async def nothing(payload: dict[str, Any]) -> None:
    """Say no more than that it is done."""


def mumble(payload: dict[str, Any]) -> Any:
    return ["no", "dict"]


def mistype(payload: dict[str, Any]) -> dict[str, Any]:
    return {"texte": "bonjour"}
