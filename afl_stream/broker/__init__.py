"""A real Apache Kafka on this machine, without Docker: `afl-stream broker`, and the broker of the tests."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "broker",
    "errors",
    "folder",
    "java",
    "process",
)
