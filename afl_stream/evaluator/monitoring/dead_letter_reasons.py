"""The reasons that dead letters of evaluators have: why a record cannot be read, or the error that refuses it."""

from __future__ import annotations

from typing import Final

from afl.compiled.program import AmbiguousName, ProgramError, ProgramVersionError, UnknownName, WrongFingerprint
from afl.core.text.exception_text import class_name
from afl.core.values import ValueRefused
from afl.engine.errors import (
    EvaluationError,
    InputError,
    InputTypeMismatch,
    IterationLimitReached,
    MissingInput,
    NestingTooDeep,
    PayloadTooLarge,
    ScriptsNotAllowed,
    StateTooLarge,
    StepLimitReached,
    StoreCorrupt,
    UnknownFacet,
    UnknownInput,
    ValueTooDeep,
    ValueTooLarge,
)
from afl.engine.errors import ReferenceError as UnresolvedReference
from afl.engine.operations.operation_errors import (
    AlreadyOnVersion,
    NothingToMove,
    RunByDeployment,
    RunHasEnded,
    StepNotFailed,
    StepSuperseded,
    StepWasCaught,
    UnknownStep,
    UnknownWorkflow,
    VersionDoesNotFit,
)
from afl.engine.planning.planner import ConstructNotAvailable
from afl_stream.acls import TopicHidden
from afl_stream.errors import (
    AlreadyEnded,
    AlreadyExists,
    AlreadyPurged,
    AnswerExpired,
    AnswerRefused,
    EventTooLarge,
    NotEvaluable,
    NothingToCancel,
    NothingToDescribe,
    NothingToRunAgain,
    NotStorable,
    Reason,
    TooManyParked,
    TopicMissing,
)
from afl_stream.evaluator.schedules.commands import NoSuchSchedule
from afl_stream.event_errors import (
    EventAfterPurge,
    EventExpired,
    EventNotCarried,
    NothingToContinue,
    TooManyEarlyEvents,
    TooManyPendingEvents,
)
from afl_stream.programs.definitions import UnknownProgram
from afl_stream.run_errors import IdInUse, IfExistsUnknown, NothingToMigrate
from afl_stream.schedules.cron import BadCron
from afl_stream.schedules.documents import ScheduleUnreadable
from afl_stream.schedules.spec import ScheduleRefused
from afl_stream.sensitive.schedule_refusals import EncryptedSchedule, SensitiveSchedule

#: The errors that refuse a record, each of which has a reason of its own.
REFUSING: Final[tuple[type[Exception], ...]] = (
    # Answers and external events.
    AnswerExpired, AnswerRefused, EventAfterPurge, EventExpired, EventNotCarried, TooManyEarlyEvents, TooManyParked,
    TooManyPendingEvents,
    # Commands about runs.
    AlreadyEnded, AlreadyExists, AlreadyOnVersion, AlreadyPurged, IdInUse, IfExistsUnknown, NothingToCancel,
    NothingToContinue, NothingToDescribe, NothingToMigrate, NothingToMove, NothingToRunAgain, RunByDeployment,
    RunHasEnded, StepNotFailed, StepSuperseded, StepWasCaught, TopicHidden, TopicMissing, UnknownProgram, UnknownStep,
    UnknownWorkflow, VersionDoesNotFit,
    # Commands about schedules.
    BadCron, EncryptedSchedule, NoSuchSchedule, ScheduleRefused, ScheduleUnreadable, SensitiveSchedule,
    # Programs, inputs and values that can never be used, and limits.
    AmbiguousName, ConstructNotAvailable, EvaluationError, EventTooLarge, InputError, InputTypeMismatch,
    IterationLimitReached, MissingInput, NestingTooDeep, NotEvaluable, NotStorable, PayloadTooLarge, ProgramError,
    ProgramVersionError, ScriptsNotAllowed, StateTooLarge, StepLimitReached, StoreCorrupt, UnknownFacet, UnknownInput,
    UnknownName, UnresolvedReference, ValueRefused, ValueTooDeep, ValueTooLarge, WrongFingerprint,
)  # fmt: skip

#: The values of a dead letter's reason.
REASONS: Final = (*(reason.value for reason in Reason), *(class_name(kind) for kind in REFUSING))
