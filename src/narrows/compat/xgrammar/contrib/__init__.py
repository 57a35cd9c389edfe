"""What is for other libraries: `hf` for Hugging Face's transformers."""
