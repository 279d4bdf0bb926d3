"""Rules about declarations and the names that refer to them."""

from afl.validation.rule import Rule, error, warning

NAME_RULES: dict[str, Rule] = {
    "DUPLICATE_NAME": error(
        "DUPLICATE_NAME",
        "Facets, event facets, workflows and schemas of a namespace share one pool of names, over all its openings.",
        "Duplicate {kind} name '{name}': a {first} of that name is declared {where}",
        "namespace a { facet F() }\nnamespace a { event facet «F»() }",
        "namespace a { facet F() }\nnamespace b { event facet F() }",
    ),
    "DUPLICATE_NAME field": error(
        "DUPLICATE_NAME",
        "The fields of a schema have different names.",
        "Duplicate schema field name '{name}' in schema '{schema}'",
        "namespace a { schema S { x: Int, «x»: String } }",
        "namespace a { schema S { x: Int, y: String } }",
    ),
    "DUPLICATE_PARAM": error(
        "DUPLICATE_PARAM",
        "Parameters have different names, and so have returns; a parameter and a return may share one.",
        "Duplicate {what} name '{name}'",
        "namespace a { facet F(x: Int, «x»: String) }",
        "namespace a { facet F(x: Int) => (x: String) }",
    ),
    "SCHEMA_AT_TOP_LEVEL": error(
        "SCHEMA_AT_TOP_LEVEL",
        "A schema belongs to a namespace.",
        "Schema '{name}' must be defined inside a namespace",
        "«schema S { x: Int }»",
        "namespace a { schema S { x: Int } }",
    ),
    "WORKFLOW_AT_TOP_LEVEL": warning(
        "WORKFLOW_AT_TOP_LEVEL",
        "A workflow should belong to a namespace, so that it has a full name to be started by.",
        "Workflow '{name}' has no namespace; give it one so that it can be addressed",
        "workflow «W»()",
        "namespace a { workflow W() }",
    ),
    "USE_UNKNOWN_NAMESPACE": error(
        "USE_UNKNOWN_NAMESPACE",
        "`use` names a namespace of the program.",
        "Invalid use statement: namespace '{name}' does not exist",
        "namespace a { «use shop.orders» facet F() }",
        "namespace a { use shop.orders facet F() }\nnamespace shop.orders { facet G() }",
        "compile the file that declares it along with this one",
    ),
    "REF_UNKNOWN_FACET": error(
        "REF_UNKNOWN_FACET",
        "A call, mixin or implicit by full name finds its facet.",
        "Unknown facet '{name}'",
        "namespace a { facet F() andThen { s = «a.Other»() } }",
        "namespace a { facet F() andThen { s = a.Other() } facet Other() }",
    ),
    "REF_UNKNOWN_FACET short": warning(
        "REF_UNKNOWN_FACET",
        "A call, mixin or implicit by short name should find its facet; one that does not is left to the runtime.",
        "Unknown facet '{name}'",
        "namespace a { facet F() andThen { s = «Other»() } }",
        "namespace a { facet F() andThen { s = Other() } }\nnamespace b { facet Other() }",
    ),
    "REF_AMBIGUOUS_FACET": error(
        "REF_AMBIGUOUS_FACET",
        "A short name means one facet: of the own namespace, else of imports and top level, else of the program.",
        "Ambiguous facet reference '{name}': it may be any of {candidates}; write the full name",
        "namespace a { facet G() } namespace b { facet G() }\n"
        "namespace c { use a use b facet F() andThen { s = «G»() } }",
        "namespace a { facet G() } namespace b { facet G() }\n"
        "namespace c { use a use b facet F() andThen { s = b.G() } }",
    ),
    "REF_AMBIGUOUS_FACET namesakes": warning(
        "REF_AMBIGUOUS_FACET",
        "A short name found by import or at top level should not be declared in other namespaces as well.",
        "Facet reference '{name}' means {found} here, but other namespaces declare the name too; write the full name",
        "namespace a { facet G() } namespace b { facet G() }\nnamespace c { use a facet F() andThen { s = «G»() } }",
        "namespace a { facet G() } namespace c { use a facet F() andThen { s = G() } }",
    ),
    "REF_UNKNOWN_TYPE": error(
        "REF_UNKNOWN_TYPE",
        "A type is a builtin, a schema or a facet of the program.",
        "Unknown type '{name}'",
        "namespace a { facet F(x: «Integer») }",
        "namespace a { facet F(x: Integer) schema Integer { value: Int } }",
        "the builtin types are String, Int, Long, Double, Boolean and Json",
    ),
    "REF_UNKNOWN_SCHEMA": error(
        "REF_UNKNOWN_SCHEMA",
        "A type by full name finds its schema.",
        "Unknown schema '{name}'",
        "namespace a { facet F(x: [«b.S»]) }",
        "namespace a { facet F(x: [b.S]) }\nnamespace b { schema S { } }",
    ),
    "REF_AMBIGUOUS_SCHEMA": error(
        "REF_AMBIGUOUS_SCHEMA",
        "A short name means one schema.",
        "Ambiguous schema reference '{name}': it may be any of {candidates}; write the full name",
        "namespace a { schema S { } } namespace b { schema S { } }\nnamespace c { facet F(x: «S») }",
        "namespace a { schema S { } } namespace b { schema S { } }\nnamespace c { use b facet F(x: S) }",
    ),
    "EVENT_NAME_TOO_LONG": warning(
        "EVENT_NAME_TOO_LONG",
        "The full name of an event facet is part of the name of a topic, which Kafka limits.",
        "The full name of this event facet has {length} characters; with more than {limit} it names no topic",
        "namespace a { event facet «" + "F" * 250 + "»() }",
        "namespace a { facet " + "F" * 250 + "() }",
    ),
    "EVENT_NAME_CLASH": warning(
        "EVENT_NAME_CLASH",
        "Kafka does not tell names of topics apart that differ in dots and underscores only.",
        "Event facet {name} and event facet {other} have names that Kafka cannot tell apart as topics",
        "namespace a.b { event facet C() }\nnamespace a_b { event facet «C»() }",
        "namespace a.b { event facet C() }\nnamespace a_b { facet C() }",
    ),
    "RECURSIVE_CALL": warning(
        "RECURSIVE_CALL",
        "A declaration that calls itself whatever happens never ends.",
        "{name} calls {callee}, which always leads back to it: this never ends",
        "namespace a { facet F() andThen { s = «F»() } }",
        "namespace a { facet F(xs: [Json]) andThen foreach x in $.xs { s = F(xs = $.x.xs) } }",
    ),
}
