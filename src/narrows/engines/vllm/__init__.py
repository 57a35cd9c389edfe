"""The former place of `narrows.plugins.vllm`: the names that people gave to vLLM go on to work."""
