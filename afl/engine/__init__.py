"""The engine: program and steps in, changes out. Time, ids and I/O are handed to it."""
