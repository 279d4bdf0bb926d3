"""The commands about external events, and about the executions that they are carried over."""
