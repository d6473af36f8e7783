"""Tiny made-up layers in the layouts of published checkpoints, with the weights that they stand for."""

import json
import struct
from pathlib import Path

import ml_dtypes
import numpy as np

K, N, GROUP = 96, 64, 32
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
NAMES = {"float16": "F16", "bfloat16": "BF16", "float32": "F32", "int32": "I32", "uint32": "I32", "int64": "I64",
         "int8": "I8", "float8_e4m3fn": "F8_E4M3"}


def save(path: Path, tensors: dict[str, np.ndarray]) -> None:
    header, data = {}, b""
    for name, values in tensors.items():
        end = len(data) + values.nbytes
        header[name] = {"dtype": NAMES[str(values.dtype)], "shape": values.shape, "data_offsets": [len(data), end]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def packed(codes: np.ndarray, bits: int, axis: int, order: tuple[int, ...] | None = None) -> np.ndarray:
    """Packs codes along an axis, the lowest bits first; `order` names the code of each position in a word."""
    count = 32 // bits
    groups = np.moveaxis(codes, axis, 0).astype(np.uint32)
    groups = groups.reshape(-1, count, *groups.shape[1:])[:, list(order or range(count))]
    shifts = (np.arange(count, dtype=np.uint32) * bits).reshape(1, count, *[1] * (groups.ndim - 2))
    words = np.bitwise_or.reduce(groups << shifts, axis=1).view(np.int32)
    return np.ascontiguousarray(np.moveaxis(words, 0, axis))


class Weights:
    """Codes [k, n], zeros and scales [groups, n], and the group of each k."""

    def __init__(self, bits: int = 4, middle: bool = False, ordered: bool = True) -> None:
        random = np.random.default_rng(bits)
        groups = K // GROUP
        self.bits = bits
        self.codes = random.integers(0, 1 << bits, (K, N))
        self.zeros = np.full((groups, N), 1 << bits - 1) if middle else random.integers(1, 1 << bits, (groups, N))
        self.scales = (random.integers(1, 16, (groups, N)) / 64).astype(np.float16)  # exact in bf16, too
        self.order = (np.arange(K) // GROUP if ordered else random.permutation(np.arange(K) % groups)).astype(np.int32)

    def dense(self) -> np.ndarray:
        """Weights [n, k]."""
        return ((self.codes - self.zeros[self.order]) * self.scales.astype(np.float64)[self.order]).T


def gptq(weights: Weights, offset: int = 1) -> dict[str, np.ndarray]:
    return {"qweight": packed(weights.codes, weights.bits, 0), "scales": weights.scales, "g_idx": weights.order,
            "qzeros": packed(weights.zeros - offset, weights.bits, 1)}


def awq(weights: Weights) -> dict[str, np.ndarray]:
    return {"qweight": packed(weights.codes, 4, 1, AWQ_ORDER), "qzeros": packed(weights.zeros, 4, 1, AWQ_ORDER),
            "scales": weights.scales}


def compressed(weights: Weights, middle: bool) -> dict[str, np.ndarray]:
    tensors = {"weight_packed": packed(weights.codes.T, weights.bits, 1),
               "weight_scale": np.ascontiguousarray(weights.scales.T).astype(ml_dtypes.bfloat16),
               "weight_shape": np.array([N, K], np.int64)}
    return tensors if middle else tensors | {"weight_zero_point": packed(weights.zeros.T, weights.bits, 0)}


def eight_bits(element: type, static: bool) -> tuple[dict[str, np.ndarray], np.ndarray]:
    random = np.random.default_rng(1)
    codes = random.integers(-100, 100, (N, K)).astype(np.float32).astype(element)
    scales = random.uniform(0.01, 0.02, (1 if static else N, 1)).astype(np.float32)
    tensors = {"weight": codes, "weight_scale": scales}
    tensors |= {"input_scale": np.array([0.03], np.float32)} if static else {}
    return tensors, codes.astype(np.float64) * scales
