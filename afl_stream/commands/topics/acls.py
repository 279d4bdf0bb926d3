"""The command `topics acls`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from afl_stream.commands.arguments import common, files_argument
from afl_stream.commands.invocation import Invocation, open_transport
from afl_stream.commands.refusals import CommandRefused
from afl_stream.commands.terminal import Listed
from afl_stream.commands.topics.scopes import ScopeOptions, rights_asked_for
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl_stream.acls import Acl
    from afl_stream.commands.terminal import Terminal
    from afl_stream.settings.config import StreamConfig
    from afl_stream.topics.rights import Right

#: The roles, by their words on the command line: those of `afl_stream.topics.rights`, which is loaded later.
ROLES: Final = (
    "evaluator",
    "agent",
    "audit",
    "producer",
    "starter",
    "operator",
    "dashboard",
    "gateway",
    "bridge",
    "pubsub-worker",
    "pubsub-client",
    "subscriber",
)
FORMATS: Final = ("table", "kafka-acls", "terraform", "strimzi")
#: A type and a name; Kafka's own authorizer knows users alone.
_PRINCIPAL: Final = re.compile(r"[A-Za-z]+:(?!\*\Z)\S.*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """The options of a call."""

    role: str
    principal: str | None
    host: str
    form: str
    cluster: str | None
    is_applied: bool
    is_checked: bool


@click.command("acls")
@files_argument(required=False)
@click.option("--role", type=click.Choice(ROLES), required=True, help="Whose rights.")
@click.option("--principal", metavar="User:NAME", help="Who gets them, as the brokers name it.")
@click.option("--facet", "facets", multiple=True, metavar="NAME", help="A facet of an agent or a gateway. Repeatable.")
@click.option("--group", metavar="NAME", help="For evaluator, agent and audit: a group that the settings do not name.")
@click.option("--answers", is_flag=True, help="For producer: it also answers steps.")
@click.option("--declaration", metavar="MODULE[:FUNCTION]", help="For bridge: what `bridge` is called with.")
@click.option("--workflow", metavar="MODULE:WORKFLOW", help="For pubsub-worker and pubsub-client: whose topics.")
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="For subscriber: what it reads. Repeatable.")
@click.option("--name", metavar="NAME", help="For bridge and subscriber: the name that it is started with.")
@click.option("--minimal", is_flag=True, help="Leave out what the role can do without: the table says what it lacks.")
@click.option("--host", default="*", metavar="IP", help="The only address that it may come from.")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="table",
    help="For those who give rights: kafka-acls is a script for Kafka's own tool.",
)
@click.option("--cluster", metavar="NAME", help="For strimzi: the Kafka resource that the user belongs to.")
@click.option("--apply", "is_applied", is_flag=True, help="Give the rights that are missing.")
@click.option("--check", "is_checked", is_flag=True, help="End with 1 if one is missing.")
@common
def topics_acls(  # noqa: PLR0913 - the options, by name
    invocation: Invocation,
    files: Sequence[str],
    role: str,
    principal: str | None,
    host: str,
    form: str,
    cluster: str | None,
    is_applied: bool,
    is_checked: bool,
    **scope: Any,
) -> ExitCode:
    """Show the least rights of a role on a cluster with ACLs, and give them to a user.

    Facets are looked up in the FILEs; without FILEs, in the deployed programs. To a file or a pipe rights are lines of
    columns between tabs. --apply and --check need a user who may
    alter the cluster's ACLs. --apply takes no right away.

    \b
    Examples:
      afl-stream topics acls --role evaluator
      afl-stream topics acls orders.afl --role agent --facet shop.Charge --principal User:charge --apply
      afl-stream topics acls --role audit --principal User:audit --check
      afl-stream topics acls --role starter --principal User:CN=web --format strimzi --cluster my-cluster
      afl-stream topics acls --role bridge --declaration shop.bridge
      afl-stream topics acls --role pubsub-worker --workflow shop.flow:review
    """
    given = _Given(
        role=role, principal=principal, host=host, form=form, cluster=cluster, is_applied=is_applied,
        is_checked=is_checked,
    )  # fmt: skip
    options = ScopeOptions(role=role, **scope)
    options.check()
    _refuse_misfits(given, as_json=invocation.as_json)
    config, terminal = invocation.settings(), invocation.terminal()
    if (is_applied or is_checked) and not config.is_kafka:
        option = "--apply" if is_applied else "--check"
        raise CommandRefused(f"{option} is for a Kafka cluster: name one with --bootstrap HOST:PORT or kafka.bootstrap")
    rights = rights_asked_for(invocation, config, files, options)
    if is_applied or is_checked:
        return _compare(terminal, config, rights, given)
    _write(terminal, config, rights, given)
    return ExitCode.OK


def _refuse_misfits(given: _Given, *, as_json: bool) -> None:
    from afl_stream.topics.exports import is_cluster_name

    principal = given.principal
    if principal is not None and not _PRINCIPAL.match(principal):
        everyone = "; rights for everyone are no rights of a role" if principal.endswith(":*") else ""
        raise click.UsageError(f"--principal: found {principal}, expected User:NAME{everyone}")
    asked = "--apply" if given.is_applied else "--check" if given.is_checked else None
    if principal is None and (asked or given.form != "table"):
        raise click.UsageError(f"{asked or f'--format {given.form}'} needs --principal User:NAME")
    if given.is_applied and given.is_checked:
        raise click.UsageError("--apply gives what is missing, --check only looks: give one")
    if asked and given.form != "table":
        raise click.UsageError(f"{asked} and --format {given.form} are two ways to give rights: give one")
    if as_json and given.form != "table":
        raise click.UsageError(f"--format {given.form} and --json are two forms of one output: give one")
    if (given.form == "strimzi") != (given.cluster is not None):
        needs = "needs --cluster NAME: `kubectl get kafka` lists the names"
        raise click.UsageError(f"--format strimzi {needs}" if given.cluster is None else "--cluster is for strimzi")
    if given.cluster is not None and not is_cluster_name(given.cluster):
        raise click.UsageError(f"--cluster: no resource of Kubernetes can be called {given.cluster!r}")


def _write(terminal: Terminal, config: StreamConfig, rights: Sequence[Right], given: _Given) -> None:
    from afl_stream.topics.acl_exports import kafka_acls_lines, strimzi_user_lines, terraform_acl_lines
    from afl_stream.topics.acls import acls_of

    principal, host = given.principal or "User:NAME", given.host
    match given.form:
        case "kafka-acls":
            lines = kafka_acls_lines(rights, principal, host, config.kafka.bootstrap or "HOST:PORT")
        case "terraform":
            lines = terraform_acl_lines(acls_of(rights, principal, host))
        case "strimzi":
            lines = strimzi_user_lines(rights, principal, host, given.cluster or "")
        case _:
            _show(terminal, rights, given)
            return
    for line in lines:
        terminal.line(line)


def _show(terminal: Terminal, rights: Sequence[Right], given: _Given) -> None:
    from afl_stream.acls import Match

    if terminal.as_json:
        rows = [
            {
                "resource": right.resource.value,
                "name": right.name,
                "match": right.match.value,
                "operations": [operation.value for operation in right.operations],
                "optional": right.is_optional,
                "why": right.why,
            }
            for right in rights
        ]
        terminal.document({"role": given.role, "principal": given.principal, "host": given.host, "rights": rows})
        return
    table = []
    for right in rights:
        name = f"{right.name}*" if right.match is Match.PREFIXED else right.name
        why = f"optional: {right.why}" if right.is_optional else right.why
        table.append(Listed((right.resource.value, name, ", ".join(right.operations), why)))
    terminal.listing(("on", "name", "operations", "why"), table)


def _compare(terminal: Terminal, config: StreamConfig, rights: Sequence[Right], given: _Given) -> ExitCode:
    """Look which rights are missing, and give them if that is asked for."""
    from afl_stream.acls import KeepsAcls
    from afl_stream.topics.acls import acls_of

    principal = given.principal or ""
    wanted = acls_of(rights, principal, given.host)
    with open_transport(config) as transport:
        admin = transport.admin()
        assert isinstance(admin, KeepsAcls)
        found = admin.acls_of(principal)
        missing = [acl for acl in wanted if acl not in found]
        others = sorted(found.difference(wanted))
        if given.is_applied:
            admin.create_acls(missing)
    _report(terminal, wanted, missing, others, given)
    if missing and given.is_checked:
        return ExitCode.WORK_LEFT
    return ExitCode.OK


def _report(
    terminal: Terminal, wanted: Sequence[Acl], missing: Sequence[Acl], others: Sequence[Acl], given: _Given
) -> None:
    added = "given" if given.is_applied else "missing"
    states = {acl: added if acl in missing else "there" for acl in wanted} | dict.fromkeys(others, "not of this role")
    if terminal.as_json:
        rows = [
            {
                "resource": acl.resource.value,
                "name": acl.name,
                "match": acl.match.value,
                "operation": acl.operation.value,
                "host": acl.host,
                "denied": acl.is_denied,
                "state": state,
            }
            for acl, state in states.items()
        ]
        terminal.document({"role": given.role, "principal": given.principal, "acls": rows})
    else:
        listed = [Listed((str(acl), state)) for acl, state in states.items()]
        terminal.listing(("ACL", "state"), listed, whole=("ACL",))
    beside = f"; {len(others)} not of this role, which stay" if others else ""
    terminal.remark(f"{given.principal}: {len(missing)} {added}, of {len(wanted)} of role {given.role}{beside}")
