"""narrows as a grammar backend of SGLang, `--grammar-backend narrows`.

install.py       makes the name known to SGLang, and its hook around the traversal of drafts
backend.py       compiles what requests ask for, in SGLang's threads
definitions.py   what a request asks for, as a grammar
cache.py         the compiled grammars that SGLang keeps
grammar.py       the state of one sequence
rows.py          masks as tensors: made, filled, applied, filtered
reasoning.py     free until the reasoning ends, by SGLang's own classes
"""
