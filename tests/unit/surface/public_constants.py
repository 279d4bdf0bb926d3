"""Constants that people write, with the values that stores and topics hold."""

OBJECT_TYPES = {
    "VARIABLE_ASSIGNMENT": "VariableAssignment",
    "YIELD_ASSIGNMENT": "YieldAssignment",
    "WORKFLOW": "Workflow",
    "FACET": "Facet",
    "SCHEMA_INSTANTIATION": "SchemaInstantiation",
    "AND_THEN": "AndThen",
    "AND_MAP": "AndMap",
    "AND_MATCH": "AndMatch",
    "BLOCK": "Block",
    "BEFORE": "Before",
    "AFTER": "After",
}
STEP_STATES = {
    "CREATED": "state.statement.Created",
    "FACET_INIT_BEGIN": "state.facet.initialization.Begin",
    "FACET_INIT_END": "state.facet.initialization.End",
    "FACET_SCRIPTS_BEGIN": "state.facet.scripts.Begin",
    "FACET_SCRIPTS_END": "state.facet.scripts.End",
    "STATEMENT_SCRIPTS_BEGIN": "state.statement.scripts.Begin",
    "STATEMENT_SCRIPTS_END": "state.statement.scripts.End",
    "MIXIN_BLOCKS_BEGIN": "state.mixin.blocks.Begin",
    "MIXIN_BLOCKS_CONTINUE": "state.mixin.blocks.Continue",
    "MIXIN_BLOCKS_END": "state.mixin.blocks.End",
    "MIXIN_CAPTURE_BEGIN": "state.mixin.capture.Begin",
    "MIXIN_CAPTURE_END": "state.mixin.capture.End",
    "EVENT_TRANSMIT": "state.EventTransmit",
    "STATEMENT_BLOCKS_BEGIN": "state.statement.blocks.Begin",
    "STATEMENT_BLOCKS_CONTINUE": "state.statement.blocks.Continue",
    "STATEMENT_BLOCKS_END": "state.statement.blocks.End",
    "BLOCK_EXECUTION_BEGIN": "state.block.execution.Begin",
    "BLOCK_EXECUTION_CONTINUE": "state.block.execution.Continue",
    "BLOCK_EXECUTION_END": "state.block.execution.End",
    "STATEMENT_CAPTURE_BEGIN": "state.statement.capture.Begin",
    "STATEMENT_CAPTURE_END": "state.statement.capture.End",
    "STATEMENT_END": "state.statement.End",
    "STATEMENT_COMPLETE": "state.statement.Complete",
    "STATEMENT_ERROR": "state.statement.Error",
}
EVENT_STATES = {
    "CREATED": "event.Created",
    "DISPATCHED": "event.Dispatched",
    "PROCESSING": "event.Processing",
    "COMPLETED": "event.Completed",
    "ERROR": "event.Error",
}
STATUSES = {"COMPLETED": "COMPLETED", "PAUSED": "PAUSED", "ERROR": "ERROR", "TIMEOUT": "TIMEOUT"}
#: Of `afl.runtime.entities`.
OF_ENTITIES: dict[str, dict[str, object]] = {
    "RunnerState": {
        "CREATED": "created",
        "RUNNING": "running",
        "COMPLETED": "completed",
        "FAILED": "failed",
        "PAUSED": "paused",
        "CANCELLED": "cancelled",
        "UNKNOWN": "unknown",
    },
    "TaskState": {
        "PENDING": "pending",
        "RUNNING": "running",
        "COMPLETED": "completed",
        "FAILED": "failed",
        "IGNORED": "ignored",
        "CANCELED": "canceled",
    },
    "ServerState": {"STARTUP": "startup", "RUNNING": "running", "SHUTDOWN": "shutdown", "ERROR": "error"},
    "NoteType": {"ERROR": "error", "INFO": "info", "WARNING": "warning"},
    "NoteOriginator": {"WORKFLOW": "workflow", "AGENT": "agent"},
    "NoteImportance": {"HIGH": 1, "NORMAL": 5, "LOW": 10},
}
