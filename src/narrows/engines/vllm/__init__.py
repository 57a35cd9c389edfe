"""The former place of `narrows.plugins.vllm`. Names that vLLM was configured with still work."""
