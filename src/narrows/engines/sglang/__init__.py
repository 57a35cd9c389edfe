"""The former place of `narrows.plugins.sglang`."""
