"""The pages about programs, records and the deployment."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from starlette.requests import Request
from starlette.responses import Response

from afl.engine.planning.programs import stored_program
from afl_stream.client.client import Client
from afl_stream.dashboard.actions.start_forms import doc_of
from afl_stream.dashboard.context import dashboard_of
from afl_stream.dashboard.pages.rendering import page
from afl_stream.dashboard.views import registered
from afl_stream.dashboard.views.external import pending_events
from afl_stream.dashboard.views.graphs import picture
from afl_stream.dashboard.views.letters import HOPS, MOST_LETTERS, find_letters, show_letter
from afl_stream.dashboard.views.messages import messages
from afl_stream.dashboard.views.parameters import letter_choice_of, whole_number
from afl_stream.dashboard.views.run_views import opened
from afl_stream.dashboard.views.schedules import list_schedules, show_schedule
from afl_stream.dashboard.views.servers import list_servers
from afl_stream.dashboard.views.topics import topics
from afl_stream.visibility.programs import list_programs, show_programs, signature

Page = Callable[[Request], Response]


def needs_store(what: str) -> Callable[[Page], Page]:
    """Show what helps in the place of a page that reads the store, where there is none yet."""

    def of(shown: Page) -> Page:
        @wraps(shown)
        def wrapped(request: Request) -> Response:
            if not dashboard_of(request).deployment.has_store():
                return page(request, "empty.html", title=what)
            return shown(request)

        return wrapped

    return of


@needs_store("Programs")
def programs_page(request: Request) -> Response:
    """List the programs that runs are made of."""
    return page(
        request, "programs.html", title="Programs", versions=list_programs(dashboard_of(request).deployment.store)
    )


@needs_store("Programs")
def program_page(request: Request) -> Response:
    """Show the versions of a workflow, or one program: what it declares, its graph, and what differs."""
    store = dashboard_of(request).deployment.store
    name = request.path_params["name"]
    found = show_programs(store, name)
    newest = found.versions[-1]
    program = None if newest.unreadable else stored_program(store, newest.fingerprint)
    declared = [] if program is None else [one for one in program.declarations.values() if not one.is_library]
    about = request.query_params.get("facet") or next(
        (one for one in newest.workflows if one == name or one.endswith(f".{name}")), next(iter(newest.workflows), "")
    )
    drawn = None if program is None or not about else picture(program, about, request.query_params.get("at", ""))
    return page(
        request,
        "program.html",
        title=name if len(name) < 60 else name[:12],
        found=found,
        newest=newest,
        declarations=[
            (signature(one), "" if program is None else doc_of(program, one.qualified_name), one.qualified_name)
            for one in declared
        ],
        picture=drawn,
    )


def servers_page(request: Request) -> Response:
    """List who works for the deployment."""
    everybody = request.query_params.get("all") == "1"
    found, hidden, problem = list_servers(dashboard_of(request).deployment, everybody=everybody)
    return page(request, "servers.html", title="Servers", servers=found, hidden=hidden, problem=problem)


def letters_page(request: Request) -> Response:
    """List the dead letters that fit the filters of the url, the newest first."""
    choice = letter_choice_of(request.query_params)
    found, total = find_letters(dashboard_of(request).deployment, choice)
    return page(
        request, "letters.html", title="Dead letters", letters=found, total=total, choice=choice, hops=HOPS,
        most=MOST_LETTERS,
    )  # fmt: skip


def letter_page(request: Request) -> Response:
    """Show one dead letter: its reason, its record, where it came from."""
    view = show_letter(dashboard_of(request).deployment, request.path_params["place"])
    return page(request, "letter.html", title="Dead letter", view=view)


@needs_store("Schedules")
def schedules_page(request: Request) -> Response:
    """List the schedules."""
    found, wrong = list_schedules(dashboard_of(request).deployment)
    return page(request, "schedules.html", title="Schedules", schedules=found, wrong=wrong)


@needs_store("Schedules")
def schedule_page(request: Request) -> Response:
    """Show a schedule: its next firings, and what became of earlier ones."""
    view = show_schedule(dashboard_of(request).deployment, request.path_params["schedule_id"])
    return page(request, "schedule.html", title=view.schedule.id, view=view)


def topics_page(request: Request) -> Response:
    """List the topics with their sizes and lags."""
    return page(request, "topics.html", title="Topics", topics=topics(dashboard_of(request).deployment))


def topic_page(request: Request) -> Response:
    """Show a topic, and records of one of its partitions."""
    query = request.query_params
    found = messages(
        dashboard_of(request).deployment,
        request.path_params["topic"],
        partition=whole_number(query, "partition", default=0, low=0, high=100_000) if query.get("partition") else None,
        offset=whole_number(query, "offset", default=0, low=0, high=1 << 48) if query.get("offset") else None,
        key=query.get("key", "").strip(),
        limit=whole_number(query, "limit", default=20, low=1, high=200),
    )
    return page(request, "topic.html", title=found.topic.name, found=found, key=query.get("key", "").strip())


def pauses_page(request: Request) -> Response:
    """List what is paused."""
    deployment = dashboard_of(request).deployment
    pauses, facets = [], []
    with opened(deployment) as (transport, problem):
        if transport is not None:
            with Client(deployment.config, transport) as client:
                names = transport.admin().topic_names()
                if client.topology.definitions() in names:
                    pauses = client.pauses()
                facets = sorted(
                    {
                        facet
                        for name in names
                        if client.topology.is_facet_topic(name)
                        for facet in client.topology.facets_of(name)
                    }
                )
    return page(request, "pauses.html", title="Pauses", pauses=pauses, facets=facets, problem=problem)


@needs_store("Handlers")
def handlers_page(request: Request) -> Response:
    """List the registered handlers."""
    found = registered.handlers(dashboard_of(request).deployment)
    return page(request, "handlers.html", title="Handlers", handlers=found)


@needs_store("Tasks")
def tasks_page(request: Request) -> Response:
    """List tasks of the store."""
    query = request.query_params
    state = query.get("state", "")
    found = registered.tasks(dashboard_of(request).deployment, query.get("after", ""), state)
    return page(request, "tasks.html", title="Tasks", found=found, state=state)


@needs_store("Locks")
def locks_page(request: Request) -> Response:
    """List locks of the store."""
    found = registered.locks(dashboard_of(request).deployment, request.query_params.get("after", ""))
    return page(request, "locks.html", title="Locks", found=found)


@needs_store("Logs")
def logs_page(request: Request) -> Response:
    """List lines of the runs' logs."""
    query = request.query_params
    run = query.get("run", "").strip()
    found = registered.logs(dashboard_of(request).deployment, query.get("after", ""), run)
    return page(request, "logs.html", title="Logs", found=found, run=run)


@needs_store("External events")
def external_page(request: Request) -> Response:
    """List the events that wait to be taken."""
    return page(
        request, "external.html", title="External events", events=pending_events(dashboard_of(request).deployment)
    )


def settings_page(request: Request) -> Response:
    """Show the settings, with secrets masked."""
    described = dashboard_of(request).deployment.config.describe()
    sections: dict[str, list[tuple[str, object]]] = {}
    for name, value in described.items():
        section, dot, key = name.partition(".")
        sections.setdefault(section if dot else "", []).append((key or section, value))
    return page(request, "settings.html", title="Settings", sections=sections)
