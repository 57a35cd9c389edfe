"""One loader per kind of tokenizer; each turns it into one byte string per token id (`data.VocabularyData`).

`narrows.Vocabulary.from_*` are the public faces. What a token's bytes are, and which tokens are special, is written
down in `data.py`; the loaders only find the facts:

    tokenizer_json      a Hugging Face tokenizer.json and the three files beside it   standard library only
    tokenizers_object   a `tokenizers.Tokenizer`                                      the object itself
    transformers_object a `transformers` tokenizer, fast or tiktoken-based            the object itself
    tiktoken_encoding   a `tiktoken.Encoding`                                         the object itself
    gguf_file           the vocabulary inside a GGUF file                             standard library only
"""
