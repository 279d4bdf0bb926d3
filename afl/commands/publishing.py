"""`afl publish`: put sources where other compilers find them by namespace."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

import click

from afl.commands.inputs import Named, load, settings, source_options
from afl.commands.terminal import findings_json, report, say, write_json
from afl.core.process.click_options import strictness_options


@click.command("publish")
@click.option("--name", default="", metavar="NAME", help="What the publication is called.  [default: a namespace]")
@click.option("--version", default="latest", show_default=True, help="Versions other than latest cannot be changed.")
@click.option("--force", is_flag=True, help="Change a version anyway.")
@click.option("--list", "as_list", is_flag=True, help="Show what is published; publish nothing.")
@click.option("--remove", multiple=True, metavar="NAMESPACE", help="Withdraw a namespace; publish nothing.")
@click.option("--json", "as_json", is_flag=True, help="Write the result to standard output as JSON.")
@strictness_options
@source_options
@click.pass_context
def publish_command(
    ctx: click.Context,
    named: Named,
    name: str,
    version: str,
    force: bool,
    as_list: bool,
    remove: tuple[str, ...],
    as_json: bool,
) -> None:
    """Publish the namespaces of FILEs in MongoDB, for --mongo-resolve to find.

    They must compile together with what is published already.
    """
    from afl.publisher import PublishError, SourcePublisher

    config = settings(named)
    publisher = SourcePublisher(config)
    if as_list:
        _list(publisher.published(), as_json=as_json)
        return
    if remove:
        absent = [namespace for namespace in remove if not publisher.remove(namespace, version)]
        for namespace in absent:
            say(f"Error: {namespace} is not published in version {version}")
        ctx.exit(1 if absent else 0)
    sources = load(named)
    texts = [(entry.text, entry.source_id) for entry in sources.all_sources]
    try:
        done = publisher.publish(sources, name=name, version=version, force=force, strictness=named.strictness)
    except PublishError as error:
        if as_json:
            write_json({"published": False, "error": str(error), **findings_json(error.diagnostics)})
        else:
            report(error.diagnostics, texts)
            say(f"Error: {error}")
        ctx.exit(1)
    if as_json:
        write_json({"published": True, **done.to_json(), **findings_json(done.diagnostics)})
        return
    report(done.diagnostics, texts)
    for item in done.namespaces:
        say(f"{'published' if item.is_changed else 'unchanged'} {item.name} {item.version}", err=False)
    say(f"compile them by --mongo-resolve, or by --mongo {done.flow_id}:{done.name}", err=False)


def _list(documents: list[Mapping[str, object]], *, as_json: bool) -> None:
    if as_json:
        write_json(documents)
        return
    for item in documents:
        when = datetime.datetime.fromtimestamp(int(str(item["published_at"])) / 1000, datetime.UTC)
        say(f"{item['namespace_name']} {item['version']}  {when:%Y-%m-%d %H:%M:%S} UTC  {item['origin']}", err=False)
