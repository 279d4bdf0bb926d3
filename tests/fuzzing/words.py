"""The names and literals of generated programs: odd, and all of them legal."""

from random import Random

KEYWORDS = [
    "namespace", "use", "uses", "facet", "event", "workflow", "schema", "implicit", "with", "as",
    "andThen", "foreach", "in", "yield", "prompt", "script", "true", "false", "null", "when",
    "case", "catch", "not", "contains", "startsWith", "endsWith", "sys", "log", "assert",
]  # fmt: skip
_PLAIN = ("a", "b", "x1", "_x", "python", "system", "template", "model", "Stringy", "nullable", "catchment", "input")
#: Words that cannot be a step's name, or the first word of a reference to it.
NO_STEP = frozenset({"with", "as", "andThen", "catch", "yield", "true", "false", "null", "_"})
_PIECES = (
    "plain", " ", "é", "漢字", "🎈", "// no comment", "/* no comment */", "\n", "\r\n", "\t",
    r"\"", r"\\", r"\/", r"\'",
    r"\n", r"\r", r"\t", r"\b", r"\f", r"\a", r"\v", r"\0", r"\x41", r"\u00e9", r"\U0001F388", r"\q", r"\1",
    "\\\n", "$", "#{", "}", "%s", "'", "\u2028", "\x00", "\x7f",
)  # fmt: skip


class Words:
    """Makes names, each once in its place, and literals."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self._count = 0

    def name(self, taken: set[str], *, step: bool = False) -> str:
        """Return a name that is not taken yet, and is from now on; keywords are names like others."""
        for _ in range(5):
            found = self.random.choice(KEYWORDS + list(_PLAIN) + ["_"] * 2)
            if found not in taken and not (step and found in NO_STEP):
                break
        else:
            self._count += 1
            found = f"n{self._count}"
        if found in taken or (step and found in NO_STEP):
            self._count += 1
            found = f"n{self._count}"
        taken.add(found)
        return found

    def string(self) -> str:
        pieces = self.random.choices(_PIECES, k=self.random.choice([0, 1, 2, 5]))
        return '"' + "".join(pieces) + '"'

    def number(self) -> str:
        return self.random.choice(
            ["0", "1", "7", "007", "9007199254740992", "9223372036854775808", str(2**130), "0.5", "1.0",
             "1.5e10", "2.25E-3", "1.0e300", "00.10", "3.0e+2"]
        )  # fmt: skip

    def integer(self) -> str:
        return str(self.random.choice([0, 1, 2, 59, 1000, 9223372036854775807]))

    def description(self) -> str:
        """Return the text of a doc comment."""
        lines = self.random.choices(
            ["Says *something*.", "@param a what it is", "@return b", "@returns c more", "@param", "",
             "é | <b> `x` _y_", "* item"],
            k=self.random.randint(0, 4),
        )  # fmt: skip
        return self.random.choice(
            ["/** " + " ".join(lines) + " */", "/**\n * " + "\n * ".join(lines) + "\n */", "/***/"]
        )
