"""What commands of services serve besides their work: metrics and health, and their presence."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "agents",
    "audits",
    "evaluators",
    "gateways",
    "local",
    "present",
)
