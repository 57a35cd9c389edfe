"""The oracle: a slow and plain implementation of grammars in Python. It reads the same `ir.Module` as the core, and
shares no code or algorithm of rules with it. If the two disagree, one of them has a bug.

It has two layers, as the IR has: **regular parts** are read by derivatives (regular.py), **rules** by Earley's
algorithm (earley.py).

A token is read as its bytes or, if a `Token` or `Marker` names it, as one symbol. Both readings end at the same
position.

Cost: about 20 us per item. It suits texts of about 60 bytes and vocabularies of some hundred tokens. Memory grows with
the number of distinct derivatives and is not bounded: the package is for tests, not for untrusted input.
"""

from narrows.reference.earley import Position, Reference, Symbol

__all__ = ["Position", "Reference", "Symbol"]
