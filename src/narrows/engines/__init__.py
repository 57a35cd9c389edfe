"""Engines that generate. `api` is the interface of every engine, `llama_cpp` the embedded engine."""
