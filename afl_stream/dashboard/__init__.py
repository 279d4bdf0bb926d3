"""Pages and a JSON API over a deployment: runs, programs, topics, servers, and what an operator does with them.

`views` reads, `actions` writes; `pages` shows both to people, and `api` to programs. `security` stands before all of
them. A dashboard reads the store through connections of its own, and the broker on demand: evaluators do not notice it.
"""

#: The modules that other packages import.
PUBLIC_MODULES = ("deployment", "serving")
