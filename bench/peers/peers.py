"""The peers behind one interface: prepare(torch, case, tensors) returns functions that launch the peer once.

`tensors` of attention: query [batch, query heads, 128] bf16; key and value [batch, context, kv_heads, row] in the
case's storage format; lengths, a list. `tensors` of a GEMM: activations [m, k] and weights [n, k], fp16. A peer raises
Unsupported for a case that it cannot compute, and ImportError if it is not installed. A peer with a choice of splits
returns several functions, and the fastest one counts.
"""

import math

from results import HEAD_DIM

SPLITS = (1, 2, 4, 8, 16, 32, 64)
PAGE = 16


class Unsupported(Exception):
    pass


def _need(condition, why):
    if not condition:
        raise Unsupported(why)


def _sdpa(torch, case, tensors, backend):
    from torch.nn.attention import sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    _need(case.kv == "bf16", "it has 16-bit caches only")
    _need(not case.ragged, "it takes no lengths")
    query = tensors.query.unsqueeze(2)  # [batch, heads, 1, head_dim]
    key, value = tensors.key.transpose(1, 2), tensors.value.transpose(1, 2)

    def launch():
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(query, key, value, enable_gqa=case.heads_per_kv > 1)

    return [launch]


def sdpa_cudnn(torch, case, tensors):
    from torch.nn.attention import SDPBackend

    return _sdpa(torch, case, tensors, SDPBackend.CUDNN_ATTENTION)


def sdpa_flash(torch, case, tensors):
    from torch.nn.attention import SDPBackend

    return _sdpa(torch, case, tensors, SDPBackend.FLASH_ATTENTION)


def flashinfer(torch, case, tensors):
    import flashinfer as library

    _need(case.kv != "int4_rows", "it has no 4-bit cache")
    _need(case.context % PAGE == 0, f"the context is not a multiple of its page of {PAGE}")
    _need(min(tensors.lengths) > 0, "it takes no empty sequence")
    pages_of_sequence = case.context // PAGE
    used = [-(-length // PAGE) for length in tensors.lengths]
    indices = [sequence * pages_of_sequence + page for sequence in range(case.batch) for page in range(used[sequence])]
    starts = [sum(used[:sequence]) for sequence in range(case.batch + 1)]
    last = [length - (pages - 1) * PAGE for length, pages in zip(tensors.lengths, used)]
    device = {"dtype": torch.int32, "device": "cuda"}
    buffers = [torch.tensor(values, **device) for values in (starts, indices, last)]
    workspace = torch.zeros(128 * 1024 * 1024, dtype=torch.uint8, device="cuda")
    wrapper = library.BatchDecodeWithPagedKVCacheWrapper(
        workspace, "NHD", use_cuda_graph=True, use_tensor_cores=True, backend="fa2", paged_kv_indptr_buffer=buffers[0],
        paged_kv_indices_buffer=buffers[1], paged_kv_last_page_len_buffer=buffers[2])
    wrapper.plan(*(buffer.clone() for buffer in buffers), case.query_heads(), case.kv_heads, HEAD_DIM, PAGE,
                 q_data_type=torch.bfloat16, kv_data_type=tensors.key.dtype)
    pages = tuple(cache.view(-1, PAGE, case.kv_heads, HEAD_DIM) for cache in (tensors.key, tensors.value))
    return [lambda: wrapper.run(tensors.query, pages)]


def xformers(torch, case, tensors):
    from xformers.ops import fmha

    _need(not case.ragged, "ragged lengths are not compared")
    _need(case.kv != "fp8_e4m3", "it has no cache of bytes")
    operator = fmha.triton_splitk.FwOp
    key, value = tensors.key, tensors.value
    if case.kv == "int4_rows":
        operator = type("FwOpGroups", (operator,), {"NUM_GROUPS": case.groups})
        key, value = key.view(torch.int32), value.view(torch.int32)
    query = tensors.query.view(case.batch, 1, case.kv_heads, case.heads_per_kv, HEAD_DIM)
    key, value = (cache.unsqueeze(3).expand(-1, -1, -1, case.heads_per_kv, -1) for cache in (key, value))
    return [lambda: fmha.memory_efficient_attention_forward(query, key, value, op=operator)]


def fbgemm(torch, case, tensors):
    import fbgemm_gpu.experimental.gen_ai  # noqa: F401  registers torch.ops.fbgemm

    _need(case.kv_heads == 1, "it has one KV head only")
    _need(case.context <= 16384, "it has at most 16384 tokens")
    _need(min(tensors.lengths) > 0, "it takes no empty sequence")
    _need(case.kv != "fp8_e4m3", "its cache of bytes is not compared")
    _need(case.kv == "bf16" or case.groups in (1, 4), "it has 1 and 4 groups only")
    query = tensors.query.view(case.batch, 1, case.query_heads(), HEAD_DIM)
    positions = torch.tensor([length - 1 for length in tensors.lengths], dtype=torch.int32, device="cuda")

    def launcher(splits):
        return lambda: torch.ops.fbgemm.gqa_attn_splitk(
            query, tensors.key, tensors.value, positions, qk_scale=1 / math.sqrt(HEAD_DIM), num_split_ks=splits,
            kv_cache_quant_num_groups=case.groups)

    return [launcher(splits) for splits in SPLITS]


def cublas(torch, _case, tensors):
    output = torch.empty(len(tensors.activations), len(tensors.weights), dtype=torch.float16, device="cuda")
    return [lambda: torch.matmul(tensors.activations, tensors.weights.t(), out=output)]


PEERS = {"gqa_decode": {"torch SDPA, cuDNN": sdpa_cudnn, "torch SDPA, flash": sdpa_flash, "FlashInfer, FA2": flashinfer,
                        "xFormers, Triton split-K": xformers, "FBGEMM": fbgemm},
         "w4a16_gemm": {"torch matmul, fp16 (cuBLAS)": cublas}}
