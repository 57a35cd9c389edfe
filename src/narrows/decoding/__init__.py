"""From a row of logits to a token, and from tokens to text that may be shown: what engines share, without a model or a
thread."""
