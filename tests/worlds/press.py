"""A program with scripts, and a runner that a test holds in its hands: every run of a script says which one it was."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from afl.scripts.pool import ScriptResult
from afl_stream.agent.agent import HandlerContext
from tests.worlds.deployment import Deployment
from tests.worlds.parties import Handler

PRESS = """
namespace press {
  event facet Print(text: String) => (page: Long)
  facet Label(item: String) => (text: String) script { result["text"] = params["item"].upper() }
  workflow Catalogue(items: [String]) => (texts: [String], pages: [Long], title: String, opened: String) script {
    result["opened"] = "opened"
  } andThen foreach item in $.items {
    l = Label(item = $.item)
    p = Print(text = l.text)
    yield Catalogue(texts = [l.text], pages = [p.page])
  } andThen script {
    result["title"] = "all of " + str(len(params["items"]))
  }
  workflow Leaflet(text: String) => (page: Long) andThen {
    p = Print(text = $.text)
    yield Leaflet(page = p.page)
  }
}
"""
ITEMS = ["tea", "sugar"]


class Presses:
    """Runs the scripts of PRESS without Python: what comes of one says how often it was run before.

    With `holds` they lie until they are released.
    """

    def __init__(self, *, holds: bool = False) -> None:
        self.holds = holds
        self.runs: Counter[str] = Counter()
        self.lying: deque[tuple[str, Future[ScriptResult]]] = deque()

    def submit(self, code: str, params: Mapping[str, object], workflow_id: str) -> Future[ScriptResult]:
        what = "text" if "upper" in code else "title" if "title" in code else "opened"
        # Which script of the workflow: every caller asks for it with the same params.
        self.runs[f"{what} of {params['item'] if what == 'text' else params['items']}"] += 1
        run = self.runs[f"{what} of {params['item'] if what == 'text' else params['items']}"]
        future: Future[ScriptResult] = Future()
        self.lying.append((f"{what} {run}", future))
        if not self.holds:
            self.release()
        return future

    def release(self) -> None:
        """Let all that lie end."""
        while self.lying:
            self.end_first()

    def end_first(self) -> None:
        value, future = self.lying.popleft()
        future.set_result(ScriptResult(result={value.split()[0]: value}, printed="", duration_s=0.0))


def print_page(payload: dict[str, Any], context: HandlerContext) -> dict[str, Any]:
    return {"page": len(payload["text"])}


HANDLERS: dict[str, Handler] = {"press.Print": print_page}


def start_catalogue(deployment: Deployment, workflow_id: str = "wf-1", items: list[str] | None = None) -> str:
    return deployment.client.start("press.Catalogue", {"items": items or ITEMS}, workflow_id=workflow_id)


def start_leaflet(deployment: Deployment, workflow_id: str) -> str:
    return deployment.client.start("press.Leaflet", {"text": "abc"}, workflow_id=workflow_id)
