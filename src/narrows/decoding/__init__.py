"""Sampling a token from a row of logits, and turning tokens into text that may be shown. Engines share this. It uses no
model and no thread."""
