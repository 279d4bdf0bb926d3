"""The life of a process: signals, waits, standard streams, files and the command line."""
