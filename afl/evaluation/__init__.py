"""The evaluator and the object model of an execution, in front of the engine."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "block",
    "context",
    "dependency",
    "evaluator",
    "events",
    "execution_result",
    "step_driving",
)
