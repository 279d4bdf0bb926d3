"""The command `init`."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

import click

from afl_stream.commands.arguments import common
from afl_stream.commands.invocation import Invocation
from afl_stream.commands.refusals import CommandRefused
from afl_stream.exit_codes import ExitCode

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")


@click.command("init")
@click.argument("name")
@click.option(
    "--template",
    type=click.Choice(["basic", "saga", "approval", "rag"]),
    default="basic",
    show_default=True,
    help="What the project does.",
)
@common
def init_command(invocation: Invocation, name: str, template: str) -> ExitCode:
    """Make a project in a new folder NAME (or an empty one): workflow, handlers, tests, settings, README.

    \b
    Templates:
      basic     two event facets, one of them side by side
      saga      what fails takes back all that was done before it
      approval  waits for a person's yes, for days
      rag       answers questions from documents, with Claude

    It runs as it is; what to type next is printed. Nothing that is there is overwritten.

    \b
    Examples:
      afl-stream init orders
      afl-stream init desk --template approval
    """
    from afl_stream.commands.projects.templates import TEMPLATES, project_files, write_project

    folder = Path(name)
    project = folder.resolve().name
    if not _NAME.match(project):
        raise CommandRefused(
            f"{project!r} is no name of a project: it begins with a letter or digit, and letters, digits,"
            " '.', '_' and '-' follow"
        )
    files = project_files(project, template)
    write_project(folder, files)
    terminal = invocation.terminal()
    following = [TEMPLATES[template].next_command, "pytest"]
    if folder.resolve() != Path.cwd():
        following.insert(0, shlex.join(["cd", name]))
    if terminal.as_json:
        terminal.document({"folder": str(folder), "template": template, "files": list(files), "next": following})
        return ExitCode.OK
    terminal.line(
        f"{name}: a project from the template {template}, {len(files)} files; README.md says what each is for"
    )
    terminal.line("Type next:")
    for command in following:
        terminal.line(f"  {command}")
    return ExitCode.OK
