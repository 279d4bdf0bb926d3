"""The routes of the pages, the script's messages and the files."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from afl_stream.dashboard.context import dashboard_of
from afl_stream.dashboard.pages import acting, others, runs
from afl_stream.dashboard.pages.rendering import FOLDER


async def live_messages(request: Request) -> Response:
    """Tell a page of changes: of the runs, or of one run."""
    kind, key = request.query_params.get("of", "runs"), request.query_params.get("id", "")
    if kind not in ("runs", "run") or len(key) > 1_000:
        return JSONResponse({"error": "of: expected runs, or run with an id"}, status_code=400)
    live, key = dashboard_of(request).live, key if kind == "run" else ""
    live.require_room(kind, key)
    messages = live.messages(kind, key)
    return StreamingResponse(messages, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


def health(_request: Request) -> Response:
    """Say that the dashboard answers."""
    return JSONResponse({"live": True})


def page_routes() -> list[Route | Mount]:
    """Return the routes of all pages."""
    run = "/runs/{workflow_id}"
    return [
        Route("/", runs.root_page),
        Route("/runs", runs.runs_page),
        Route("/search", runs.search_page),
        Route(run, runs.run_page),
        Route(f"{run}/graph", runs.graph_page),
        Route(f"{run}/timeline", runs.timeline_page),
        Route(f"{run}/records", runs.records_page),
        Route(f"{run}/why", runs.why_page),
        Route(f"{run}/steps/{{step_id}}", runs.step_page),
        Route("/start", acting.start_page, methods=["GET"]),
        Route("/start", acting.start, methods=["POST"]),
        Route("/act/{action}", acting.action_page, methods=["GET"]),
        Route("/act/{action}", acting.act, methods=["POST"]),
        Route("/login", acting.login_page, methods=["GET"]),
        Route("/login", acting.login, methods=["POST"]),
        Route("/logout", acting.logout, methods=["POST"]),
        Route("/programs", others.programs_page),
        Route("/programs/{name}", others.program_page),
        Route("/servers", others.servers_page),
        Route("/dead-letters", others.letters_page),
        Route("/dead-letters/{place}", others.letter_page),
        Route("/schedules", others.schedules_page),
        Route("/schedules/{schedule_id}", others.schedule_page),
        Route("/topics", others.topics_page),
        Route("/topics/{topic}", others.topic_page),
        Route("/pauses", others.pauses_page),
        Route("/handlers", others.handlers_page),
        Route("/tasks", others.tasks_page),
        Route("/locks", others.locks_page),
        Route("/logs", others.logs_page),
        Route("/external", others.external_page),
        Route("/settings", others.settings_page),
        Route("/live", live_messages),
        Route("/health", health),
        Mount("/static", StaticFiles(directory=FOLDER / "static")),
    ]
