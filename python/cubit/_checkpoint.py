"""One linear layer of a checkpoint: the operator that multiplies by the layer, its fields, and its tensors.

The formats are those that `cubit run --weights --layer` reads; docs/checkpoints describes them. `cubit run` takes the
format from the descriptor, and this reader takes it from the names, types and shapes of the tensors. Only gptq and
gptq_v2 have the same tensors: there the config's checkpoint_format decides.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from cubit._arrays import numpy_type
from cubit._safetensors import Entry, entries
from cubit.errors import InvalidArgumentError

GROUP_SIZES = (16, 32, 64, 128)
FLOATS = ("F16", "BF16")
CONFIGS = ("quantize_config.json", "quant_config.json", "config.json")


class Tensor(NamedTuple):
    """Values with their type of safetensors, because NumPy may lack the type: bits are then unsigned integers."""

    array: Any
    type: str


@dataclass
class Layer:
    """`y = x wᵀ + bias` by one launch of `operator`, which takes `tensors` and the activations."""

    operator: str
    k: int
    n: int
    fields: dict[str, str] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    permutation: Any = None  # the activation of each input feature, if the features are sorted by group

    def descriptor(self, **more: str) -> str:
        return f"{self.operator}:" + ",".join(f"{name}={value}" for name, value in (self.fields | more).items())


def read_layer(path: str, layer: str) -> Layer:
    """Reads a layer such as "model.layers.0.mlp.down_proj" from a safetensors file, an index or a checkpoint's folder.
    """
    found = entries(path)
    prefix = f"{layer}." if layer else ""
    parts = {name.removeprefix(prefix): one for name, one in found.items()
             if name.startswith(prefix) and "." not in name.removeprefix(prefix)}
    if "qweight" in parts:
        made = _words(parts, _Config(path))
    elif "weight_packed" in parts:
        made = _packed(parts)
    elif "weight" in parts:
        made = _eight_bits(parts) if "weight_scale" in parts else _dense(parts)
    else:
        raise InvalidArgumentError(f"layer {layer!r}", f"{path} has no linear layer of this name", _remedy(found))
    if "bias" in parts:
        if parts["bias"].shape != (made.n,) or parts["bias"].type not in FLOATS:
            raise parts["bias"].refuse("a bias has 16 bits and one value for each output", f"accepted: F16 [{made.n}]")
        made.fields["bias"] = "true"
        made.tensors["bias"] = _tensor(parts["bias"])
    return made


def _remedy(found: dict[str, Entry]) -> str:
    ends = (".qweight", ".weight_packed", ".weight")
    layers = [name.rpartition(".")[0] for end in ends for name in sorted(found) if name.endswith(end)]
    return f"accepted: {', '.join(layers[:2])}" + (" …" if layers[2:] else "") if layers else "give a checkpoint"


class _Config:
    """The statements of the config files about the format of words."""

    def __init__(self, path: str) -> None:
        folder = Path(path) if Path(path).is_dir() else Path(path).parent
        self._parts = [self._part(folder / name) for name in CONFIGS]

    @staticmethod
    def _part(file: Path) -> dict[str, Any]:
        try:
            whole = json.loads(file.read_text(encoding="utf-8"))
            for one in (whole, whole.get("text_config", {})):
                if isinstance(one.get("quantization_config"), dict):
                    return dict(one["quantization_config"])
            return dict(whole)
        except (OSError, ValueError, AttributeError):
            return {}

    def value(self, *names: str) -> Any:
        return next((part[name] for part in self._parts for name in names if part.get(name) is not None), None)


def _tensor(entry: Entry) -> Tensor:
    return Tensor(entry.array(), entry.type)


def _part(parts: dict[str, Entry], name: str, type_: str, shape: tuple[int, ...]) -> Entry:
    """The tensor `name`, which must have this type and shape."""
    if name not in parts:
        have = ", ".join(sorted(parts))
        raise InvalidArgumentError(f"a layer of {have}", f"has no {name}", f"give {type_} {list(shape)}")
    if parts[name].type != type_ or parts[name].shape != shape:
        raise parts[name].refuse("the shapes of the layer's other tensors give another one",
                                 f"accepted: {type_} {list(shape)}")
    return parts[name]


def _words(parts: dict[str, Entry], config: _Config) -> Layer:
    """GPTQ and AWQ: packed words with scales [groups, n]."""
    words, scales = parts["qweight"], parts.get("scales")
    if scales is None or len(scales.shape) != 2 or scales.type not in FLOATS or 0 in scales.shape:
        raise (scales or words).refuse("a layer has scales of 16 bits", "accepted: F16 or BF16 [groups, n]")
    groups, n = scales.shape
    zeros, order = parts.get("qzeros"), parts.get("g_idx")
    if words.type != "I32" or len(words.shape) != 2:
        raise words.refuse("words have 32 bits and two dimensions", "accepted: I32")
    if words.shape[1] != n:
        return _awq(parts, words.shape[0], n, groups)
    if zeros is not None and len(zeros.shape) == 2:
        bits = zeros.shape[1] * 32 // n
    elif order is not None:
        bits = words.shape[0] * 32 // max(1, order.shape[0])
    else:
        bits = config.value("bits") or 4
    if bits not in (4, 8):
        raise words.refuse(f"its layer has weights of {bits} bits", "accepted: 4 and 8 bits")
    k = words.shape[0] * 32 // bits
    layer = Layer("w4a16_gemm", k, n, {"format": _gptq_format(config) if zeros is not None else "symmetric",
                                       "bits": str(bits), "group_size": _group_size(scales, k, groups)})
    layer.tensors = {"qweight": _tensor(words), "scales": _half(scales)}
    if zeros is not None:
        layer.tensors["qzeros"] = _tensor(_part(parts, "qzeros", "I32", (groups, n * bits // 32)))
    _add_order(layer, parts, "g_idx", groups)
    if "permutation" in parts:
        layer.permutation = _part(parts, "permutation", "I32", (k,)).array()
    return layer


def _gptq_format(config: _Config) -> str:
    stated = config.value("checkpoint_format") or "gptq"
    if stated not in ("gptq", "gptq_v2"):
        raise InvalidArgumentError(f"checkpoint_format {stated!r}", "cubit does not read this layout",
                                   "accepted: gptq, gptq_v2")
    return str(stated)


def _awq(parts: dict[str, Entry], k: int, n: int, groups: int) -> Layer:
    words = _part(parts, "qweight", "I32", (k, n // 8))
    fields = {"format": "awq", "group_size": _group_size(parts["scales"], k, groups)}
    fields |= {"alignment": "4"} if n % 32 != 0 else {}
    return Layer("w4a16_gemm", k, n, fields,
                 {"qweight": _tensor(words), "scales": _half(parts["scales"]),
                  "qzeros": _tensor(_part(parts, "qzeros", "I32", (groups, n // 8)))})


def _packed(parts: dict[str, Entry]) -> Layer:
    """compressed-tensors, pack-quantized: the words of gptq_v2 or symmetric with rows and columns exchanged."""
    words = parts["weight_packed"]
    n, k = (int(one) for one in _part(parts, "weight_shape", "I64", (2,)).array())
    bits = next((one for one in (4, 8) if words.shape == (n, k * one // 32)), 0)
    if not bits or words.type != "I32":
        raise words.refuse(f"weights of [{n}, {k}] have [{n}, {k // 8}] words of 4 bits, or [{n}, {k // 4}] of 8",
                           "accepted: I32 words along k")
    scales = parts.get("weight_scale", words)
    if len(scales.shape) != 2 or scales.type not in FLOATS or scales.shape[0] != n:
        raise scales.refuse("a packed layer has scales of 16 bits", f"accepted: F16 or BF16 [{n}, groups]")
    groups, has_zeros = scales.shape[1], "weight_zero_point" in parts
    layer = Layer("w4a16_gemm", k, n, {"format": "gptq_v2" if has_zeros else "symmetric", "bits": str(bits),
                                       "group_size": _group_size(scales, k, groups)})
    layer.tensors = {"qweight": _transposed(_tensor(words)), "scales": _transposed(_half(scales))}
    if has_zeros:
        zeros = _part(parts, "weight_zero_point", "I32", (n * bits // 32, groups))
        layer.tensors["qzeros"] = _transposed(_tensor(zeros))
    _add_order(layer, parts, "weight_g_idx", groups)
    return layer


def _dense(parts: dict[str, Entry]) -> Layer:
    weight = parts["weight"]
    if len(weight.shape) != 2 or weight.type not in FLOATS:
        raise weight.refuse("the weights of a layer without scales have 16 bits", "accepted: F16 or BF16 [n, k]")
    n, k = weight.shape
    return Layer("w4a16_gemm", k, n, {"format": "dense", "element": "bf16" if weight.type == "BF16" else "fp16"},
                 {"weight": _tensor(weight)})


def _eight_bits(parts: dict[str, Entry]) -> Layer:
    """compressed-tensors, int-quantized and float-quantized."""
    weight, elements = parts["weight"], {"I8": "int8", "F8_E4M3": "fp8_e4m3"}
    if len(weight.shape) != 2 or weight.type not in elements:
        raise weight.refuse("weights with a scale have 8 bits", "accepted: I8 or F8_E4M3 [n, k]")
    for name in ("weight_zero_point", "input_zero_point"):
        if name in parts and parts[name].array().any():
            raise parts[name].refuse("cubit.torch quantises activations and reads weights without zero points",
                                     "accepted: symmetric quantisation, whose zeros are 0")
    n, k = weight.shape
    layer = Layer("w8a8_gemm", k, n, {"element": elements[weight.type]}, {"weights": _tensor(weight)})
    allowed: tuple[int, ...]
    for name, argument, allowed in (("weight_scale", "weight_scales", (n, 1)),
                                    ("input_scale", "activation_scales", (1,))):
        if name not in parts:
            continue
        scales = parts[name]
        values = _floats(scales).reshape(-1)
        if values.size not in allowed or scales.shape[1:] not in ((), (1,)) or not (values > 0).all() or (
                values == float("inf")).any():
            raise scales.refuse("scales are positive, for a layer, or for each output channel of weights",
                                f"accepted: {' or '.join(str([one]) for one in allowed)}")
        layer.tensors[argument] = Tensor(values, "F32")
        if values.size == 1:
            layer.fields["weight_scale" if name == "weight_scale" else "activation_scale"] = "tensor"
    return layer


def _group_size(scales: Entry, k: int, groups: int) -> str:
    """At most one group size gives k input features this number of groups, unless there is one group."""
    if groups == 1:
        return "all"
    for size in GROUP_SIZES:
        if -(-k // size) == groups:
            return str(size)
    raise scales.refuse(f"no group size gives k = {k} as many groups as {groups}",
                        f"accepted: groups of {', '.join(map(str, GROUP_SIZES))}, or one group")


def _add_order(layer: Layer, parts: dict[str, Entry], name: str, groups: int) -> None:
    """Adds g_idx unless it is the trivial order."""
    import numpy

    if name not in parts or groups == 1:
        return
    order = _part(parts, name, "I32", (layer.k,)).array()
    if (order == numpy.arange(layer.k) // int(layer.fields["group_size"])).all():
        return
    if order.min() < 0 or order.max() >= groups:
        raise parts[name].refuse(f"it names groups {order.min()} to {order.max()}", f"accepted: 0 to {groups - 1}")
    layer.fields["activation_order"] = "true"
    layer.tensors["g_idx"] = Tensor(order, "I32")


def _floats(entry: Entry) -> Any:
    import numpy

    if entry.type == "BF16":
        return (entry.array().view(numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)
    if entry.type not in ("F16", "F32"):
        raise entry.refuse("scales are floating-point numbers", "accepted: F32, F16, BF16")
    return entry.array().astype(numpy.float32)


def _half(scales: Entry) -> Tensor:
    """The scales in fp16, which the operator takes for every type of activations."""
    import numpy

    if scales.type == "F16":
        return _tensor(scales)
    values = _floats(scales)
    with numpy.errstate(over="ignore"):
        made = values.astype(numpy_type("F16"))
    if not (made.astype(numpy.float32) == values).all():
        raise scales.refuse("the operator takes scales in fp16", "accepted: scales that fp16 represents exactly")
    return Tensor(made, "F16")


def _transposed(tensor: Tensor) -> Tensor:
    import numpy

    return Tensor(numpy.ascontiguousarray(tensor.array.T), tensor.type)
