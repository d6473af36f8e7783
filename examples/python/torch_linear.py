"""Quantised linear layers with PyTorch: 4-bit weights made by w4_quantize, and 8-bit weights with 8-bit activations.

Shows cubit.torch on a GPU next to a matrix product of PyTorch.
"""

import sys

try:
    import torch
except ImportError:
    sys.exit("skipped: PyTorch is not installed")
if not torch.cuda.is_available():
    sys.exit("skipped: PyTorch has no GPU")

import cubit
from cubit.torch import w4a16_linear, w8a8_linear

TOKENS, IN, OUT = 16, 4096, 2048
torch.manual_seed(0)
x = torch.randn(TOKENS, IN, device="cuda", dtype=torch.float16)
weight = torch.randn(OUT, IN, device="cuda", dtype=torch.float16) / IN**0.5
expected = x.float() @ weight.float().T


def error(y: torch.Tensor) -> float:
    return float((y.float() - expected).norm() / expected.norm())


# Groups of 128 input features share a scale and a zero point.
packed = cubit.get("w4_quantize:format=gptq,group_size=128")(weights=weight)
layer = torch.compile(lambda x: w4a16_linear(x, packed["qweight"], packed["scales"], packed["qzeros"]), fullgraph=True)
four_bits = error(layer(x))
print(f"4-bit weights: relative error {four_bits:.3f}")
assert four_bits < 0.2

# One scale for each row of the weights; w8a8_linear quantises the rows of x.
scales = weight.float().abs().amax(dim=1) / 127
codes = (weight.float() / scales[:, None]).round().to(torch.int8)
eight_bits = error(w8a8_linear(x, codes, scales))
print(f"8-bit weights and activations: relative error {eight_bits:.3f}")
assert eight_bits < 0.03
