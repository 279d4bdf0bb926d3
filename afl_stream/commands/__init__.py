"""What the `afl-stream` commands do; each module is loaded when its command is called."""
