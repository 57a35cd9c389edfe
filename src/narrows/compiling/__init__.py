"""From a definition (a JSON value) to the arrays that the core compiles: here, or in a child process.

definition.py reads one; process.py has the child that does it apart from the caller's threads, child.py is what runs
there, messages.py what passes between them.
"""
