"""cubit.torch on a GPU: numbers against PyTorch, opcheck, torch.compile, CUDA graphs, streams and mistakes."""

import threading

import pytest

ml_dtypes = pytest.importorskip("ml_dtypes")
np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("PyTorch has no GPU", allow_module_level=True)

import cubit  # noqa: E402
import cubit.torch as ct  # noqa: E402
from checkpoint_test import LAYER, w4_cases, write  # noqa: E402
from checkpoints import K, N, eight_bits  # noqa: E402

INT4 = "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4"
APPEND = "kv_append:kv=int4_rows,groups=4"


def relative(got, expected):
    return float((got.float() - expected.float()).norm() / expected.float().norm())


def attention(batch=3, tokens=200, kv_heads=2):
    """Queries, a cache of INT4 rows that kv_append has written, lengths, and what the cache holds."""
    torch.manual_seed(0)
    key, value = (torch.randn(batch, tokens, kv_heads, 128, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    caches = [torch.zeros(batch, tokens + 8, kv_heads, 80, device="cuda", dtype=torch.uint8) for _ in range(2)]
    ct.kv_append(APPEND, key, value, *caches)
    rows = cubit.get("kv_gather:kv=int4_rows,groups=4")(key_cache=caches[0], value_cache=caches[1], tokens=tokens)
    query = torch.randn(batch, 8 * kv_heads, 128, device="cuda", dtype=torch.bfloat16)
    lengths = torch.tensor([tokens, 1, 57][:batch], device="cuda", dtype=torch.int32)
    return query, caches, lengths, rows


def test_attention_over_int4_is_that_of_sdpa_on_its_values():
    query, caches, lengths, rows = attention()
    got = ct.gqa_decode(INT4, query, *caches, lengths)
    for b, length in enumerate(lengths.tolist()):
        k, v = (rows[name][b, :length].float().transpose(0, 1).repeat_interleave(8, 0) for name in ("key", "value"))
        expected = torch.nn.functional.scaled_dot_product_attention(query[b].float()[:, None], k, v)[:, 0]
        assert relative(got[b], expected) < 5e-3


def layer(n=256, k=512, dtype=torch.float16):
    torch.manual_seed(1)
    weight = torch.randn(n, k, device="cuda", dtype=dtype) / k**0.5
    x = torch.randn(2, 5, k, device="cuda", dtype=dtype)
    return x, weight


def dequantised(packed, k):
    """The weights [n, k] of packed GPTQ words, with zeros that are stored less one."""
    shifts = torch.arange(0, 32, 4, device="cuda")
    codes = (packed["qweight"][:, None, :] >> shifts[None, :, None] & 15).flatten(0, 1)
    zeros = (packed["qzeros"][:, :, None] >> shifts & 15).flatten(1, 2) + 1
    groups = torch.arange(k, device="cuda") // 128
    return ((codes - zeros[groups]) * packed["scales"].float()[groups]).T


def test_w4a16_linear_is_a_matrix_product_with_the_dequantised_weights():
    x, weight = layer()
    packed = cubit.get("w4_quantize")(weights=weight)
    got = ct.w4a16_linear(x, packed["qweight"], packed["scales"], packed["qzeros"])
    assert got.shape == (2, 5, 256)
    assert relative(got, x.float() @ dequantised(packed, 512).T) < 2e-3


def test_w8a8_linear_is_a_matrix_product_of_the_codes():
    x, weight = layer(dtype=torch.bfloat16)
    scales = weight.float().abs().amax(1) / 127
    codes = (weight.float() / scales[:, None]).round().to(torch.int8)
    x_codes, x_scales = ct.quantize(x)
    expected = (x_codes.float() * x_scales[..., None]) @ (codes.float() * scales[:, None]).T
    assert relative(ct.w8a8_linear(x, codes, scales), expected) < 5e-3


@pytest.fixture(autouse=True)
def new_compiler():
    """PyTorch compiles one function for a few layers only, and each test has layers of its own."""
    torch._dynamo.reset()


def inputs(dtype):
    return torch.randn(2, 3, K, device="cuda", dtype=dtype)


@pytest.mark.parametrize("case", list(w4_cases()), ids=[one[0] for one in w4_cases()])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_layers_of_packed_words_come_from_a_checkpoint(tmp_path, case, dtype):
    _, tensors, config, weights, _ = case
    bias, x = np.linspace(-2, 2, N).astype(np.float16), inputs(dtype)
    layer = ct.Linear.from_checkpoint(write(tmp_path, tensors | {"bias": bias}, config), LAYER, dtype=dtype)
    weight = torch.from_numpy(weights.dense()).cuda()
    expected = x.double() @ weight.T + torch.from_numpy(bias).cuda()
    assert relative(layer(x), expected) < (2e-3 if dtype == torch.float16 else 1e-2)
    compiled = torch.compile(layer, fullgraph=True)
    assert torch.equal(compiled(x), layer(x))
    assert set(layer.state_dict()) >= {"qweight", "scales", "bias"}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_dense_layers_come_from_a_checkpoint(tmp_path, dtype):
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("format=dense needs sm_90a")
    bits = torch.randn(N, K).to(dtype)
    weight = bits.numpy() if dtype == torch.float16 else bits.view(torch.uint16).numpy().view(ml_dtypes.bfloat16)
    folder, x = write(tmp_path, {"weight": weight}), inputs(dtype)
    layer = ct.Linear.from_checkpoint(folder, LAYER, dtype=dtype)
    assert relative(layer(x), x.float() @ bits.cuda().float().T) < 1e-2
    other = torch.bfloat16 if dtype == torch.float16 else torch.float16
    with pytest.raises(cubit.errors.InvalidArgumentError, match=r"the layer's weights are .*; give the type of the"):
        ct.Linear.from_checkpoint(folder, LAYER, dtype=other)


@pytest.mark.parametrize("element", [np.int8, ml_dtypes.float8_e4m3fn])
@pytest.mark.parametrize("static", [False, True])
def test_layers_of_8_bits_come_from_a_checkpoint(tmp_path, element, static):
    tensors, weight = eight_bits(element, static)
    layer, x = ct.Linear.from_checkpoint(write(tmp_path, tensors), LAYER), inputs(torch.float16)
    expected = x.double() @ torch.from_numpy(weight).cuda().T
    assert relative(layer(x), expected) < (0.02 if element == np.int8 else 0.05)
    assert torch.equal(torch.compile(layer, fullgraph=True)(x), layer(x))


def test_a_calibrator_sees_what_linear_layers_receive(tmp_path):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 16)).cuda().bfloat16()
    batches = [torch.randn(5, 32, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
    with ct.Calibrator(model) as calibrator:
        for batch in batches:
            model(batch)
    model(batches[0] * 1000)  # the hooks are gone
    ranges = calibrator.ranges("minmax")
    for name, seen in (("0", torch.stack(batches)), ("2", torch.stack([model[:2](batch) for batch in batches]))):
        assert ranges[name]["high"] == seen.abs().max().item()
    with ct.Calibrator(model) as named:
        model[0](input=batches[0])
    assert named.ranges("minmax")["0"]["high"] == batches[0].abs().max().item()
    with pytest.raises(cubit.errors.InvalidArgumentError, match="the model has no linear layer that matches"):
        ct.Calibrator(model, layers=["mlp.*"])


def test_opcheck():
    query, caches, lengths, _ = attention()
    samples = [("gqa_decode", INT4, {"query": query, "key": caches[0], "value": caches[1], "lengths": lengths}),
               ("quantize", "quantize", {"input": torch.randn(3, 64, device="cuda", dtype=torch.float16)}),
               ("kv_append", APPEND, {"key": query.view(3, 2, 8, 128)[:, :, :2].contiguous(),
                                      "value": query.view(3, 2, 8, 128)[:, :, :2].contiguous(),
                                      "key_cache": caches[0].clone(), "value_cache": caches[1].clone()})]
    x, weight = layer()
    packed = cubit.get("w4_quantize")(weights=weight)
    samples.append(("w4a16_gemm", "w4a16_gemm", {"activations": x.flatten(0, 1), **packed}))
    for name, descriptor, tensors in samples:
        torch.library.opcheck(getattr(torch.ops.cubit, name).default, (descriptor,), tensors)


def test_compiled_functions_give_the_same_bits():
    query, caches, lengths, _ = attention()
    x, weight = layer()
    packed = cubit.get("w4_quantize")(weights=weight)

    def function(query, x):
        y = ct.w4a16_linear(x, packed["qweight"], packed["scales"], packed["qzeros"])
        return ct.gqa_decode(INT4, query * 2, *caches, lengths) + 1, ct.quantize(y)[0]

    compiled = torch.compile(function, fullgraph=True)
    for got, expected in zip(compiled(query, x), function(query, x), strict=True):
        assert torch.equal(got, expected)


def test_a_compiled_function_serves_other_batches():
    query, caches, lengths, _ = attention()
    compiled = torch.compile(lambda q, k, v, n: ct.gqa_decode(INT4, q, k, v, n), fullgraph=True, dynamic=True)
    for batch in (3, 2, 1):
        arguments = (query[:batch], caches[0][:batch], caches[1][:batch], lengths[:batch])
        assert torch.equal(compiled(*arguments), ct.gqa_decode(INT4, *arguments))


def test_a_graph_replays_with_new_contents_and_other_streams_have_their_own_workspace():
    query, caches, lengths, _ = attention(tokens=4000)
    kernel = cubit.get(INT4).prepare()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = kernel(query=query, key=caches[0], value=caches[1], lengths=lengths)
    lengths.copy_(torch.tensor([10, 4000, 777], device="cuda"))
    graph.replay()
    expected = kernel(query=query, key=caches[0], value=caches[1], lengths=lengths)
    assert torch.equal(captured, expected)
    results = [None] * 8

    def work(i):
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(20):
                results[i] = kernel(query=query, key=caches[0], value=caches[1], lengths=lengths)
            torch.cuda.current_stream().synchronize()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    torch.cuda.synchronize()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(one, expected) for one in results)


def test_out_and_log_sum_exp():
    query, caches, lengths, _ = attention()
    kernel = cubit.get(INT4)
    both = kernel(query=query, key=caches[0], value=caches[1], lengths=lengths, lse=True)
    out = torch.empty_like(query)
    assert kernel(query=query, key=caches[0], value=caches[1], lengths=lengths, out=out) is out
    again = torch.empty_like(query)
    assert kernel(query=query, key=caches[0], value=caches[1], lengths=lengths, output=out) is out
    assert kernel(query=query, key=caches[0], value=caches[1], lengths=lengths, out={"output": out}) is out
    two = kernel(query=query, key=caches[0], value=caches[1], lengths=lengths, out=out, lse=True)
    assert two["output"] is out and torch.equal(two["lse"], both["lse"])
    kernel.positional("query", "key", "value", "output", "lengths")(query, *caches, again, lengths)
    assert torch.equal(again, out)
    assert torch.equal(out, both["output"]) and both["lse"].shape == (3, 16) and both["lse"].isfinite().all()


def test_overlapping_launches_give_the_same_bits():
    """A chain in which every launch reads what the launch before it has written."""
    query, caches, lengths, _ = attention(tokens=4000)
    chains = []
    for overlap in (False, True):
        one, graph = query.clone(), torch.cuda.CUDAGraph()
        attend = cubit.get(INT4, overlap=overlap)
        attend(query=one, key=caches[0], value=caches[1], lengths=lengths)
        with torch.cuda.graph(graph):
            for _ in range(50):
                one = attend(query=one, key=caches[0], value=caches[1], lengths=lengths) * 4
        graph.replay()
        chains.append(one)
    assert torch.equal(*chains) and chains[0].isfinite().all()


def test_mistakes_give_one_sentence():
    query, caches, lengths, _ = attention()
    kernel = cubit.get(INT4)
    with pytest.raises(cubit.errors.InvalidArgumentError, match=r"gqa_decode: query is F16: .* takes BF16; convert"):
        kernel(query=query.half(), key=caches[0], value=caches[1])
    with pytest.raises(cubit.errors.InvalidArgumentError, match="lengths is on cpu: query is on cuda:0"):
        kernel(query=query, key=caches[0], value=caches[1], lengths=lengths.cpu())
    with pytest.raises(cubit.errors.InvalidArgumentError, match="gqa_decode: value is missing"):
        kernel(query=query, key=caches[0], out=torch.empty_like(query))
    with pytest.raises(cubit.errors.InvalidArgumentError, match="has no such argument"):
        kernel(query=query, key=caches[0], value=caches[1], length=lengths, out=torch.empty_like(query))


def test_cupy_arrays_are_tensors_too():
    cupy = pytest.importorskip("cupy")
    x = cupy.random.default_rng(0).standard_normal((3, 64)).astype(cupy.float16)
    made = cubit.get("quantize")(input=x)
    cupy.cuda.Device().synchronize()
    expected = cubit.get("quantize")(input=torch.from_dlpack(x))
    assert isinstance(made["output"], cupy.ndarray)
    assert torch.equal(torch.from_dlpack(made["output"]), expected["output"])


@pytest.mark.skipif("cpu" not in cubit.devices(), reason="the CPU device is not installed")
def test_tensors_in_host_memory_run_on_the_cpu_device():
    torch.manual_seed(0)
    x = torch.randn(3, 64, dtype=torch.bfloat16)
    plain = cubit.get("norm_quantize:output=unquantised,input=bf16")(
        input=x, weight=torch.ones(64, dtype=torch.bfloat16), epsilon=1e-6)
    assert plain.dtype == torch.bfloat16
    assert relative(plain, torch.nn.functional.rms_norm(x.float(), (64,), eps=1e-6)) < 5e-3
    codes, scales = ct.quantize(x)
    there, scales_there = ct.quantize(x.cuda())
    assert torch.equal(codes, there.cpu()) and torch.equal(scales, scales_there.cpu())
