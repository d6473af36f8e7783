"""A decode step with PyTorch: append to a paged INT8 cache and attend, under torch.compile and in a CUDA graph.

Shows cubit.torch on a GPU, and that eager mode, torch.compile and a graph give the same bits.
"""

import sys

try:
    import torch
except ImportError:
    sys.exit("skipped: PyTorch is not installed")
if not torch.cuda.is_available():
    sys.exit("skipped: PyTorch has no GPU")

from cubit.torch import gqa_decode, kv_append

BATCH, KV_HEADS, HEADS_PER_KV, DIM, PAGE, PAGES = 4, 2, 8, 128, 16, 64
APPEND = "kv_append:kv=int8_split,cache=paged"
ATTEND = f"gqa_decode:heads_per_kv={HEADS_PER_KV},kv=int8_split,cache=paged"

torch.manual_seed(0)
on = {"device": "cuda"}
key, value = (torch.randn(BATCH, 1, KV_HEADS, DIM, dtype=torch.bfloat16, **on) for _ in range(2))
query = torch.randn(BATCH, KV_HEADS * HEADS_PER_KV, DIM, dtype=torch.bfloat16, **on)
page_table = torch.randperm(PAGES, **on).to(torch.int32).view(BATCH, -1)
held = torch.tensor([0, 17, 100, 255], dtype=torch.int32, **on)  # tokens in the cache


def new_cache() -> dict[str, torch.Tensor]:
    generator = torch.Generator("cuda").manual_seed(1)
    rows = {name: torch.randint(-100, 100, (PAGES, PAGE, KV_HEADS, DIM), dtype=torch.int8, generator=generator, **on)
            for name in ("key", "value")}
    scales = {name: torch.full((PAGES, PAGE, KV_HEADS), 0.02, **on) for name in ("key_scale", "value_scale")}
    return rows | scales


def step(cache: dict[str, torch.Tensor]) -> torch.Tensor:
    scales = {"key_scale": cache["key_scale"], "value_scale": cache["value_scale"]}
    kv_append(APPEND, key, value, cache["key"], cache["value"], lengths=held, page_table=page_table, **scales)
    return gqa_decode(ATTEND, query, cache["key"], cache["value"], held + 1, page_table=page_table, **scales)


def reference(cache: dict[str, torch.Tensor]) -> torch.Tensor:
    """Attention of PyTorch on the dequantised cache."""
    outputs = []
    for b in range(BATCH):
        count = int(held[b]) + 1
        rows = [(cache[name].float() * cache[name + "_scale"][..., None])[page_table[b].long()].flatten(0, 1)[:count]
                for name in ("key", "value")]
        k, v = (one.transpose(0, 1).repeat_interleave(HEADS_PER_KV, 0) for one in rows)
        outputs.append(torch.nn.functional.scaled_dot_product_attention(query[b].float()[:, None], k, v)[:, 0])
    return torch.stack(outputs)


cache = new_cache()
eager = step(cache)
error = (eager.float() - reference(cache)).norm() / reference(cache).norm()
print(f"relative error against scaled_dot_product_attention: {error:.1e}")
assert error < 5e-3

compiled = torch.compile(step, fullgraph=True)(new_cache())
assert torch.equal(compiled, eager)

captured_cache = new_cache()
step(captured_cache)  # once before the capture, as for any CUDA graph
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    captured = step(captured_cache)
graph.replay()
torch.cuda.synchronize()
assert torch.equal(captured, eager)
print("eager mode, torch.compile and a CUDA graph give the same bits")
