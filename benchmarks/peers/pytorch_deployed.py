"""The twin of our classifier as one deploys it in PyTorch, or exports it to ONNX for other tools.

What depends only on weights is computed in advance.
"""

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.peers import pytorch_models


class FoldedConv(nn.Module):
    """`pytorch_models.LightweightConv` with filters computed in advance, as channels-last F.conv2d.

    [B,T,D] needs no copy for this memory layout. It is by far the fastest form in PyTorch, and also the
    fastest in ONNX Runtime and OpenVINO.

    Args:
        source: `pytorch_models.LightweightConv`.
        channels_last: bool. False for F.conv1d. torch.compile 2.13 with frozen weights needs it: with the
            other form it assumes wrong strides.
    """

    def __init__(self, source, channels_last=True):
        super().__init__()
        self.channels_last = channels_last
        self.gate, self.output, self.padding = source.gate, source.output, source.padding
        filters = source.taps.detach().softmax(-1).repeat_interleave(source.repeats, 0)[:, None]  # [D,1,K]
        if channels_last:
            filters = filters.unsqueeze(2).contiguous(memory_format=torch.channels_last)  # [D,1,1,K]
        self.filters = nn.Parameter(filters, requires_grad=False)

    def forward(self, x, padding_mask=None):
        """X [B,T,D], padding_mask bool [B,T], True = token -> [B,T,D]."""
        x = F.glu(self.gate(x))
        if padding_mask is not None:
            x = x * padding_mask.unsqueeze(2)
        x, groups = x.transpose(1, 2), x.shape[2]  # [B,D,T]
        if self.channels_last:
            y = F.conv2d(x.unsqueeze(2), self.filters, padding=(0, self.padding), groups=groups).squeeze(2)
        else:
            y = F.conv1d(x, self.filters, padding=self.padding, groups=groups)
        return self.output(y.transpose(1, 2))


def classifier(facts, state, channels_last=True):
    """Returns the twin with given weights, which maps (token_ids, padding_mask or None) to logits [B,C].

    Args:
        facts: dict with "mixing" ("conv" or "attention"), "sizes" (see `benchmarks.peers`), "kernel_size",
            "sequence_length" and "num_classes".
        state: dict of tensors, see `pytorch_weights.state`.
        channels_last: bool, see `FoldedConv`.

    Returns:
        `pytorch_models.TextClassifier`, in evaluation mode.
    """
    sizes = facts["sizes"]
    encoder = pytorch_models.Encoder(facts["mixing"], sizes, facts["kernel_size"], facts["sequence_length"])
    model = pytorch_models.TextClassifier(encoder, sizes["hidden_dim"], facts["num_classes"])
    model.load_state_dict(state)
    if facts["mixing"] == "conv":
        for layer in encoder.layers:
            layer.mixing = FoldedConv(layer.mixing, channels_last)
    return model.eval()


class OfIds(nn.Module):
    """A classifier with only token ids as input, like our exports: int64 [B,T], pads = 0 -> logits [B,C]."""

    def __init__(self, classifier):
        super().__init__()
        self.classifier = classifier

    def forward(self, token_ids):
        """Always uses the mask: a graph cannot omit it when a batch has no pads."""
        return self.classifier(token_ids, token_ids != 0)


def export_onnx(model, path):
    """Writes a classifier as ONNX: "token_ids" int64 [B,T], for any B and T >= 2 -> "logits" [B,C]."""
    example = torch.tensor([[5, 6, 7, 8, 0], [5, 6, 7, 8, 9], [5, 6, 0, 0, 0]])
    torch.onnx.export(
        OfIds(model).eval(),
        (example,),
        str(path),
        input_names=["token_ids"],
        output_names=["logits"],
        dynamic_shapes={"token_ids": {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", min=2)}},
        dynamo=True,
        external_data=False,
        verbose=False,
    )
