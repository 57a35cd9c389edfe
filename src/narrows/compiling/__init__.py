"""From a definition (a JSON value) to the arrays that the core compiles: in this process, or in a child process.

The files: definition.py (reads a definition), process.py (the child, seen from the parent), child.py (what runs in the
child), messages.py (what the two send each other), text.py (a definition as text).
"""
