"""Decode attention over a 4-bit KV cache with NumPy alone: append tokens, attend, compare with a reference.

Shows how two kernels share a cache. Needs no GPU: NumPy arrays run on the CPU device of cubit-kernels-cpu.
"""

import numpy as np

import cubit

BATCH, TOKENS, HEADS, HEADS_PER_KV, DIM, GROUPS = 2, 48, 8, 8, 128, 4
ROW = 4 * GROUPS + DIM // 2  # a header of (scale, shift) in fp16 for each group, then a nibble for each channel

random = np.random.default_rng(0)
key, value = (random.standard_normal((BATCH, TOKENS, 1, DIM)).astype(np.float16) for _ in range(2))
query = random.standard_normal((BATCH, HEADS, DIM)).astype(np.float16)
lengths = np.array([TOKENS, 20], np.int32)

# The cache has room for 64 tokens. kv_append quantises the new rows into it, in place.
key_cache, value_cache = (np.zeros((BATCH, 64, 1, ROW), np.uint8) for _ in range(2))
append = cubit.kv_append(kv="int4_rows", groups=GROUPS, input="fp16")
append(key=key, value=value, key_cache=key_cache, value_cache=value_cache)

attend = cubit.gqa_decode(heads_per_kv=HEADS_PER_KV, kv="int4_rows", groups=GROUPS, query="fp16")
output = attend(query=query, key=key_cache, value=value_cache, lengths=lengths)

# What the cache holds, as kv_gather reads it, and attention in double precision on these numbers.
gather = cubit.kv_gather(kv="int4_rows", groups=GROUPS, output="fp16")
rows = gather(key_cache=key_cache, value_cache=value_cache, tokens=TOKENS)
for b in range(BATCH):
    keys, values = (rows[name][b, :lengths[b], 0].astype(np.float64) for name in ("key", "value"))
    scores = query[b].astype(np.float64) @ keys.T / np.sqrt(DIM)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = weights @ values / weights.sum(axis=1, keepdims=True)
    error = np.linalg.norm(output[b] - expected) / np.linalg.norm(expected)
    quantised = np.linalg.norm(keys - key[b, :lengths[b], 0]) / np.linalg.norm(keys)
    print(f"sequence {b}: relative error {error:.1e}, of the 4-bit keys {quantised:.1e}")
    assert error < 3e-3 and quantised < 0.2
