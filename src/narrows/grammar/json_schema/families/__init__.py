"""The keyword families: a file for each, which defines `FAMILY` (see `Family` in reading.py).

keywords.py, one level up, is the registry: a family that it does not list is not read. A family that makes nodes of the
grammar of its own also has a `lower`, which lower.py calls. Families import neither of the two.
"""
