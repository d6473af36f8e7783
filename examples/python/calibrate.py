"""Calibration from memory: statistics of a layer's inputs, a static scale, and an INT8 product with this scale.

Shows how the choice of a range changes the error of a layer whose inputs have outliers. Needs no GPU: NumPy arrays run
on the CPU device of cubit-kernels-cpu. `cubit.torch.Calibrator` collects the same statistics from a model of PyTorch.
"""

import numpy as np

import cubit
from cubit.calibration import Calibration

TOKENS, IN, OUT, LAYER = 16, 256, 64, "model.layers.0.mlp.down_proj"
random = np.random.default_rng(0)


def inputs(tokens: int = TOKENS) -> np.ndarray:
    """Inputs of the layer, in which a few values are 20 times as large as the others."""
    x = random.standard_normal((tokens, IN))
    x[random.random(x.shape) < 1e-4] *= 20
    return x.astype(np.float16)


calibration = Calibration()
for _ in range(32):
    calibration.add(LAYER, inputs(tokens=128))  # only statistics stay in memory

# Weights have one scale for each output channel, from the channel's largest magnitude.
weight = random.standard_normal((OUT, IN))
weight_scales = (np.abs(weight).max(axis=1) / 127).astype(np.float32)
codes = np.rint(weight / weight_scales[:, None]).astype(np.int8)

quantise = cubit.quantize(scale="tensor")
multiply = cubit.w8a8_gemm(activation_scale="tensor", tile_m=16)
x = inputs()
x[0, 0] = 30  # an outlier
expected = x.astype(np.float64) @ weight.T
errors = {}
for method in ("minmax", "percentile", "entropy", "mse"):
    found = calibration.ranges(method)[LAYER]
    scale = np.array([found["scale"]], np.float32)
    y = multiply(activations=quantise(input=x, scale=scale), weights=codes, activation_scales=scale,
                 weight_scales=weight_scales)
    errors[method] = np.linalg.norm(y - expected) / np.linalg.norm(expected)
    print(f"{method:10}: values up to {found['high']:6.2f}, {found['clipped']:.3%} clipped, "
          f"error of the inputs {found['error'] ** 0.5:.4f}, of the outputs {errors[method]:.4f}")
assert errors["mse"] < 0.1

calibration.write_scales("scales.safetensors", method="mse")  # for `cubit quantize-checkpoint --scales`
