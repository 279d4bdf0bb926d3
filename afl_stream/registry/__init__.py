"""A schema registry that speaks Confluent's API: schemas by subject and id, and the codec of a deployment."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "client",
    "compatibility_levels",
    "deployment_codec",
    "errors",
    "subjects",
)
