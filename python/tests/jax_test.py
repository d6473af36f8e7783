"""cubit.jax: custom calls under jit against cubit.get on the same arrays, updates in place, mistakes, and the page."""

import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental.serialize_executable import serialize  # noqa: E402

import cubit  # noqa: E402
import cubit.jax  # noqa: E402
from cubit.errors import InvalidArgumentError  # noqa: E402

ON_GPU = jax.default_backend() == "gpu"
ROOT = Path(__file__).parents[2]
BATCH, TOKENS, KV_HEADS, DIM, GROUPS = 2, 24, 1, 128, 4
INT4 = f"gqa_decode:heads_per_kv=8,kv=int4_rows,groups={GROUPS}"
APPEND = f"kv_append:kv=int4_rows,groups={GROUPS}"


def random(seed, *shape, dtype=jnp.bfloat16):
    return jax.random.normal(jax.random.key(seed), shape).astype(dtype)


def host(array):
    """A copy for cubit.get, which changes arrays in place."""
    return np.array(array)


def caches():
    return [jnp.zeros((BATCH, TOKENS + 8, KV_HEADS, 4 * GROUPS + DIM // 2), jnp.uint8) for _ in range(2)]


def appended():
    key, value = (random(seed, BATCH, TOKENS, KV_HEADS, DIM) for seed in (0, 1))
    return jax.jit(cubit.jax.get(APPEND))(key=key, value=value, key_cache=caches()[0], value_cache=caches()[1])


def test_a_decode_step_under_jit_has_the_bits_of_cubit_get():
    append, attend = cubit.jax.get(APPEND), cubit.jax.get(INT4)
    key, value = (random(seed, BATCH, TOKENS, KV_HEADS, DIM) for seed in (0, 1))
    query, lengths = random(2, BATCH, 8, DIM), jnp.array([TOKENS, 5], jnp.int32)

    @jax.jit
    def step(query, key, value, key_cache, value_cache):
        cache = append(key=key, value=value, key_cache=key_cache, value_cache=value_cache)
        return attend(query=query * 2, key=cache["key_cache"], value=cache["value_cache"], lengths=lengths) + 1, cache

    output, cache = step(query, key, value, *caches())
    expected = [host(one) for one in caches()]
    cubit.get(APPEND)(key=host(key), value=host(value), key_cache=expected[0], value_cache=expected[1])
    assert (host(cache["key_cache"]) == expected[0]).all() and (host(cache["value_cache"]) == expected[1]).all()
    attention = cubit.get(INT4)(query=host(query * 2), key=expected[0], value=expected[1], lengths=host(lengths))
    difference = host(output).astype(np.float64) - host(jnp.asarray(attention) + 1).astype(np.float64)
    assert np.abs(difference).max() <= (0.02 if ON_GPU else 0) and output.dtype == jnp.bfloat16


def test_attention_is_that_of_jax_on_the_values_of_the_cache():
    cache = appended()
    rows = cubit.jax.get(f"kv_gather:kv=int4_rows,groups={GROUPS}")(**cache, tokens=TOKENS)
    query = random(2, BATCH, 8, DIM)
    lengths = jnp.array([TOKENS, 5], jnp.int32)
    got = cubit.jax.get(INT4)(query=query, key=cache["key_cache"], value=cache["value_cache"], lengths=lengths)
    k, v = (rows[name][:, :, 0].astype(jnp.float32) for name in ("key", "value"))
    scores = jnp.einsum("bhd,btd->bht", query.astype(jnp.float32), k) / DIM**0.5
    scores = jnp.where(jnp.arange(TOKENS) < lengths[:, None, None], scores, -jnp.inf)
    expected = jnp.einsum("bht,btd->bhd", jax.nn.softmax(scores), v)
    assert jnp.linalg.norm(got.astype(jnp.float32) - expected) / jnp.linalg.norm(expected) < 5e-3


def test_a_product_of_packed_weights_under_jit():
    random_bits = np.random.default_rng(3)
    x = random(4, 3, 256, dtype=jnp.float16)
    words = random_bits.integers(-2**31, 2**31, (32, 64), dtype=np.int32)
    scales = random_bits.uniform(0.01, 0.02, (2, 64)).astype(np.float16)
    multiply = cubit.jax.get("w4a16_gemm:format=symmetric,tile_m=8,tile_n=32")
    y = jax.jit(lambda x: multiply(activations=x, qweight=words, scales=scales))(x)
    codes = (words[:, None] >> (4 * np.arange(8)[None, :, None]) & 15).reshape(256, 64) - 8.0
    expected = host(x).astype(np.float64) @ (codes * scales.repeat(128, axis=0))
    assert np.linalg.norm(y - expected) / np.linalg.norm(expected) < 2e-3


def test_overlapping_launches_give_the_same_bits():
    cache, query = appended(), random(2, BATCH, 8, DIM)
    chains = []
    for overlap in (False, True):
        attend = cubit.jax.get(INT4, overlap=overlap)

        def chain(query, attend=attend):
            for _ in range(3):
                query = attend(query=query, key=cache["key_cache"], value=cache["value_cache"])
            return query

        chains.append(host(jax.jit(chain)(query)))
    assert (chains[0] == chains[1]).all()


def test_optional_outputs_and_numbers():
    cache = appended()
    given = {"query": random(2, BATCH, 8, DIM), "key": cache["key_cache"], "value": cache["value_cache"],
             "max_length": TOKENS}
    plain = cubit.jax.get(INT4)(**given)
    both = jax.jit(lambda **arrays: cubit.jax.get(INT4)(**arrays, lse=True, max_length=TOKENS))(
        **{name: one for name, one in given.items() if name != "max_length"})
    assert (host(both["output"]) == host(plain)).all() and both["lse"].shape == (BATCH, 8)
    assert np.isfinite(both["lse"]).all()


def test_an_argument_that_is_not_donated_keeps_its_values():
    key, value = (random(seed, BATCH, TOKENS, KV_HEADS, DIM) for seed in (0, 1))
    append = jax.jit(lambda cache, other: cubit.jax.get(APPEND)(key=key, value=value, key_cache=cache,
                                                                value_cache=other))
    before = caches()
    after = append(*before)
    assert not host(before[0]).any() and host(after["key_cache"]).any()
    donating = jax.jit(append, donate_argnums=(0, 1))
    again = donating(*[one + 0 for one in before])
    assert (host(again["key_cache"]) == host(after["key_cache"])).all()


LOADS = """
import pickle, sys
import cubit.jax
import numpy as np
from jax.experimental.serialize_executable import deserialize_and_load
payload, inputs, outputs, x, expected = pickle.loads(open(sys.argv[1], "rb").read())
assert (np.asarray(deserialize_and_load(payload, inputs, outputs)(x)["output"]) == expected).all()
"""


def test_a_new_process_runs_a_stored_executable(tmp_path):
    """Its attributes are complete: the process has traced no call."""
    quantise = cubit.jax.get("quantize:input=fp16")
    x = random(5, 3, 64, dtype=jnp.float16)
    compiled = jax.jit(lambda x: quantise(input=x)).lower(x).compile()
    stored = (*serialize(compiled), host(x), host(quantise(input=x)["output"]))
    (tmp_path / "stored").write_bytes(pickle.dumps(stored))
    done = subprocess.run([sys.executable, "-B", "-c", LOADS, tmp_path / "stored"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


SHARDED = """
import cubit.jax, jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, PartitionSpec
quantise = cubit.jax.get("quantize:input=fp16")
x = jax.random.normal(jax.random.key(0), (6, 64)).astype(jnp.float16)
assert len(jax.devices()) == 2
parts = jax.shard_map(lambda x: quantise(input=x)["output"], mesh=Mesh(np.array(jax.devices()), "rows"),
                      in_specs=PartitionSpec("rows"), out_specs=PartitionSpec("rows"))
assert (np.asarray(jax.jit(parts)(x)) == np.asarray(quantise(input=x)["output"])).all()
"""


def test_shard_map_runs_the_call_on_every_device():
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-B", "-c", SHARDED], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_vmap_and_grad_are_refused():
    quantise = cubit.jax.get("quantize:input=fp16")
    with pytest.raises(NotImplementedError, match="vmap"):
        jax.vmap(lambda x: quantise(input=x)["output"])(jnp.zeros((2, 3, 64), jnp.float16))
    with pytest.raises(ValueError, match="cannot be differentiated"):
        jax.grad(lambda x: quantise(input=x)["scales"].sum())(jnp.zeros((3, 64), jnp.float16))


def test_mistakes_give_one_sentence():
    quantise = cubit.jax.get("quantize:input=fp16")
    with pytest.raises(InvalidArgumentError, match="quantize: input is F32: quantize takes F16; convert it to float16"):
        jax.jit(lambda x: quantise(input=x))(jnp.zeros((3, 64), jnp.float32))
    with pytest.raises(InvalidArgumentError, match=r"rows is traced: .*; name it in static_argnames"):
        jax.jit(quantise)(input=jnp.zeros((3, 64), jnp.float16), rows=3)
    static = jax.jit(quantise, static_argnames="rows")(input=jnp.zeros((3, 64), jnp.float16), rows=3)
    assert static["scales"].shape == (3,)
    with pytest.raises(InvalidArgumentError, match="output is given: arrays of JAX never change; take output from"):
        quantise(input=jnp.zeros((3, 64), jnp.float16), output=jnp.zeros((3, 64), jnp.int8))
    with pytest.raises(InvalidArgumentError, match=r"input is a traced array of JAX: .*; call cubit\.jax\.get"):
        jax.jit(lambda x: cubit.get("quantize")(input=x))(jnp.zeros((3, 64), jnp.float16))
    with pytest.raises(InvalidArgumentError, match="has no such argument"):
        quantise(inputs=jnp.zeros((3, 64), jnp.float16))


@pytest.mark.skipif(ON_GPU, reason="the GPU may have the kernel")
def test_a_kernel_that_cannot_be_made_fails_in_the_first_run():
    multiply = cubit.jax.get("w8a8_gemm:element=fp8_e4m3", cpu_architecture="sm_80")
    codes, ones = jnp.zeros((8, 64), jnp.float8_e4m3fn), jnp.ones(8, jnp.float32)
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"fp8_e4m3.*sm_89"):
        jax.block_until_ready(multiply(activations=codes, weights=codes, activation_scales=ones, weight_scales=ones))


@pytest.mark.skipif(not ON_GPU, reason="JAX has no GPU")
def test_long_sequences_in_a_loop_on_a_gpu():
    """Split-KV launches with a workspace, in a loop of XLA that appends a token before each."""
    room, steps = 8192, 4
    append, attend = cubit.jax.get("kv_append:kv=bf16"), cubit.jax.get("gqa_decode:heads_per_kv=8,kv=bf16")
    key, value = (random(seed, 1, room, 1, DIM) for seed in (0, 1))
    queries = random(2, steps, 1, 8, DIM)

    @jax.jit
    def run(key, value, queries, held):
        def step(state, query):
            cache, held = state
            cache = append(key=query[:, None, :1] / 2, value=query[:, None, 1:2], lengths=held, **cache)
            made = attend(query=query, key=cache["key_cache"], value=cache["value_cache"], lengths=held + 1)
            return (cache, held + 1), made

        return jax.lax.scan(step, ({"key_cache": key, "value_cache": value}, held), queries)

    (cache, held), made = run(key, value, queries, jnp.array([room - steps], jnp.int32))
    assert held == room
    k, v = (cache[name][0, :, 0].astype(jnp.float32) for name in ("key_cache", "value_cache"))
    assert (k[room - steps:] == (queries[:, 0, 0] / 2).astype(jnp.float32)).all()
    for i in range(steps):
        count = room - steps + i + 1
        scores = queries[i, 0].astype(jnp.float32) @ k[:count].T / DIM**0.5
        expected = jax.nn.softmax(scores) @ v[:count]
        assert jnp.linalg.norm(made[i, 0].astype(jnp.float32) - expected) / jnp.linalg.norm(expected) < 1e-2


def test_the_declared_structs_are_those_of_jaxlib(tmp_path):
    compiler = shutil.which("cc") or pytest.skip("there is no C compiler")
    source, folders = Path(__file__).with_name("xla_ffi_layout.c"), (jax.ffi.include_dir(), ROOT / "python" / "src")
    subprocess.run([compiler, "-std=c11", "-c", source, "-o", tmp_path / "layout.o",
                    *[part for folder in folders for part in ("-I", folder)]], check=True)


def test_the_snippets_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "embedding_jax.md").read_text(encoding="utf-8")
    snippets = re.findall(r"^```python no-run\n(.*?)^```", page, re.M | re.S)
    assert len(snippets) == 3
    names: dict[str, object] = {}
    for snippet in snippets:  # each continues the one before
        exec(compile(snippet, "embedding_jax.md", "exec"), names)
