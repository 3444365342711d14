"""The mixing operations in PyTorch, in every form that is fast in some setting.

A form is a function `form(x, taps, left, dilation_rate)`. x has the layout that is fastest for the form
(`LAYOUTS`); taps are [H,K], or [B,T,H,K] if each position has its own; `left` of the K taps read positions
before the one they write to.
"""

import torch
import torch.nn.functional as F


def conv1d(x, taps, left, dilation_rate):
    """Computes F.conv1d with one group per channel: x [B,D,T], taps [H,K]."""
    weight = taps.repeat_interleave(x.shape[1] // taps.shape[0], dim=0).unsqueeze(1)  # [D,1,K]
    return _conv1d(x, weight, left, dilation_rate)


def conv1d_heads(x, taps, left, dilation_rate):
    """Computes F.conv1d with one group per head, D/H channels as rows of the batch: x [B,D,T], taps [H,K].

    As in fairseq's LightweightConv1d, channel c belongs to head c % H; any other order would need a copy.
    """
    batch, dim, time = x.shape
    rows = x.view(batch * dim // taps.shape[0], taps.shape[0], time)  # [B*D/H,H,T]
    return _conv1d(rows, taps.unsqueeze(1), left, dilation_rate).reshape(batch, dim, time)


def _conv1d(x, weight, left, dilation_rate):
    """X [B,C,T], weight [C,1,K] -> [B,C,T]; extra outputs at the end are computed and cut off."""
    y = F.conv1d(x, weight, padding=left * dilation_rate, dilation=dilation_rate, groups=x.shape[1])
    return y[..., : x.shape[2]]


def conv2d_channels_last(x, taps, left, dilation_rate):
    """Computes F.conv2d with channels innermost, as in [B,T,D] arrays: x [B,T,D], taps [H,K]."""
    image = x.transpose(1, 2).unsqueeze(2)  # [B,D,1,T]
    weight = taps.repeat_interleave(x.shape[2] // taps.shape[0], dim=0)[:, None, None]  # [D,1,1,K]
    weight = weight.contiguous(memory_format=torch.channels_last)
    padding, dilation = (0, left * dilation_rate), (1, dilation_rate)
    y = F.conv2d(image, weight, padding=padding, dilation=dilation, groups=x.shape[2])  # [B,D,1,T+]
    return y[..., : x.shape[1]].squeeze(2).transpose(1, 2)


def shifts(x, taps, left, dilation_rate):
    """Computes K shifted multiply-adds: x [B,T,D], taps of either shape."""
    batch, time, dim = x.shape
    num_heads, kernel_size = taps.shape[-2:]
    heads = _padded(x, kernel_size, left, dilation_rate).view(batch, -1, num_heads, dim // num_heads)
    y = 0
    for j in range(kernel_size):
        y = y + taps[..., j : j + 1] * heads[:, j * dilation_rate : j * dilation_rate + time]  # [B,T,H,D/H]
    return y.reshape(batch, time, dim)


def unfold(x, taps, left, dilation_rate):
    """Copies the window of every position into a matrix to multiply: x [B,T,D], taps of either shape.

    This is what fairseq's DynamicConv1dTBC does for long texts.
    """
    batch, time, dim = x.shape
    num_heads, kernel_size = taps.shape[-2:]
    padded = _padded(x, kernel_size, left, dilation_rate)
    windows = padded.unfold(1, (kernel_size - 1) * dilation_rate + 1, 1)[..., ::dilation_rate]  # [B,T,D,K]
    windows = windows.reshape(batch * time * num_heads, dim // num_heads, kernel_size)  # [B*T*H,D/H,K]
    filters = taps.expand(batch, time, num_heads, kernel_size).reshape(-1, kernel_size, 1)  # [B*T*H,K,1]
    return torch.bmm(windows, filters).view(batch, time, dim)


def band(x, taps, left, dilation_rate):
    """Spreads the taps over a band matrix [T,T+K-1]: x [B,T,D], taps of either shape, no dilation.

    This is what fairseq's modules do for texts of up to 512 tokens; the cost grows with the square of T.
    """
    if dilation_rate != 1:
        raise ValueError(f"`dilation_rate` must be 1 for a band. Received: dilation_rate={dilation_rate}")
    batch, time, dim = x.shape
    num_heads, kernel_size = taps.shape[-2:]
    columns = time + kernel_size - 1
    filters = taps.expand(batch, time, num_heads, kernel_size).transpose(1, 2)  # [B,H,T,K]
    matrix = filters.new_zeros(batch * num_heads, time, columns)
    rows = matrix.as_strided((batch * num_heads, time, kernel_size), (time * columns, columns + 1, 1))
    rows.copy_(filters.reshape(batch * num_heads, time, kernel_size))
    matrix = matrix[..., left : left + time]  # [B*H,T,T]
    heads = x.view(batch, time, num_heads, dim // num_heads).transpose(1, 2)  # [B,H,T,D/H]
    y = torch.bmm(matrix, heads.reshape(batch * num_heads, time, dim // num_heads))
    return y.view(batch, num_heads, time, -1).transpose(1, 2).reshape(batch, time, dim)


def _padded(x, kernel_size, left, dilation_rate):
    return F.pad(x, (0, 0, left * dilation_rate, (kernel_size - 1 - left) * dilation_rate))


STATIC = {
    "conv1d": conv1d,
    "conv1d by head": conv1d_heads,
    "conv2d channels_last": conv2d_channels_last,
    "shifts": shifts,
    "unfold": unfold,
    "band": band,
}
DYNAMIC = {"shifts": shifts, "unfold": unfold, "band": band}
LAYOUTS = {"conv1d": "BDT", "conv1d by head": "BDT"}  # all others: BTD


def candidates(x, logits, dy, softmax, left, dilation_rate, dtype, backward):
    """Returns each form as a function without arguments, in float32 or bfloat16, in its own layout.

    Args:
        x: float32 array [B,T,D] without pads; multiplying by the mask is still part of the operation.
        logits: float32 array [H,K] or [B,T,H,K].
        dy: float32 array [B,T,D], the gradient with respect to the output.
        softmax: bool, whether the taps are the softmax of the logits or the logits themselves.
        left: int, see the docstring of the module.
        dilation_rate: int.
        dtype: str, "float32" or "bfloat16".
        backward: bool, whether the gradients with respect to x and logits are computed too.

    Returns:
        dict, name -> function that returns the output in the layout of the form, or with `backward` the two
        gradients.
    """
    forms = STATIC if logits.ndim == 2 else DYNAMIC
    if dilation_rate > 1:
        forms = {name: form for name, form in forms.items() if form is not band}
    dtype = getattr(torch, dtype)
    logits = torch.tensor(logits, dtype=dtype, requires_grad=backward)

    def candidate(name, form):
        transposed = LAYOUTS.get(name) == "BDT"
        arrays = [array.transpose(0, 2, 1) if transposed else array for array in (x, dy)]
        inputs, gradient = (torch.tensor(array.copy(), dtype=dtype) for array in arrays)
        inputs.requires_grad_(backward)
        mask = torch.ones([x.shape[0], 1, x.shape[1]] if transposed else [*x.shape[:2], 1], dtype=dtype)

        def run():
            with torch.set_grad_enabled(backward):
                taps = torch.softmax(logits, dim=-1) if softmax else logits
                y = form(inputs * mask, taps, left, dilation_rate)
                if backward:
                    return torch.autograd.grad(y, [inputs, logits], gradient)
                return y

        return run

    return {name: candidate(name, form) for name, form in forms.items()}
