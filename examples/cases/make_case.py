"""Writes the example case of `make run` as a safetensors file: decode attention over a 4-bit KV cache.

  make_case.py <file>

The file has the same bytes on every machine. The script needs only Python's standard library.

The case has batch 2, 8 query heads on one KV head, 128 channels and room for 96 tokens. The sequences have 96 and 61
tokens. query is BF16 [2, 8, 128]; key and value are int4_rows with 4 groups, U8 [2, 96, 1, 80]; lengths is I32 [2].
"""

import json
import struct
import sys

BATCH, QUERY_HEADS, KV_HEADS, HEAD_DIM, TOKENS, GROUPS = 2, 8, 1, 128, 96, 4
LENGTHS = [96, 61]


class Normal:
    """Nearly normal numbers: sums of twelve uniform numbers. The sums are exact, so no machine's libm affects them."""

    def __init__(self, seed: int):
        self.state = seed

    def uniform(self) -> float:
        """Returns a number in [0, 1): 32 bits of a 64-bit linear congruential generator with the constants of MMIX."""
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 32) / 2**32

    def take(self, count: int) -> list[float]:
        return [float32(sum(self.uniform() for _ in range(12)) - 6) for _ in range(count)]


def float32(value: float) -> float:
    return struct.unpack("<f", struct.pack("<f", value))[0]


def bf16(value: float) -> bytes:
    """Rounds a finite value to nearest even; bf16 is the upper half of a float32."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return struct.pack("<H", (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)


def int4_group(values: list[float]) -> tuple[bytes, list[int]]:
    """Quantises one group. Returns scale and shift in fp16, and the 4-bit numbers; value = scale * number + shift."""
    low, high = min(values), max(values)
    steps_per_unit = 15 / (float32(high - low) + 1e-8)
    numbers = [min(15, max(0, round((value - low) * steps_per_unit))) for value in values]  # round: half to even
    return struct.pack("<ee", float32(high - low) / 15, low), numbers


def int4_row(values: list[float]) -> bytes:
    """Packs one token of one head: the groups' (scale, shift) pairs, then two channels per byte, low nibble first."""
    width = HEAD_DIM // GROUPS
    groups = [int4_group(values[start : start + width]) for start in range(0, HEAD_DIM, width)]
    numbers = [number for _, group in groups for number in group]
    packed = bytes(low | high << 4 for low, high in zip(numbers[::2], numbers[1::2]))
    return b"".join(head for head, _ in groups) + packed


def tensors() -> dict[str, tuple[str, list[int], bytes]]:
    normal = Normal(seed=20)
    query = b"".join(map(bf16, normal.take(BATCH * QUERY_HEADS * HEAD_DIM)))
    rows = BATCH * TOKENS * KV_HEADS
    key, value = (b"".join(int4_row(normal.take(HEAD_DIM)) for _ in range(rows)) for _ in range(2))
    cache = [BATCH, TOKENS, KV_HEADS, len(key) // rows]
    return {
        "query": ("BF16", [BATCH, QUERY_HEADS, HEAD_DIM], query),
        "key": ("U8", cache, key),
        "value": ("U8", cache, value),
        "lengths": ("I32", [BATCH], struct.pack(f"<{BATCH}i", *LENGTHS)),
    }


def safetensors(content: dict[str, tuple[str, list[int], bytes]]) -> bytes:
    header, data = {}, b""
    for name, (kind, shape, payload) in content.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(payload)]}
        data += payload
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that the data are aligned
    return struct.pack("<Q", len(text)) + text + data


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], "wb") as file:
        file.write(safetensors(tensors()))
