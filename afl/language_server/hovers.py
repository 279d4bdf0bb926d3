"""Write what an editor shows for a name under the pointer: its signature, and the text of its doc comment."""

from __future__ import annotations

from afl import ast
from afl.formatting import FormatRefused
from afl.language_server.analysis import Analysis
from afl.language_server.targets import Target, TargetKind
from afl.output.documentation import signature_text
from afl.validation.signatures import Signature


def hover_text(analysis: Analysis, target: Target) -> str:
    """Return Markdown about the thing that a name stands for."""
    if target.kind is TargetKind.NAMESPACE:
        return _namespace(analysis, target)
    if target.kind is TargetKind.VARIABLE:
        return _code(f"{target.name}: {target.type or 'Json'}") + "\n\nloop variable"
    if target.kind is TargetKind.SLOT:
        return _slot(analysis, target)
    shown = [] if target.signature is None else [declaration_text(analysis, target.signature)]
    if target.kind is TargetKind.STEP:
        called = f"step `{target.name}`"
        shown.insert(0, called if target.signature is None else f"{called}, which calls `{target.signature.qualified}`")
    return "\n\n".join(shown)


def declaration_text(analysis: Analysis, signature: Signature) -> str:
    """Return Markdown about a declaration: its signature, and its doc comment with a list of the tags."""
    shown = [_code(declared(analysis, signature))]
    if signature.part.namespace:
        shown.append(f"in namespace `{signature.part.namespace}`")
    doc = signature.node.doc
    if doc is not None:
        shown.append(doc.description)
        entries = [(entry, "") for entry in doc.params] + [(entry, "returns ") for entry in doc.returns]
        entries += [(entry, "sensitive ") for entry in doc.sensitive]
        shown.append("\n".join(f"* {kind}`{entry.name}`: {entry.description}" for entry, kind in entries))
    return "\n\n".join(part for part in shown if part)


def declared(analysis: Analysis, signature: Signature) -> str:
    """Return the formatted text of a declaration."""
    node = signature.node
    place = node.location if isinstance(node, ast.SchemaDecl) else node.sig.location
    text = None if place is None else analysis.text(place.source_id)
    if place is None or text is None:
        # Built-in declarations have no text.
        names = ", ".join(f"{name}: {slot.type or 'Json'}" for name, slot in signature.params.items())
        return f"facet {signature.name}({names})"
    written = text.cut(place)
    try:
        return signature_text(node, written).rstrip("\n")
    except FormatRefused:
        return written


def _slot(analysis: Analysis, target: Target) -> str:
    if not target.places:
        return _code(f"{target.name}: {target.type or 'Json'}")
    place = target.places[0]
    owner = analysis.owner(place)
    what, node, entries = _declared_slot(owner, target.name, place)
    text = analysis.text(place.source_id)
    written = f"{target.name}: {target.type or 'Json'}"
    if node is not None and node.location is not None and text is not None:
        written = text.cut(node.location)
    shown = [_code(written)]
    if owner is not None:
        shown.append(f"{what} of `{owner.qualified}`")
    shown += [entry.description for entry in entries if entry.name == target.name]
    return "\n\n".join(part for part in shown if part)


def _declared_slot(
    owner: Signature | None, name: str, place: ast.SourceLocation
) -> tuple[str, ast.Parameter | ast.SchemaField | None, list[ast.DocEntry]]:
    """Return the kind of a slot, its declaration, and the entries of the doc comment that may describe it."""
    if owner is None:
        return "value", None, []
    node = owner.node
    doc = node.doc or ast.Doc()
    if isinstance(node, ast.SchemaDecl):
        lists: list[tuple[str, list[ast.SchemaField] | list[ast.Parameter], list[ast.DocEntry]]] = [
            ("field", node.fields, doc.params)
        ]
    else:
        returns = node.sig.returns.params if node.sig.returns else []
        lists = [("parameter", node.sig.params, doc.params), ("return", returns, doc.returns)]
    for what, items, entries in lists:
        for item in items:
            if item.name == name and item.location is not None and item.location[:2] == place[:2]:
                return what, item, entries
    return "value", None, []


def _namespace(analysis: Analysis, target: Target) -> str:
    openings = analysis.namespaces(target.name)
    docs = [item.doc.description for item in openings if item.doc is not None]
    return "\n\n".join([_code(f"namespace {target.name}"), *docs])


def _code(text: str) -> str:
    return f"```afl\n{text}\n```"
