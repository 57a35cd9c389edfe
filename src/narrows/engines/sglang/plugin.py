"""The former place of `narrows.plugins.sglang.plugin`."""

from narrows.plugins.sglang.plugin import register as register
