"""`python -m afl.workers.service`: a RunnerService as a process, ended by SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final, NoReturn

from afl.core.handlers.modules import HandlersArgument
from afl.core.monitoring.status_server import LAST_PORT
from afl.core.process.private_files import make_private_file, protect
from afl.core.process.signals import EndedBySignal, Remaining, draining, signals_handled
from afl.core.process.standard_streams import standard_streams
from afl.core.process.stopping import PROCESS_STOP, StopFlag
from afl.core.text.exception_text import exception_line, exception_text, exception_traceback
from afl.core.text.log_lines import LogLineFormatter
from afl.core.text.masking import secrets_of_environment
from afl.core.text.printable import printable
from afl.engine.errors import StoreUnavailable
from afl.engine.execution.scripts import ScriptRunner
from afl.engine.execution.task_dispatch import TaskDispatch
from afl.engine.operations.unanswered import all_waiting_steps, unanswered_facets
from afl.errors import AFLError
from afl.evaluation.evaluator import Evaluator
from afl.stores.public.persistence import EngineStore
from afl.workers.service.deployment import NoStoreNamed, PublishedFlows, mongodb_config, open_store
from afl.workers.service.service import RunnerService
from afl.workers.service.settings import RunnerConfig

_log = logging.getLogger("afl.runtime.runner")

#: Exit codes. Ended by a second signal: 128 and the signal's number.
OK, FAILED, WRONG_USAGE = 0, 1, 2
#: The time that the process has to end after the service has ended.
_LAST_WAIT_S: Final = 2.0
#: The most facets that are named at the end when their events wait.
_MOST_FACETS: Final = 10


def main(args: Sequence[str] | None = None) -> int:
    """Run the service and return the process's exit code.

    0: it drained. 1: it could not start or continue, or gave tasks back that exceeded the shutdown timeout. 2: wrong
    usage.
    """
    # First of all, because opening the store and the modules of handlers may take long.
    with signals_handled(), standard_streams():
        return _main(args)


def _main(args: Sequence[str] | None) -> int:
    options = _parser().parse_args(args)
    _set_up_logging(options.log_level, options.log_file)
    try:
        return _run(options)
    except EndedBySignal as ended:
        _log.info("%s before it had started; no work was under way", ended)
        return OK
    except NoStoreNamed as error:
        _say(str(error))
        return WRONG_USAGE
    except Exception as error:  # noqa: BLE001 - the one place of the main thread
        _log.debug("the runner has failed\n%s", exception_traceback(error))
        _say(exception_text(error) if isinstance(error, AFLError) else exception_line(error))
        return FAILED


def _run(options: argparse.Namespace) -> int:
    with ExitStack() as opened:
        store = opened.enter_context(closing(open_store(options.store, options.config, options.prefix)))
        flows_at, config = mongodb_config(options.config), _config(options)
        service = RunnerService(
            store,
            # Tasks for workflows that it starts and continues go on the list that it works on.
            Evaluator(store, scripts=_scripts(options.allow_scripts, opened), dispatch=TaskDispatch(config.task_list)),
            config,
            flows=None if flows_at is None else PublishedFlows(flows_at),
        )
        _load_handlers(service, options.handlers)
        work = service.run_until_idle if options.until_idle else service.start
        try:
            _run_until_signalled(work, service.stop, lambda: _remaining(service, config))
        except StoreUnavailable as error:
            if not PROCESS_STOP.is_set() or service.tasks_at_work():
                raise
            # A signal came while it waited for the store, with no work under way.
            _log.warning("it could not sign off: %s", error)
        else:
            if options.until_idle and not PROCESS_STOP.is_set():
                _report_unanswered(store)
    if service.given_back:
        _say(f"{service.given_back} tasks took longer than the shutdown timeout and were given back")
        return FAILED
    if service.left_undone:
        _say(
            f"{service.left_undone} tasks stay claimed, because their ends could not be stored: the leases will expire"
        )
        return FAILED
    return OK


def _report_unanswered(store: EngineStore) -> None:
    """Report the events that wait for an answer although no work is left here."""
    found = unanswered_facets(all_waiting_steps(store))
    for waits in found[:_MOST_FACETS]:
        _write(f"{waits}; a runner with a handler for it can answer: --handlers MODULE")
    if len(found) > _MOST_FACETS:
        _write(f"and events of {len(found) - _MOST_FACETS} more facets wait")


def _remaining(service: RunnerService, config: RunnerConfig) -> str:
    """Return the work left before the drain is over, in words. A signal handler calls this, without any lock."""
    if not (at_work := service.tasks_at_work()):
        return ""
    listed = ", ".join(f"{name} {count}" for name, count in sorted(Counter(at_work).items()))
    return f"{len(at_work)} tasks at work ({listed}), waited for up to {config.shutdown_timeout_ms / 1_000:g} s"


def _load_handlers(service: RunnerService, handlers: Sequence[str]) -> None:
    """Register the handlers; when they cannot be loaded, report that in the list of servers too."""
    try:
        for argument in handlers:
            named = HandlersArgument.parse(argument)
            service.register_module(named.module_uri, named.facets, entrypoint=named.entrypoint)
    except Exception as error:
        service.refuse_to_start(error)
        raise


def _config(options: argparse.Namespace) -> RunnerConfig:
    """Return the given settings; the others have their defaults."""
    given = {name: getattr(options, name) for name in _SETTINGS if getattr(options, name) is not None}
    return RunnerConfig(**given)


def _scripts(allowed: bool, opened: ExitStack) -> ScriptRunner | None:
    if not allowed:
        return None
    from afl.scripts.pool import ScriptPool

    return opened.enter_context(ScriptPool())


def _set_up_logging(level: str, file: str | None) -> None:
    if file is not None:
        make_private_file(Path(file))
        protect(Path(file))
    where = logging.StreamHandler(sys.stderr) if file is None else logging.FileHandler(file, encoding="utf-8")
    where.setFormatter(LogLineFormatter(secrets_of_environment()))
    logging.basicConfig(level=level, handlers=[where])


def _say(message: str) -> None:
    _write(f"error: {message}")


def _write(text: str) -> None:
    sys.stderr.write(f"{printable(secrets_of_environment().masked(text), 20_000)}\n")


#: Options that are settings of the same name.
_SETTINGS: Final = (
    "server_group",
    "service_name",
    "server_name",
    "topics",
    "task_list",
    "poll_interval_ms",
    "heartbeat_interval_ms",
    "max_concurrent",
    "lock_duration_ms",
    "shutdown_timeout_ms",
    "max_stuck_handlers",
    "http_host",
    "http_port",
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m afl.workers.service",
        description="Work on the tasks of a store: those of facets, afl:execute and afl:resume. "
        "SIGTERM and SIGINT drain: running tasks are finished, then it ends with 0; a second signal ends it at once.",
    )
    add = parser.add_argument
    add("--store", metavar="WHERE", help="the store: a SQLite file, or a mongodb:// url")
    add("--prefix", metavar="TEXT", help="the topic prefix that the store belongs to; by default afl.")
    add("--config", metavar="FILE", help="afl.config.json, which names a MongoDB for the store and for published flows")
    add(
        "--handlers",
        action="append",
        default=[],
        metavar="MODULE[:FUNCTION][=FACET,...]",
        help="a module of handlers, or a .py file; the function is handle unless the module says otherwise; "
        "may be repeated",
    )
    add("--until-idle", action="store_true", help="do the waiting work, and end")
    add("--allow-scripts", action="store_true", help="run the scripts of programs, isolated")
    add("--server-group", metavar="NAME")
    add("--service-name", metavar="NAME")
    add("--server-name", metavar="NAME", help="by default the host's")
    add("--topics", nargs="+", metavar="FACET", help="only these facets: names, or patterns such as 'billing.*'")
    add("--task-list", metavar="NAME")
    for option, setting, meaning in (
        ("--poll-interval", "poll_interval_ms", "time between two polls for tasks"),
        ("--heartbeat-interval", "heartbeat_interval_ms", "time between two heartbeats"),
        ("--lock-duration", "lock_duration_ms", "duration of a lock that is not extended"),
        ("--shutdown-timeout", "shutdown_timeout_ms", "time that running work has at the end"),
    ):
        add(option, dest=setting, type=_positive, metavar="MS", help=meaning)
    add("--max-stuck-handlers", type=_positive, metavar="N", help="handlers that may still run after their time was up")
    add("--max-concurrent", type=_positive, metavar="N", help="most tasks at a time")
    add("--host", dest="http_host", metavar="ADDRESS", help="where the status server listens; by default 127.0.0.1")
    add("--port", dest="http_port", type=_port, metavar="PORT", help="the first port that is tried; 0: any free one")
    add("--log-level", default="INFO", type=str.upper, choices=["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"])
    add("--log-file", metavar="FILE", help="by default logs go to standard error")
    return parser


def _positive(text: str) -> int:
    number = _whole(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return number


def _port(text: str) -> int:
    number = _whole(text)
    if not 0 <= number <= LAST_PORT:
        raise argparse.ArgumentTypeError(f"{text} is not a port: 0 to {LAST_PORT}")
    return number


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def _end_soon(code: int) -> None:
    """Make sure that the process ends: at its end Python waits for threads that a handler has left running."""

    def end() -> None:
        time.sleep(_LAST_WAIT_S)
        _log.warning("handlers whose time was up are still running; the process ends anyway")
        logging.shutdown()
        os._exit(code)

    threading.Thread(target=end, name="afl-end", daemon=True).start()


def _run_until_signalled(start: Callable[[], object], stop: Callable[[], object], remaining: Remaining = str) -> None:
    """Run `start` in a thread, and call `stop` on the first SIGTERM or SIGINT; return when `start` has.

    The main thread, where signals go, does nothing but wait, so that a signal finds it holding no lock. Outside of it,
    where Python allows no signal handlers, `start` is called and that is all.

    Raises what `start` raises. `remaining` says at the first signal what there is to wait for.
    """
    if threading.current_thread() is not threading.main_thread():
        start()
        return
    is_over = StopFlag()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            start()
        except BaseException as error:  # noqa: BLE001 - raised in the main thread
            failures.append(error)
        finally:
            is_over.set()

    with draining(stop, remaining):
        threading.Thread(target=run, name="afl-runner", daemon=True).start()
        is_over.wait()
    if failures:
        raise failures[0]


def run() -> NoReturn:
    """Run the service as a process, and end the process with its exit code."""
    exit_code = main()
    _end_soon(exit_code)
    sys.exit(exit_code)


if __name__ == "__main__":
    run()
