"""The models that ours are compared with, written plainly with the libraries that people use.

`sizes` is always a dict of vocabulary_size, num_layers, num_decoder_layers, num_heads, hidden_dim and
intermediate_dim, the arguments of `convnlp.models.Seq2SeqBackbone` with those names.
"""
