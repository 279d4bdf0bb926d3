"""The pages on which operators act: each action's form, starting a workflow, pasted AFL, signing in and out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from afl.core.errors import AFLError
from afl.diagnostics import render
from afl.errors import CompileError
from afl_stream.dashboard.actions.operator import Operator, Outcome
from afl_stream.dashboard.actions.performing import logged, perform, require_operator, values_of_form
from afl_stream.dashboard.actions.start_forms import inputs_of_form, start_form, workflow_names
from afl_stream.dashboard.actions.table import ACTIONS, Action
from afl_stream.dashboard.context import dashboard_of, principal_of
from afl_stream.dashboard.pages.rendering import page
from afl_stream.web.guard import COOKIE, cookie_text
from afl_stream.web.parameters import one_of
from afl_stream.wire.headers import IfExists

#: Makes an answer of a form that carries the token of its session.
FormPage = Callable[[Request, Mapping[str, str]], Response]


def with_form(handle: FormPage) -> Callable[[Request], Any]:
    """Read a form, refuse one without the token of its session, and answer it in a thread."""

    async def answer(request: Request) -> Response:
        form: FormData
        async with request.form(max_files=0, max_fields=500) as form:
            values = {name: value for name, value in form.items() if isinstance(value, str)}
        if not dashboard_of(request).sessions.takes_csrf(request.state.session_id, values.pop("csrf", "")):
            text = "the form is not of this session; open its page again (cookies must be allowed)"
            return page(request, "error.html", status_code=403, title="Not done", text=text)
        return await run_in_threadpool(handle, request, values)

    return answer


def action_page(request: Request) -> Response:
    """Show the form of an action: what it does, its fields, and the button that does it."""
    action = ACTIONS.get(request.path_params["action"])
    if action is None:
        return page(
            request, "error.html", status_code=404, title="No such action", text="there is no action of this name"
        )
    require_operator(dashboard_of(request), principal_of(request))
    return _form_page(request, action, dict(request.query_params), "")


def _act(request: Request, form: Mapping[str, str]) -> Response:
    action = ACTIONS.get(request.path_params["action"])
    if action is None:
        return page(
            request, "error.html", status_code=404, title="No such action", text="there is no action of this name"
        )
    dashboard, principal = dashboard_of(request), principal_of(request)
    require_operator(dashboard, principal)
    try:
        values = values_of_form(action, form)
        outcome = perform(dashboard, principal, action, values)
    except CompileError as error:
        told = "\n".join(render(one, form.get("text", "")) for one in error.diagnostics)
        return _form_page(request, action, form, told, 422)
    except AFLError as error:
        return _form_page(request, action, form, dashboard.deployment.masked(str(error)), 422)
    _note(request, outcome)
    return RedirectResponse(action.back(values), status_code=303)


def _form_page(request: Request, action: Action, given: Mapping[str, str], failed: str, code: int = 200) -> Response:
    target = "" if action.target is None else given.get(action.target, "")
    hint = ""
    if action.name == "continue" and target:
        hint = _result_hint(request, target)
    return page(
        request,
        "action.html",
        status_code=code,
        title=action.title,
        action=action,
        target=target,
        given=given,
        failed=failed,
        hint=hint,
        back=action.back({action.target: target}) if action.target and target and not failed else "",
    )


def _result_hint(request: Request, step_id: str) -> str:
    """Return what the facet of a step returns, for the form that answers it; "" where it is not known."""
    from afl.core.types import type_name
    from afl_stream.wire.messages import workflow_of

    try:
        view = dashboard_of(request).runs.view(workflow_of(step_id))
    except AFLError:
        return ""
    step, plan = view.index.by_id.get(step_id), view.detail.plan
    facet = None if step is None or plan is None else next((f for f in plan.facets if f.name == step.facet), None)
    if facet is None:
        return ""
    returns = ", ".join(f"{name}: {type_name(kind)}" for name, kind in facet.return_types.items())
    return f"{facet.name} returns ({returns})" if returns else f"{facet.name} returns nothing"


def start_page(request: Request) -> Response:
    """List the workflows that can be started, or show the form of one."""
    dashboard = dashboard_of(request)
    workflow = request.query_params.get("workflow", "")
    if not workflow:
        names, problem = workflow_names(dashboard.deployment)
        return page(request, "start.html", title="Start a run", names=names, problem=problem)
    form = start_form(dashboard.deployment, workflow)
    return page(
        request, "start_form.html", title=f"Start {form.workflow}", form=form, given={}, wrong={}, failed="", run_id=""
    )


def _start(request: Request, given: Mapping[str, str]) -> Response:
    dashboard, principal = dashboard_of(request), principal_of(request)
    require_operator(dashboard, principal)
    form = start_form(dashboard.deployment, given.get("workflow", ""))
    inputs, wrong = inputs_of_form(form, given)
    run_id = given.get("run-id", "").strip()
    failed = ""
    if not wrong:
        try:
            operator = Operator(dashboard.deployment)
            outcome = logged(
                principal,
                "start",
                f"{form.workflow} {run_id}",
                lambda: operator.start(
                    principal.name,
                    form.workflow,
                    inputs,
                    run_id,
                    one_of("if_exists", chosen, IfExists) if (chosen := given.get("if-exists")) else None,
                ),
            )
        except AFLError as error:
            failed = dashboard.deployment.masked(str(error))
        else:
            _note(request, outcome)
            at_once = dashboard.deployment.can_be_answered and outcome.is_answered
            return RedirectResponse(f"/runs/{outcome.facts['workflow_id']}" if at_once else "/runs", status_code=303)
    return page(
        request,
        "start_form.html",
        status_code=422,
        title=f"Start {form.workflow}",
        form=form,
        given=given,
        wrong=wrong,
        failed=failed,
        run_id=run_id,
    )


def _note(request: Request, outcome: Outcome) -> None:
    """Keep what came of an action for the next page."""
    dashboard, text = dashboard_of(request), outcome.text
    if not outcome.is_answered:
        text += ": no evaluator has answered yet; it is on its topic, and the next evaluator that runs does it"
    dashboard.sessions.note(request.state.session_id, "done", text)


def login_page(request: Request) -> Response:
    """Show the form that takes a token."""
    return page(request, "login.html", title="Sign in", to=request.query_params.get("to", "/runs"), failed="")


def _login(request: Request, form: Mapping[str, str]) -> Response:
    dashboard = dashboard_of(request)
    to = form.get("to", "/runs")
    address = request.client.host if request.client else ""
    # Tokens cannot be guessed; this keeps somebody from trying all the same.
    if dashboard.sign_ins.wait_s(address):
        return page(
            request, "login.html", status_code=429, title="Sign in", to=to, failed="too many attempts: wait a minute"
        )
    principal = dashboard.access.of_token(form.get("token", "").strip())
    if principal is None:
        return page(request, "login.html", status_code=401, title="Sign in", to=to, failed="this is none of the tokens")
    # A new session: whoever knew the old id has no part in this one.
    session_id = dashboard.sessions.sign_in(principal)
    is_secure = request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https"
    # Only to a page of this dashboard: `//host` would be another site.
    is_here = to.startswith("/") and not to.startswith(("//", "/\\"))
    answer = RedirectResponse(to if is_here else "/runs", status_code=303)
    answer.headers["set-cookie"] = cookie_text(session_id, is_secure=is_secure)
    return answer


def _logout(request: Request, _form: Mapping[str, str]) -> Response:
    dashboard_of(request).sessions.sign_out(request.state.session_id)
    answer = RedirectResponse("/login", status_code=303)
    answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
    return answer


act = with_form(_act)
start = with_form(_start)
login = with_form(_login)
logout = with_form(_logout)
