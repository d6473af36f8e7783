"""What a call accepts and refuses: out=, types, shapes, strides, names and numbers. NumPy computes the references."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cubit
from cubit.errors import InvalidArgumentError

ROWS, COLUMNS = 3, 64


@pytest.fixture(scope="module")
def quantize():
    return cubit.get("quantize:input=fp16")


def activations(rows=ROWS, columns=COLUMNS):
    return np.random.default_rng(1).standard_normal((rows, columns)).astype(np.float16)


def expected(x):
    scales = np.maximum(np.abs(x.astype(np.float32)).max(axis=1) / np.float32(127), np.float32(1e-8))
    return np.rint(x.astype(np.float32) / scales[:, None]).astype(np.int8), scales


def test_outputs_are_new_arrays_by_name(quantize):
    x = activations()
    result = quantize(input=x)
    codes, scales = expected(x)
    np.testing.assert_allclose(result["scales"], scales, rtol=1e-6)
    assert np.abs(result["output"].astype(int) - codes).max() <= 1
    assert (result["output"] == codes).mean() > 0.99


def test_out_is_written_and_strides_are_kept(quantize):
    x = activations(ROWS, 2 * COLUMNS)[:, :COLUMNS]  # every row is followed by one that does not belong to it
    wide = np.full((ROWS, 2 * COLUMNS), 99, np.int8)
    scales = np.zeros(ROWS, np.float32)
    quantize(input=x, out={"output": wide[:, :COLUMNS], "scales": scales})
    assert (wide[:, :COLUMNS] == quantize(input=x)["output"]).all() and (wide[:, COLUMNS:] == 99).all()
    assert (scales > 0).all()


def test_outputs_that_are_given_are_returned(quantize):
    x = activations()
    out = {"output": np.zeros((ROWS, COLUMNS), np.int8), "scales": np.zeros(ROWS, np.float32)}
    result = quantize(input=x, out=out)
    assert result["output"] is out["output"] and result["scales"] is out["scales"]
    codes = np.zeros((ROWS, COLUMNS), np.int8)
    assert quantize(input=x, output=codes)["output"] is codes
    copied = np.zeros(64, np.uint8)
    source = np.arange(64, dtype=np.uint8)
    assert cubit.get("stream_copy")(source=source, out=copied) is copied and (copied == source).all()


def test_integers_of_the_same_width_hold_the_bits(quantize):
    x = activations()
    same = quantize(input=x.view(np.uint16))
    assert (same["output"] == quantize(input=x)["output"]).all()


def test_bfloat16_comes_with_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = activations().astype(ml_dtypes.bfloat16)
    result = cubit.get("norm_quantize:output=unquantised,input=bf16")(
        input=x, weight=np.ones(COLUMNS, ml_dtypes.bfloat16), epsilon=1e-6)
    assert result.dtype == ml_dtypes.bfloat16
    row = x.astype(np.float32)
    normal = row / np.sqrt((row * row).mean(axis=1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(result.astype(np.float32), normal, rtol=1e-2, atol=1e-2)


def test_attention_over_a_cache_of_bf16():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    random = np.random.default_rng(2)
    query, key, value = (random.standard_normal(shape).astype(ml_dtypes.bfloat16)
                         for shape in ((2, 4, 64), (2, 10, 2, 64), (2, 10, 2, 64)))
    lengths = np.array([10, 3], np.int32)
    result = cubit.get("gqa_decode:head_dim=64,heads_per_kv=2")(query=query, key=key, value=value, lengths=lengths,
                                                              lse=True)
    for b in range(2):
        for h in range(4):
            keys, values = (one[b, :lengths[b], h // 2].astype(np.float64) for one in (key, value))
            scores = keys @ query[b, h].astype(np.float64) / 8
            weights = np.exp(scores)
            np.testing.assert_allclose(result["output"][b, h].astype(np.float64), weights @ values / weights.sum(),
                                       rtol=0.02, atol=0.02)
            np.testing.assert_allclose(result["lse"][b, h], np.log(weights.sum()), rtol=1e-3)


def test_scales_may_be_shared_by_all_tokens():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    random = np.random.default_rng(3)
    query = random.standard_normal((2, 2, 128)).astype(ml_dtypes.bfloat16)
    key, value = (random.integers(-100, 100, (2, 6, 1, 128)).astype(np.int8) for _ in range(2))
    kernel = cubit.get("gqa_decode:heads_per_kv=2,kv=int8_split")
    shared, each = np.full(1, 0.01, np.float32), np.full((2, 6, 1), 0.01, np.float32)
    tensors = {"query": query, "key": key, "value": value}
    one = kernel(**tensors, key_scale=shared, value_scale=shared)
    assert (one == kernel(**tensors, key_scale=each, value_scale=each)).all()


REFUSED = {
    "an argument is missing": ({}, "quantize: input is missing: the tensor is needed; give F16 [rows, columns]"),
    "a name is wrong": ({"inputs": activations()}, "quantize: inputs: quantize has no such argument; it takes input,"),
    "a type is wrong": ({"input": activations().astype(np.float32)},
                        "quantize: input is F32: quantize takes F16; convert it to float16"),
    "a type is unknown": ({"input": activations().astype(np.float64)}, "input has type float64: cubit has no such"),
    "a rank is wrong": ({"input": np.zeros(64, np.float16)[None, None]},
                        "quantize: input has shape [1, 1, 64]: quantize takes [rows, columns]"),
    "a number contradicts a shape": ({"input": activations(), "rows": 4},
                                     "quantize: input has shape [3, 64]: quantize takes [rows, columns]; here"),
    "a number is no number": ({"input": activations(), "rows": "3"}, "rows = '3': the argument is a number"),
    "a tensor is no tensor": ({"input": [1.0]}, "input is of type list: a tensor supports DLPack"),
    "an output has another shape": ({"input": activations(), "scales": np.zeros(4, np.float32)},
                                    "quantize: scales has shape [4]: quantize takes [rows]; here rows is 3"),
    "the library refuses columns": ({"input": activations(3, 24)}, "columns = 24"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_mistakes_give_one_sentence(quantize, case):
    arguments, sentence = REFUSED[case]
    with pytest.raises(InvalidArgumentError) as caught:
        quantize(**arguments)
    assert sentence in str(caught.value)
    assert isinstance(caught.value, ValueError) and caught.value.what and caught.value.why


def test_an_output_that_cannot_be_written_is_refused(quantize):
    scales = np.zeros(ROWS, np.float32)
    scales.flags.writeable = False
    with pytest.raises(InvalidArgumentError, match="scales is read-only"):
        quantize(input=activations(), out={"scales": scales})


def test_one_out_for_two_outputs_is_refused(quantize):
    with pytest.raises(InvalidArgumentError, match="the launch writes output, scales"):
        quantize(input=activations(), out=np.zeros((ROWS, COLUMNS), np.int8))


def test_errors_of_the_library_have_their_class():
    with pytest.raises(InvalidArgumentError, match='there is no operator "gemm"'):
        cubit.get("gemm")
    with pytest.raises(cubit.errors.UnsupportedError):
        cubit.explain("w8a8_gemm:element=fp8_e4m3", "sm_75")
    assert sorted(cubit.errors.BY_STATUS) == list(range(1, 11))


def test_a_kernel_outlives_its_last_reference():
    x = activations()
    result = cubit.get("quantize")(input=x)  # the kernel object ends with the call; the library's handle is cached
    again = cubit.get("quantize")(input=x)
    assert (result["output"] == again["output"]).all()


def test_explanations_are_text_and_pictures():
    plan = cubit.explain("gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4")
    assert "gqa_decode:heads_per_kv=8" in str(plan) and "\n  " in str(plan)
    assert plan._repr_svg_().startswith("<svg") and "<table>" in plan._repr_html_()
    several = cubit.explain("w4a16_gemm")
    assert several._repr_svg_() is None and "tile_m" in several._repr_html_()


def test_a_docstring_lists_the_arguments():
    text = cubit.get("gqa_decode:heads_per_kv=8").__doc__
    assert "query: BF16 [batch, kv_heads * heads_per_kv, head_dim]" in text
    assert "softmax_scale: float" in text and "default: 1 / sqrt(head_dim)" in text


def test_a_missing_cpu_device_is_named(tmp_path):
    installed = Path(cubit.__file__).parent
    (tmp_path / "cubit" / "lib").mkdir(parents=True)
    for file in installed.glob("*.py"):
        shutil.copy(file, tmp_path / "cubit")
    shutil.copy(installed / "lib" / "libcubit.so.0", tmp_path / "cubit" / "lib")
    program = "import cubit, numpy; cubit.get('stream_copy')(source=numpy.zeros(16, numpy.uint8))"
    done = subprocess.run([sys.executable, "-c", program], env=os.environ | {"PYTHONPATH": str(tmp_path)},
                          capture_output=True, text=True)
    assert done.returncode == 1 and "install the distribution cubit-kernels-cpu" in done.stderr


def test_importing_cubit_imports_no_framework():
    names = "{'numpy', 'torch', 'jax', 'cupy', 'tvm_ffi', 'ml_dtypes'}"
    done = subprocess.run([sys.executable, "-c", f"import sys, cubit; print({names} & set(sys.modules))"],
                          capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
