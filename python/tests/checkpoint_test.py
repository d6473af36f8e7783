"""Layers of checkpoints: every format is recognised, and one launch multiplies by the layer's weights."""

import json

import ml_dtypes
import numpy as np
import pytest

import cubit
from checkpoints import GROUP, K, N, Weights, awq, compressed, eight_bits, gptq, save
from cubit._checkpoint import read_layer
from cubit.errors import InvalidArgumentError

LAYER = "model.layers.0.mlp.down_proj"


def write(folder, tensors, config=None, layer=LAYER):
    save(folder / "model.safetensors", {f"{layer}.{name}": one for name, one in tensors.items()})
    (folder / "config.json").write_text(json.dumps({"quantization_config": config or {}}))
    return str(folder)


def launched(layer, activations, architecture="sm_80", **more):
    """The layer's output. One tile instead of a set of kernels keeps the test short."""
    tensors = {name: one.array for name, one in layer.tensors.items()}
    descriptor = layer.descriptor(**{"tile_m": "8", "tile_n": "32"} | more)
    return cubit.get(descriptor, cpu_architecture=architecture)(activations=activations, **tensors)


def error(got, expected):
    return np.linalg.norm(got.astype(np.float64) - expected) / np.linalg.norm(expected)


def activations(dtype=np.float16):
    return np.random.default_rng(7).standard_normal((3, K)).astype(dtype)


def w4_cases():
    """Pairs of a layer in one layout and the weights that it stands for."""
    plain, middle, eight, mixed = Weights(), Weights(middle=True), Weights(8), Weights(ordered=False)
    without = {name: one for name, one in gptq(middle).items() if name != "qzeros"}
    yield "gptq", gptq(plain), {}, plain, "format=gptq,bits=4,group_size=32"
    yield "gptq_v2", gptq(plain, 0), {"checkpoint_format": "gptq_v2"}, plain, "format=gptq_v2,bits=4,group_size=32"
    yield "symmetric", without, {"bits": 4}, middle, "format=symmetric,bits=4,group_size=32"
    yield "gptq_8", gptq(eight), {}, eight, "format=gptq,bits=8,group_size=32"
    yield "order", gptq(mixed), {}, mixed, "format=gptq,bits=4,group_size=32,activation_order=true"
    yield "awq", awq(plain), {"quant_method": "awq"}, plain, "format=awq,group_size=32"
    yield "packed", compressed(middle, True), {}, middle, "format=symmetric,bits=4,group_size=32"
    yield "packed_zeros", compressed(plain, False), {}, plain, "format=gptq_v2,bits=4,group_size=32"
    yield "packed_8", compressed(eight, False), {}, eight, "format=gptq_v2,bits=8,group_size=32"


@pytest.mark.parametrize("name, tensors, config, weights, fields", list(w4_cases()), ids=[one[0] for one in w4_cases()])
def test_packed_words_are_recognised(tmp_path, name, tensors, config, weights, fields):
    layer = read_layer(write(tmp_path, tensors, config), LAYER)
    assert (layer.descriptor(), layer.k, layer.n) == ("w4a16_gemm:" + fields, K, N)
    x = activations()
    assert error(launched(layer, x), x.astype(np.float64) @ weights.dense().T) < 2e-3


def test_a_bias_and_activations_in_bf16(tmp_path):
    weights, bias = Weights(), np.arange(N).astype(ml_dtypes.bfloat16)
    layer = read_layer(write(tmp_path, awq(weights) | {"bias": bias}), LAYER)
    x = activations(ml_dtypes.bfloat16)
    expected = x.astype(np.float64) @ weights.dense().T + bias.astype(np.float64)
    assert error(launched(layer, x, element="bf16"), expected) < 5e-3


def test_features_that_are_sorted_by_group(tmp_path):
    weights = Weights()
    order = np.random.default_rng(0).permutation(K).astype(np.int32)
    layer = read_layer(write(tmp_path, gptq(weights) | {"permutation": order}), LAYER)
    x = activations()
    expected = x[:, order].astype(np.float64) @ weights.dense().T
    assert error(launched(layer, np.ascontiguousarray(x[:, layer.permutation])), expected) < 2e-3


@pytest.mark.parametrize("dtype, element", [(np.float16, "fp16"), (ml_dtypes.bfloat16, "bf16")])
def test_dense_weights(tmp_path, dtype, element):
    weight = np.random.default_rng(3).standard_normal((N, K)).astype(dtype)
    layer = read_layer(write(tmp_path, {"weight": weight}), LAYER)
    assert layer.descriptor() == f"w4a16_gemm:format=dense,element={element}"
    x = activations(dtype)
    expected = x.astype(np.float64) @ weight.astype(np.float64).T
    assert error(launched(layer, x, "sm_90a", tile_m="16", tile_n="256"), expected) < 5e-3


@pytest.mark.parametrize("element, type_, architecture", [(np.int8, "int8", "sm_80"),
                                                         (ml_dtypes.float8_e4m3fn, "fp8_e4m3", "sm_89")])
@pytest.mark.parametrize("static", [False, True])
def test_weights_of_8_bits(tmp_path, element, type_, architecture, static):
    tensors, weight = eight_bits(element, static)
    layer = read_layer(write(tmp_path, tensors), LAYER)
    scales = "weight_scale=tensor,activation_scale=tensor" if static else ""
    assert layer.descriptor() == f"w8a8_gemm:element={type_}" + ("," + scales if static else "")
    x = activations()
    how = "tensor" if static else "token"
    given = {"scale": layer.tensors.pop("activation_scales").array} if static else {}
    made = cubit.get(f"quantize:output={type_},scale={how}", cpu_architecture=architecture)(input=x, **given)
    codes = made if static else made["output"]
    tensors = {name: one.array for name, one in layer.tensors.items()}
    tensors["activation_scales"] = given.get("scale") if static else made["scales"]
    y = cubit.get(layer.descriptor(tile_m="8"), cpu_architecture=architecture)(activations=codes, **tensors)
    expected = (codes.astype(np.float64) * tensors["activation_scales"].reshape(-1, 1)) @ weight.T
    assert error(y, expected) < 2e-3


def test_an_index_names_the_files(tmp_path):
    tensors = gptq(Weights())
    files = {"qweight": "model-1.safetensors"} | dict.fromkeys(("scales", "qzeros", "g_idx"), "model-2.safetensors")
    for file in set(files.values()):
        save(tmp_path / file, {f"{LAYER}.{name}": one for name, one in tensors.items() if files[name] == file})
    index = {"weight_map": {f"{LAYER}.{name}": file for name, file in files.items()}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert set(read_layer(str(tmp_path), LAYER).tensors) == {"qweight", "scales", "qzeros"}
    with pytest.raises(InvalidArgumentError, match=r"no linear layer of this name; accepted: model\.layers\.0"):
        read_layer(str(tmp_path), "lm_head")
    save(tmp_path / "model-2.safetensors", {"other": tensors["scales"]})
    with pytest.raises(InvalidArgumentError, match="although the index names it; give files that belong together"):
        read_layer(str(tmp_path), LAYER)
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../a.safetensors"}}')
    with pytest.raises(InvalidArgumentError, match="not the name of a safetensors file beside the index"):
        read_layer(str(tmp_path), LAYER)


def wrong_layers():
    words, eight = gptq(Weights()), eight_bits(np.int8, False)[0]
    yield words | {"scales": words["scales"][:, :8].copy()}, {}, "qweight'? I32 .*: the shapes of the layer's other"
    yield words | {"scales": np.ones((5, N), np.float16)}, {}, "no group size gives k = 96 as many groups as 5"
    yield {"qweight": words["qweight"]}, {}, "a layer has scales of 16 bits"
    yield words, {"checkpoint_format": "marlin"}, "checkpoint_format 'marlin': .*; accepted: gptq, gptq_v2"
    yield words | {"qzeros": words["qzeros"][:, :4].copy()}, {}, "its layer has weights of 2 bits"
    yield words | {"g_idx": words["g_idx"] + 3}, {}, "it names groups 3 to 5; accepted: 0 to 2"
    yield words | {"bias": np.ones(3, np.float16)}, {}, r"a bias has 16 bits and one value for each output"
    yield {"weight": np.ones((N, K), np.float32)}, {}, "the weights of a layer without scales have 16 bits"
    yield eight | {"weight_scale": -eight["weight_scale"]}, {}, "scales are positive"
    yield eight | {"weight_scale": np.ones((N, 3), np.float32)}, {}, "scales are positive, for a layer, or for each"
    yield eight | {"input_zero_point": np.ones(1, np.int8)}, {}, "without zero points"
    yield compressed(Weights(), True) | {"weight_shape": np.array([N, 2 * K])}, {}, "words along k"
    scales = {"weight_scale": np.full((N, K // GROUP), 1e-30, np.float32).astype(ml_dtypes.bfloat16)}
    yield compressed(Weights(), True) | scales, {}, "the operator takes scales in fp16"


@pytest.mark.parametrize("tensors, config, sentence", list(wrong_layers()))
def test_other_layers_are_refused(tmp_path, tensors, config, sentence):
    with pytest.raises(InvalidArgumentError, match=sentence):
        read_layer(write(tmp_path, tensors, config), LAYER)


def test_damaged_files_are_refused(tmp_path):
    file = tmp_path / "model.safetensors"
    folder = write(tmp_path, gptq(Weights()))
    whole = file.read_bytes()
    for damaged, sentence in ((whole[:-1], "does not hold it at the bytes"), (whole[:5], "its header does not fit"),
                              (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull gets the file"),
                              (whole[:8] + b"[" + whole[9:], "the header is not one of safetensors"),
                              (whole.replace(b'"I32"', b'"I16"'), "does not hold it at the bytes")):
        file.write_bytes(damaged)
        with pytest.raises(InvalidArgumentError, match=sentence):
            read_layer(folder, LAYER)
    file.unlink()
    with pytest.raises(InvalidArgumentError, match="holds neither"):
        read_layer(folder, LAYER)
