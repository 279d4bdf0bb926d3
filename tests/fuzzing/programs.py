"""Valid programs with every construct of the language, in unusual layouts.

A program is a list of tokens first; `tests.fuzzing.layout` makes text of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from tests.fuzzing.blocks import BlockWriter
from tests.fuzzing.expressions import ANY, ARRAY, BOOLEAN, NUMBER, OTHER, STRING, Tokens, references
from tests.fuzzing.layout import SEPARATOR, laid_out
from tests.fuzzing.signatures import Scope, Signature, Slot
from tests.fuzzing.words import Words

_BUILTIN = {"String": STRING, "Int": NUMBER, "Long": NUMBER, "Double": NUMBER, "Boolean": BOOLEAN, "Json": ANY}


def valid_program(seed: int) -> str:
    """Return the text of a seed."""
    random = Random(f"fuzz-{seed}")
    return laid_out(_Programs(random).tokens(), random)


@dataclass(slots=True)
class _Programs:
    """Makes the signatures first, so that everything can be used before it is declared, then the bodies."""

    random: Random
    words: Words = field(init=False)
    blocks: BlockWriter = field(init=False)
    namespaces: list[tuple[str, ...]] = field(default_factory=list)
    signatures: list[Signature] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.words = Words(self.random)
        self.blocks = BlockWriter(self.words, self.signatures)

    def tokens(self) -> Tokens:
        if self.random.random() < 0.02:
            return [SEPARATOR]
        self._make_namespaces()
        header = self.namespaces[0] if self.random.random() < 0.2 else None
        # Nothing is at top level in a file that is all one namespace.
        self._make_signatures(self.namespaces if header is not None else [*self.namespaces, ()])
        tokens = [SEPARATOR]
        if header is not None:
            tokens += [*self._doc(), "namespace", *_dotted(header), SEPARATOR, *self._uses(), *self._items(header)]
        for namespace in self.namespaces:
            if namespace != header:
                tokens += self._module(namespace)
        if header is None:
            tokens += self._items(())
        return tokens

    def _make_namespaces(self) -> None:
        first: set[str] = set()
        for _ in range(self.random.randint(1, 3)):
            parts = [self.words.name(first)]
            for _ in range(self.random.randint(0, 2)):
                parts.append(self.words.name(set()))
            self.namespaces.append(tuple(parts))

    def _module(self, namespace: tuple[str, ...]) -> Tokens:
        """Return a namespace, now and then in two parts."""
        count = self.random.choice([1, 1, 2])
        tokens: Tokens = []
        for part in range(count):
            tokens += [*self._doc(), "namespace", *_dotted(namespace), "{", SEPARATOR, *self._uses()]
            tokens += [*self._items(namespace, leave_some=part < count - 1), "}", SEPARATOR]
        return tokens

    def _uses(self) -> Tokens:
        tokens: Tokens = []
        for namespace in self.random.sample(self.namespaces, self.random.randint(0, len(self.namespaces))):
            tokens += [self.random.choice(["use", "uses"]), *_dotted(namespace), SEPARATOR]
        return tokens

    def _items(self, namespace: tuple[str, ...], *, leave_some: bool = False) -> Tokens:
        """Return the declarations of a namespace that are still to be written."""
        tokens: Tokens = []
        for signature in self.signatures:
            if signature.namespace == namespace and not signature.is_written:
                if leave_some and self.random.random() < 0.5:
                    continue
                signature.is_written = True
                tokens += [*self._declaration(signature), SEPARATOR]
                if signature.kind != "schema" and self.random.random() < 0.3:
                    tokens += [*self._implicit(signature), SEPARATOR]
        return tokens

    # Signatures

    def _make_signatures(self, namespaces: Sequence[tuple[str, ...]]) -> None:
        taken: set[str] = set(_BUILTIN)
        for namespace in namespaces:
            for _ in range(self.random.randint(0, 4)):
                kinds = ["facet", "facet", "event", "workflow", *(["schema"] if namespace else [])]
                kind = self.random.choice(kinds)
                names: set[str] = set()
                params = self._slots(names)
                # A return may be called like a parameter, but here every `$.name` has one meaning.
                returns = None if kind == "schema" or self.random.random() < 0.3 else self._slots(names)
                self.signatures.append(
                    Signature(
                        kind=kind, namespace=namespace, name=self.words.name(taken), params=params, returns=returns
                    )
                )

        for signature in self.signatures:
            if signature.kind != "schema" and self.random.random() < 0.4:
                signature.mixin_tokens = self.blocks.signature_mixins(signature)

    def _slots(self, names: set[str]) -> list[Slot]:
        return [Slot(self.words.name(names), *self._type()) for _ in range(self.random.randint(0, 3))]

    def _type(self) -> tuple[Tokens, str]:
        choice = self.random.random()
        if choice < 0.12:
            tokens, _ = self._type()
            return ["[", *tokens, "]"], ARRAY
        if choice < 0.2 and (schemas := [s for s in self.signatures if s.kind == "schema"]):
            return self._reference(self.random.choice(schemas)), OTHER
        if choice < 0.25 and (facets := [s for s in self.signatures if s.kind != "schema"]):
            facet = self.random.choice(facets)
            return self._reference(facet), f"step {facet.name}"
        name = self.random.choice([*_BUILTIN, "Json", "Json"])
        return [name], _BUILTIN[name]

    def _reference(self, signature: Signature) -> Tokens:
        return signature.written(qualified=self.random.random() < 0.4)

    # Declarations

    def _declaration(self, signature: Signature) -> Tokens:
        if signature.kind == "schema":
            fields: Tokens = [SEPARATOR]
            for slot in signature.params:
                fields += [slot.name, ":", *slot.type, *self.random.choice([[","], [], [SEPARATOR]]), SEPARATOR]
            return [*self._doc(), "schema", signature.name, "{", *fields, "}"]
        keywords = ["event", "facet"] if signature.kind == "event" else [signature.kind]
        tokens = [*self._doc(), *keywords, signature.name, "(", *self._slot_list(signature.params), ")"]
        if signature.returns is not None:
            tokens += ["=>", "(", *self._slot_list(signature.returns), ")"]
        return [*tokens, *signature.mixin_tokens, *self._tail(signature)]

    def _slot_list(self, slots: Sequence[Slot]) -> Tokens:
        items = []
        earlier: dict[str, str] = {}
        for slot in slots:
            item = [slot.name, ":", *slot.type]
            if slot.kind in (STRING, NUMBER, BOOLEAN, ARRAY, ANY) and self.random.random() < 0.3:
                # Only parameters may use others; the names of returns mean nothing in their defaults.
                item += ["=", *self.blocks.default(slot, references(["$"], earlier) if slot in slots[:1] else [])]
            items.append(item)
            earlier[slot.name] = slot.kind
        return self.blocks.expressions.listed(items)

    def _tail(self, signature: Signature) -> Tokens:
        scope = self.blocks.scope_of(signature)
        if signature.kind == "event" and self.random.random() < 0.2:
            rescue = self.blocks.catch_of_declaration(signature) if self.random.random() < 0.3 else []
            return [*self._prompt(signature), *rescue]
        tokens: Tokens = []
        if self.random.random() < 0.25:
            script, names = self.blocks.script()
            tokens += script
            scope = scope.with_inputs(dict.fromkeys(names, ANY))
        tokens += self.blocks.follows(scope, self.random.choice([0, 1, 1, 2, 3]))
        if self.random.random() < 0.25:
            tokens += self.blocks.catch_of_declaration(signature)
        return tokens

    def _prompt(self, signature: Signature) -> Tokens:
        texts = ["plain", "é", r"\n", "{{ braces }}", *(f"{{{slot.name}}}" for slot in signature.params)]
        directives = ["template", *self.random.sample(["system", "model", "template"], self.random.randint(0, 3))]
        self.random.shuffle(directives)
        tokens: Tokens = ["prompt", "{", SEPARATOR]
        for directive in directives:
            tokens += [directive, f'"{" ".join(self.random.choices(texts, k=3))}"', SEPARATOR]
        return [*tokens, "}"]

    def _implicit(self, target: Signature) -> Tokens:
        arguments = self.blocks.arguments(target.params, Scope(), few=True)
        return ["implicit", self.words.name(set()), "=", *self._reference(target), "(", *arguments, ")"]

    def _doc(self) -> Tokens:
        if self.random.random() > 0.25:
            return []
        return [self.words.description() for _ in range(self.random.choice([1, 1, 2]))]


def _dotted(parts: Sequence[str]) -> Tokens:
    tokens = [parts[0]]
    for part in parts[1:]:
        tokens += [".", part]
    return tokens
