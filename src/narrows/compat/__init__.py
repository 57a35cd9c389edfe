"""The classes and functions of other constraint libraries, on narrows' engine: trying it is a change of one import.

`narrows.compat.xgrammar` and `narrows.compat.llguidance`. `import narrows` imports neither.
"""
