"""The command `bridge`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from afl.core.handlers.modules import ModuleLoader, ModuleNotLoaded
from afl.core.process.signals import draining
from afl.core.text.near_names import close_names, did_you_mean
from afl_stream.commands.arguments import common, find_modules_here, service
from afl_stream.commands.invocation import Invocation, open_transport
from afl_stream.commands.refusals import CommandRefused
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl_stream.bridge.bridge import Bridge

_DEFAULT_NAME: Final = "declare"
#: How much longer than the grace period its end may take: two commits, and leaving the groups.
_ENDING_S: Final = 30


@click.command("bridge")
@click.argument("declaration", metavar="MODULE[:FUNCTION]")
@click.option("--name", default="bridge", show_default=True, help="Bridges of one name share what they read.")
@click.option("--create-topics", is_flag=True, help="First create the topics that are missing. Existing ones stay.")
@common
@service
def bridge_command(invocation: Invocation, declaration: str, name: str, create_topics: bool) -> ExitCode:
    """Run a bridge between AFL workflows and topics, and between AFL workflows and event-driven ones.

    MODULE is a module or a .py file. Its function `declare`, or FUNCTION, gets an afl_stream.bridge.Bridge and says
    what it does. SIGTERM and Ctrl-C drain: what is at work finishes and is answered, then it ends with 0; with 1 when
    something is still at work at the end of the grace period, which another process does again.

    \b
    Examples:
      afl-stream bridge shop.bridge
      afl-stream bridge ./bridge.py:orders --create-topics --bootstrap kafka:9092
    """
    from afl_stream.bridge.bridge import Bridge

    config, terminal = invocation.settings(), invocation.terminal()
    bridge = Bridge(config, name=name)
    declared_by(declaration)(bridge)
    if not bridge.facets and not bridge.topics_read:
        raise CommandRefused(
            f"{declaration} declares nothing, so there is nothing to run; it calls bridge.publish, "
            "bridge.raise_events, bridge.answer or bridge.answer_with_workflow"
        )
    with open_transport(config, create=create_topics, serves=True) as transport:
        if create_topics:
            bridge.apply_topics(transport)
        limit_s = config.agent.grace_s + _ENDING_S
        with draining(bridge.stop, bridge.remaining, limit_s=limit_s, limit_code=ExitCode.UNAVAILABLE):
            code = bridge.run(transport, on_start=lambda: terminal.remark(f"{_described(bridge)}; Ctrl-C ends it"))
    counts = asdict(bridge.counts)
    if terminal.as_json:
        terminal.document(counts)
    else:
        reported = [f"{count} {kind.replace('_', ' ')}" for kind, count in counts.items() if count]
        terminal.remark(", ".join(reported) or "nothing was done")
    return ExitCode.WORK_LEFT if code else ExitCode.OK


def declared_by(argument: str) -> Callable[[Bridge], object]:
    """Return the function that says what a bridge does. Raises CommandRefused."""
    find_modules_here()
    module_uri, colon, name = argument.rpartition(":")
    # The colon of a URI, and none at all, leave the name to us.
    if not colon or not name.isidentifier():
        module_uri, name = argument, _DEFAULT_NAME
    try:
        names = vars(ModuleLoader().load(module_uri))
    except ModuleNotLoaded as error:
        raise CommandRefused(f"module {module_uri}: {error.found}; expected {error.expected}") from error
    wanted = "a function with one parameter, the bridge, says what it does"
    if name not in names:
        near = did_you_mean(close_names(name, [known for known in names if not known.startswith("_")]))
        raise CommandRefused(f"module {module_uri} has no {name}; {near or wanted}")
    declare: Callable[[Bridge], object] = names[name]
    if not callable(declare):
        raise CommandRefused(f"{argument} is a {type(declare).__qualname__}; {wanted}")
    return declare


def _described(bridge: Bridge) -> str:
    """Return what a bridge does, in words."""
    does = [f"answers {', '.join(bridge.facets)}"] if bridge.facets else []
    does += [f"reads {', '.join(bridge.topics_read)}"] if bridge.topics_read else []
    return f"bridge: {'; '.join(does)}"
