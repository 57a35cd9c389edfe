"""Masks that an engine makes for the first time: `make bench-masks`. Run it with bench/ on the path."""
