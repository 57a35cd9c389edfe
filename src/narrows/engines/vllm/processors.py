"""The former place of `narrows.plugins.vllm.processors`."""

from narrows.plugins.vllm.processors import NarrowsLogitsProcessor as NarrowsLogitsProcessor
from narrows.plugins.vllm.processors import per_sequence as per_sequence
