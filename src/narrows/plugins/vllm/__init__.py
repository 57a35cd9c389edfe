"""narrows inside vLLM: parsers, logits processors, structured outputs. Importing a module of this package needs
vllm."""
