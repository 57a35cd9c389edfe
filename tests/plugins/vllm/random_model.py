"""A model with random weights and a vocabulary of bytes, in the folder that vLLM wants: for what must hold whatever a model says.

    python tests/plugins/vllm/random_model.py FOLDER

Two layers, 320 tokens: a step costs next to nothing, also where kernels are interpreted (engine.py). Always the same weights. Cost: 5 s.
"""

from __future__ import annotations

import sys
from pathlib import Path

VOCABULARY = 320
_MERGES = ["1 2", "3 -", "t h", "i n", "e r", "a b", '" :', '{ "']


def main(folder: Path) -> None:
    import torch
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = ["<|end|>", *alphabet, *(merge.replace(" ", "") for merge in _MERGES)]
    merges = [(first, second) for first, second in (merge.split() for merge in _MERGES)]
    tokenizer = Tokenizer(models.BPE({piece: number for number, piece in enumerate(pieces)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|end|>", special=True)])
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>").save_pretrained(folder)

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=2048, bos_token_id=None, eos_token_id=0, dtype="float32",
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
