"""The former place of `narrows.plugins.vllm.plugin`."""

from narrows.plugins.vllm.plugin import admit as admit
from narrows.plugins.vllm.plugin import register as register
