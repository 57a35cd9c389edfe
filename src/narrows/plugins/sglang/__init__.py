"""narrows inside SGLang: detectors for tool calls and reasoning, registered by SGLang's plug-in group. Its modules
need sglang; `import narrows` does not."""
