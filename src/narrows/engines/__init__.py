"""Models to drive. `api` is what every engine takes and gives; `llama_cpp` is the embedded one."""
