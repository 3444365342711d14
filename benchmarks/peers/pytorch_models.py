"""The same models in plain PyTorch: convolution and Transformer encoder-decoders, and text classifiers.

They have the equations of convnlp's models, including bias-free projections and pre-norm, so that the same
weights give the same outputs (tests/benchmarks/test_pytorch_models.py). Two things follow PyTorch instead.
The position embedding of the Transformers is learned and absolute, because a relative bias would rule out
the fast kernel of scaled_dot_product_attention. `TransformerEncoder` is made of nn.TransformerEncoder,
including biases and post-norm.
"""

import torch
from torch import nn
from torch.nn import functional as F

MIXINGS = ("conv", "attention")


def _linear(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=False)


class LightweightConv(nn.Module):
    """The GLU-conv block: F.conv1d with one softmax-normalised filter per group of D / H channels."""

    def __init__(self, hidden_dim, num_heads, kernel_size, causal):
        super().__init__()
        self.repeats, self.groups = hidden_dim // num_heads, hidden_dim
        self.padding = kernel_size - 1 if causal else (kernel_size - 1) // 2
        self.gate = _linear(hidden_dim, 2 * hidden_dim)
        self.taps = nn.Parameter(torch.randn(num_heads, kernel_size))
        self.output = _linear(hidden_dim, hidden_dim)

    def forward(self, x, padding_mask=None):
        """X [B,T,D], padding_mask bool [B,T], True = token -> [B,T,D]."""
        x = F.glu(self.gate(x))
        if padding_mask is not None:
            x = x * padding_mask.unsqueeze(2)
        taps = self.taps.float().softmax(-1).to(x.dtype).repeat_interleave(self.repeats, 0)  # [D,K]
        y = F.conv1d(x.transpose(1, 2), taps.unsqueeze(1), padding=self.padding, groups=self.groups)
        return self.output(y[:, :, : x.shape[1]].transpose(1, 2))


class Attention(nn.Module):
    """Multi-head F.scaled_dot_product_attention; one product computes queries, keys and values."""

    def __init__(self, hidden_dim, num_heads, causal):
        super().__init__()
        self.num_heads, self.causal = num_heads, causal
        self.query_key_value = _linear(hidden_dim, 3 * hidden_dim)
        self.output = _linear(hidden_dim, hidden_dim)

    def forward(self, x, padding_mask=None):
        """X [B,T,D], padding_mask bool [B,T], True = token -> [B,T,D]. If causal, it ignores the mask."""
        query, key, value = _heads(self.query_key_value(x), 3 * self.num_heads).chunk(3, dim=1)
        mask = None if padding_mask is None or self.causal else padding_mask[:, None, None]
        y = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=self.causal)
        return self.output(y.transpose(1, 2).flatten(2))


class CrossAttention(nn.Module):
    """Attention from the decoder's positions to the encoder's output."""

    def __init__(self, hidden_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query = _linear(hidden_dim, hidden_dim)
        self.key_value = _linear(hidden_dim, 2 * hidden_dim)
        self.output = _linear(hidden_dim, hidden_dim)

    def forward(self, x, memory):
        """X [B,T,D], memory [B,S,D] -> [B,T,D]."""
        key, value = _heads(self.key_value(memory), 2 * self.num_heads).chunk(2, dim=1)
        y = F.scaled_dot_product_attention(_heads(self.query(x), self.num_heads), key, value)
        return self.output(y.transpose(1, 2).flatten(2))


def _heads(x, count):
    return x.unflatten(2, (count, -1)).transpose(1, 2)  # [B,H,T,D/H]


class Layer(nn.Module):
    """Mixing, cross-attention (in a decoder only) and feed-forward, each x + f(LN(x))."""

    def __init__(self, mixing, hidden_dim, num_heads, intermediate_dim, kernel_size, is_decoder):
        super().__init__()
        if mixing == "conv":
            self.mixing = LightweightConv(hidden_dim, num_heads, kernel_size, causal=is_decoder)
        else:
            self.mixing = Attention(hidden_dim, num_heads, causal=is_decoder)
        self.mixing_norm = nn.LayerNorm(hidden_dim, eps=1e-6)
        if is_decoder:
            self.cross_attention = CrossAttention(hidden_dim, num_heads)
            self.cross_norm = nn.LayerNorm(hidden_dim, eps=1e-6)
        self.feed_forward_norm = nn.LayerNorm(hidden_dim, eps=1e-6)
        self.inner = _linear(hidden_dim, intermediate_dim)
        self.outer = _linear(intermediate_dim, hidden_dim)

    def forward(self, x, padding_mask=None, memory=None):
        """X [B,T,D], padding_mask bool [B,T], memory [B,S,D] in a decoder -> [B,T,D]."""
        x = x + self.mixing(self.mixing_norm(x), padding_mask)
        if memory is not None:
            x = x + self.cross_attention(self.cross_norm(x), memory)
        return x + self.outer(F.relu(self.inner(self.feed_forward_norm(x))))


class Encoder(nn.Module):
    """Embedding, layers, final norm.

    Args:
        mixing: "conv" or "attention"; the latter adds a position embedding with `max_length` rows.
        sizes: dict, see `benchmarks.peers`.
        kernel_size: int. Number of taps of the convolutions.
        max_length: int. Length of the longest input.
        is_decoder: bool. Whether it is causal and has cross-attention.
    """

    def __init__(self, mixing, sizes, kernel_size=7, max_length=512, is_decoder=False):
        super().__init__()
        if mixing not in MIXINGS:
            raise ValueError(f"`mixing` must be one of {MIXINGS}. Received: mixing={mixing!r}")
        hidden_dim = sizes["hidden_dim"]
        self.embedding = nn.Embedding(sizes["vocabulary_size"], hidden_dim)
        nn.init.normal_(self.embedding.weight, std=hidden_dim**-0.5)
        self.scale = 0.25 * hidden_dim**0.5
        self.positions = nn.Embedding(max_length, hidden_dim) if mixing == "attention" else None
        self.layers = nn.ModuleList(
            Layer(mixing, hidden_dim, sizes["num_heads"], sizes["intermediate_dim"], kernel_size, is_decoder)
            for _ in range(sizes["num_decoder_layers"] if is_decoder else sizes["num_layers"])
        )
        self.final_norm = nn.LayerNorm(hidden_dim, eps=1e-6)

    def forward(self, token_ids, padding_mask=None, memory=None):
        """token_ids [B,T], padding_mask bool [B,T], memory [B,S,D] in a decoder -> [B,T,D]."""
        x = self.embedding(token_ids) * self.scale
        if self.positions is not None:
            x = x + self.positions.weight[: token_ids.shape[1]]
        for layer in self.layers:
            x = layer(x, padding_mask, memory)
        return self.final_norm(x)


class EncoderDecoder(nn.Module):
    """Two `Encoder`s, one of them a decoder, with one tied embedding; arguments as for `Encoder`."""

    def __init__(self, mixing, sizes, kernel_size=7, max_length=512):
        super().__init__()
        self.encoder = Encoder(mixing, sizes, kernel_size, max_length)
        self.decoder = Encoder(mixing, sizes, kernel_size, max_length, is_decoder=True)
        self.decoder.embedding = self.encoder.embedding

    def forward(self, encoder_token_ids, decoder_token_ids):
        """[B,S], [B,T] -> logits [B,T,V]."""
        hidden = self.decoder(decoder_token_ids, memory=self.encoder(encoder_token_ids))
        return F.linear(hidden, self.encoder.embedding.weight)


class TransformerEncoder(nn.Module):
    """Embedding, positions, and nn.TransformerEncoder with PyTorch's defaults: post-norm, biases, ReLU.

    With `eval` and `inference_mode`, it takes PyTorch's fast path: one fused call per layer. With a padding
    mask, the rows become a nested tensor without pads.
    """

    def __init__(self, sizes, max_length=512):
        super().__init__()
        hidden_dim = sizes["hidden_dim"]
        self.embedding = nn.Embedding(sizes["vocabulary_size"], hidden_dim)
        self.positions = nn.Embedding(max_length, hidden_dim)
        layer = nn.TransformerEncoderLayer(
            hidden_dim, sizes["num_heads"], sizes["intermediate_dim"], dropout=0.0, batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, sizes["num_layers"])

    def forward(self, token_ids, padding_mask=None):
        """token_ids [B,T], padding_mask bool [B,T], True = token, or None -> [B,T,D]."""
        x = self.embedding(token_ids) + self.positions.weight[: token_ids.shape[1]]
        return self.encoder(x, src_key_padding_mask=None if padding_mask is None else ~padding_mask)


class TextClassifier(nn.Module):
    """An encoder, mean and maximum over the tokens, concatenated, and one linear layer."""

    def __init__(self, encoder, hidden_dim, num_classes):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(2 * hidden_dim, num_classes)

    def forward(self, token_ids, padding_mask=None):
        """token_ids [B,T], padding_mask bool [B,T], True = token, or None -> logits [B,C]."""
        x = self.encoder(token_ids, padding_mask)
        if padding_mask is None:
            pooled = [x.mean(1), x.amax(1)]
        else:
            mask = padding_mask.unsqueeze(2)
            pooled = [(x * mask).sum(1) / mask.sum(1), x.masked_fill(~mask, float("-inf")).amax(1)]
        return self.head(torch.cat(pooled, dim=1))


def training_step(model, learning_rate=1e-3):
    """Returns a function that trains `model` on a batch, with bfloat16 autocast and AdamW.

    The batch is a dict of int64 tensors: encoder_token_ids [B,S], decoder_token_ids and target_token_ids
    [B,T]. It has no pads, because a mask would slow down the Transformer. The function returns the loss.
    """
    optimizer = torch.optim.AdamW(model.parameters(), learning_rate, fused=True)

    def step(batch):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(batch["encoder_token_ids"], batch["decoder_token_ids"])
            loss = F.cross_entropy(logits.flatten(0, 1), batch["target_token_ids"].flatten())
        loss.backward()
        optimizer.step()
        return loss.item()

    return step
