"""JSON values out of a text that is still being written: each as it becomes whole, and what the text says so far."""

from narrows.json_values.reader import JsonValues, WholeValue

__all__ = ["JsonValues", "WholeValue"]
