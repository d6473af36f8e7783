"""A decode step with JAX: append to a 4-bit KV cache, attend, and project, in one function under jax.jit.

Shows cubit.jax on a GPU, or on the CPU device where JAX has no GPU, next to attention of JAX on the cache's values.
"""

import sys

try:
    import jax
except ImportError:
    sys.exit("skipped: JAX is not installed")
import jax.numpy as jnp
import numpy as np

import cubit.jax

BATCH, TOKENS, ROOM, HEADS, DIM, GROUPS, HIDDEN = 2, 30, 64, 8, 128, 4, 256
ROW = 4 * GROUPS + DIM // 2  # a header of (scale, shift) in fp16 for each group, then a nibble for each channel

append = cubit.jax.get(f"kv_append:kv=int4_rows,groups={GROUPS},input=fp16")
attend = cubit.jax.get(f"gqa_decode:heads_per_kv={HEADS},kv=int4_rows,groups={GROUPS},query=fp16")
multiply = cubit.jax.get("w4a16_gemm:format=symmetric,group_size=128,tile_m=8,tile_n=32")


def normal(seed: int, *shape: int) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), shape).astype(jnp.float16)


def step(cache: dict[str, jax.Array], key: jax.Array, value: jax.Array, query: jax.Array,
         held: jax.Array) -> tuple[dict[str, jax.Array], jax.Array, jax.Array]:
    """Appends new tokens behind the `held` tokens of each sequence, and attends over all tokens."""
    cache = append(key=key, value=value, lengths=held, **cache)
    attention = attend(query=query, key=cache["key_cache"], value=cache["value_cache"], lengths=held + key.shape[1])
    return cache, attention, multiply(activations=attention.reshape(BATCH, -1), **weights)


# Codes of 4 bits in 32-bit words along the input features, with a scale for each group of 128.
random = np.random.default_rng(0)
words = random.integers(-2**31, 2**31, (HEADS * DIM // 8, HIDDEN), dtype=np.int32)
scales = random.uniform(0.01, 0.02, (HEADS * DIM // 128, HIDDEN)).astype(np.float16)
weights = {"qweight": jnp.asarray(words), "scales": jnp.asarray(scales)}

# The caches are donated: jit updates them in place.
jitted = jax.jit(step, donate_argnums=0)
cache = {name: jnp.zeros((BATCH, ROOM, 1, ROW), jnp.uint8) for name in ("key_cache", "value_cache")}
held = jnp.zeros(BATCH, jnp.int32)
prompt = [normal(seed, BATCH, TOKENS, 1, DIM) for seed in (1, 2)]
cache, _, _ = jitted(cache, *prompt, normal(3, BATCH, HEADS, DIM), held)
query = normal(4, BATCH, HEADS, DIM)
cache, attention, output = jitted(cache, normal(5, BATCH, 1, 1, DIM), normal(6, BATCH, 1, 1, DIM), query, held + TOKENS)

# The same on what the cache holds, as kv_gather reads it, in float.
rows = cubit.jax.get(f"kv_gather:kv=int4_rows,groups={GROUPS},output=fp16")(**cache, tokens=TOKENS + 1)
keys, values = (np.asarray(rows[name], np.float64)[:, :, 0] for name in ("key", "value"))
scores = np.einsum("bhd,btd->bht", np.asarray(query, np.float64), keys) / DIM**0.5
probabilities = np.exp(scores - scores.max(axis=2, keepdims=True))
expected = np.einsum("bht,btd->bhd", probabilities, values) / probabilities.sum(axis=2, keepdims=True)
codes = (words[:, None] >> (4 * np.arange(8)[None, :, None]) & 15).reshape(HEADS * DIM, HIDDEN) - 8.0
projected = np.asarray(attention, np.float64).reshape(BATCH, -1) @ (codes * scales.repeat(128, axis=0))
for name, got, exact in (("attention", attention, expected), ("projection", output, projected)):
    error = np.linalg.norm(np.asarray(got, np.float64) - exact) / np.linalg.norm(exact)
    print(f"{name} on {jax.devices()[0].platform}: relative error {error:.1e}")
    assert error < 3e-3
