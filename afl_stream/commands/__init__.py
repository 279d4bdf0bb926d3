"""The code of the `afl-stream` commands; each module is loaded when its command is called."""
