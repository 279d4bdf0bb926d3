"""Python scripts of AFL programs: what they may say, and the processes that run them apart from everything else.

The wall is the kernel's: a script runs in a process of its own without files, network, other processes, privileges
or environment. The check of its text and the short list of names come before the wall; they are no part of it.
"""
