"""Tools: those of a request (request.py), a turn's options (turn.py), and Python functions as tools (functions.py)."""
