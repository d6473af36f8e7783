"""Operators for PyTorch: `torch.ops.cubit.<operator>`, for eager mode, torch.compile and CUDA graphs.

The schemas come from the tables of the operators. Every operator takes its descriptor first, then its tensors and
numbers by name. Operators that change tensors in place return nothing; an operator that may write several tensors
returns a list. None has a gradient, and autocast does not change the types that a descriptor states.
"""

import json
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from functools import cache, partial
from typing import Any

import torch

import cubit
from cubit import _library
from cubit._arrays import tensor_of_bits, type_of
from cubit._checkpoint import Layer, read_layer
from cubit._table import NAMES, Facts, table
from cubit.calibration import Calibration
from cubit.errors import InvalidArgumentError

__all__ = ["Calibrator", "Linear", "gqa_decode", "kernel", "kv_append", "quantize", "w4a16_linear", "w8a8_linear"]

_FIELDS = {torch.bfloat16: "bf16", torch.float16: "fp16"}
_LIBRARY = torch.library.Library("cubit", "DEF")

kernel = cache(cubit.get)


class _Operator:
    """Registers one operator of the tables with PyTorch, and launches it."""

    keyword = "from_"  # schemas may not use Python's keywords: this is the argument `from`

    def __init__(self, described: dict[str, Any]) -> None:
        self.name: str = described["name"]
        listed = described["arguments"]
        outputs = [one for one in listed if one["kind"] == "output" and not one["optional"]]
        self.is_list = len(outputs) > 1
        self.has_output = bool(outputs)
        aliases = iter("abcdefgh")
        types = {"int32": "SymInt?", "int64": "SymInt?", "float": "float?"}
        schema = []
        for one in listed:
            if one["kind"] == "output":
                continue
            kind = types.get(one["types"], "Tensor?") if one["kind"] == "number" else "Tensor?"
            kind = f"Tensor({next(aliases)}!)?" if one["kind"] == "updated" else kind
            schema.append(f"{kind} {self.keyword if one['name'] == 'from' else one['name']}=None")
        returns = "Tensor[]" if self.is_list else "Tensor" if self.has_output else "()"
        _LIBRARY.define(f"{self.name}(str descriptor, *, {', '.join(schema)}) -> {returns}",
                        tags=(torch.Tag.needs_fixed_stride_order,))
        for key in ("CUDA", "CPU"):
            _LIBRARY.impl(self.name, self.launch, key)
        torch.library.register_fake(f"cubit::{self.name}", self.fake, lib=_LIBRARY)

    def _named(self, given: dict[str, Any]) -> dict[str, Any]:
        named = {name: value for name, value in given.items() if value is not None}
        return named if self.keyword not in named else {"from": named.pop(self.keyword), **named}

    def launch(self, descriptor: str, **given: Any) -> Any:
        return self._returned(kernel(descriptor)(**self._named(given)))

    def _returned(self, made: Any) -> Any:
        if not self.has_output:
            return None
        if self.is_list:
            return list(made.values()) if isinstance(made, dict) else [made]
        return made

    def fake(self, descriptor: str, **given: Any) -> Any:
        """The shapes and types of the outputs, without data."""
        about = table(_canonical(descriptor))
        named = self._named(given)
        about.check_names(named)
        tensors = {name: one for name, one in named.items() if isinstance(one, torch.Tensor)}
        facts = {name: Facts(tuple(one.shape), type_of(name, one)) for name, one in tensors.items()}
        numbers = {name: one for name, one in named.items() if name not in tensors}
        planned = about.plan(facts, numbers, is_symbolic=True).outputs
        example = next(iter(tensors.values()))
        return self._returned({name: example.new_empty(one.shape, dtype=getattr(torch, NAMES[one.type]))
                               for name, one in planned.items()} if self.is_list or len(planned) > 1 else
                              next((example.new_empty(one.shape, dtype=getattr(torch, NAMES[one.type]))
                                    for one in planned.values()), None))


_canonical = cache(partial(_library.text, "cubit_descriptor_canonical"))
_OPERATORS = {one["name"]: _Operator(one) for one in json.loads(_library.text("cubit_operators"))}


def _call(operator: str) -> Callable[..., Any]:
    call: Callable[..., Any] = getattr(torch.ops.cubit, operator).default
    return call


def gqa_decode(descriptor: str, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
               lengths: torch.Tensor | None = None, **others: Any) -> torch.Tensor:
    """Decode attention; `others` are further arguments of the operator gqa_decode by name."""
    return _call("gqa_decode")(descriptor, query=query, key=key, value=value, lengths=lengths, **others)


def kv_append(descriptor: str, key: torch.Tensor, value: torch.Tensor, key_cache: torch.Tensor,
              value_cache: torch.Tensor, **others: Any) -> None:
    """Quantises new keys and values into the caches, in place."""
    _call("kv_append")(descriptor, key=key, value=value, key_cache=key_cache, value_cache=value_cache, **others)


def quantize(x: torch.Tensor, output: str = "int8") -> tuple[torch.Tensor, torch.Tensor]:
    """Quantises the last dimension of `x` with one scale for each row. Returns codes and scales."""
    codes, scales = _call("quantize")(f"quantize:output={output},input={_field(x)}", input=_rows(x))
    return codes.view(x.shape), scales.view(x.shape[:-1])


def w4a16_linear(x: torch.Tensor, qweight: torch.Tensor, scales: torch.Tensor, qzeros: torch.Tensor | None = None,
                 bias: torch.Tensor | None = None, g_idx: torch.Tensor | None = None, *, format: str = "gptq",
                 group_size: int = 128, bits: int = 4) -> torch.Tensor:
    """A linear layer with packed 4-bit or 8-bit weights as a GPTQ or AWQ checkpoint stores them."""
    fields = [f"format={format}", f"bits={bits}", f"group_size={group_size}", f"element={_field(x)}"]
    fields += ["bias=true"] if bias is not None else []
    fields += ["activation_order=true"] if g_idx is not None else []
    made = _call("w4a16_gemm")("w4a16_gemm:" + ",".join(fields), activations=_rows(x), qweight=qweight, scales=scales,
                               qzeros=qzeros, bias=bias, g_idx=g_idx)
    return made.view(*x.shape[:-1], made.shape[-1])


def w8a8_linear(x: torch.Tensor, weight: torch.Tensor, weight_scales: torch.Tensor,
                bias: torch.Tensor | None = None) -> torch.Tensor:
    """A linear layer with 8-bit weights [n, k], int8 or float8_e4m3fn, and one scale for each row of the weights. The
    rows of `x` are quantised to the type of the weights."""
    element = "int8" if weight.dtype == torch.int8 else "fp8_e4m3"
    codes, scales = quantize(_rows(x), element)
    fields = [f"element={element}", f"output={_field(x)}"] + (["bias=true"] if bias is not None else [])
    made = _call("w8a8_gemm")("w8a8_gemm:" + ",".join(fields), activations=codes, weights=weight,
                              activation_scales=scales, weight_scales=weight_scales, bias=bias)[0]
    return made.view(*x.shape[:-1], made.shape[-1])


class Linear(torch.nn.Module):
    """A linear layer whose weights have the layout of a checkpoint. Buffers have the names of the operator's arguments.

    Layers of 8-bit weights quantise their activations: by the layer's scale if it has one, else by one for each row.
    """

    def __init__(self, layer: Layer, device: str | torch.device = "cuda", dtype: torch.dtype = torch.float16) -> None:
        super().__init__()
        self.in_features, self.out_features = layer.k, layer.n
        self.operator, element = layer.operator, _element(dtype)
        if layer.fields.get("format") == "dense" and layer.fields["element"] != element:
            raise InvalidArgumentError(f"dtype={dtype}", f"the layer's weights are {layer.fields['element']}",
                                       "give the type of the weights")
        self.descriptor = layer.descriptor(**{"element" if layer.operator == "w4a16_gemm" else "output": element})
        how = "tensor" if "activation_scales" in layer.tensors else "token"
        self.quantiser = f"quantize:output={layer.fields.get('element')},input={element},scale={how}"
        for name, (array, type_) in layer.tensors.items():
            self.register_buffer(name, tensor_of_bits(array, type_).to(device, dtype if name == "bias" else None))
        permutation = None if layer.permutation is None else torch.from_numpy(layer.permutation).to(device)
        self.register_buffer("permutation", permutation)

    @classmethod
    def from_checkpoint(cls, folder: str, layer: str, device: str | torch.device = "cuda",
                        dtype: torch.dtype = torch.float16) -> "Linear":
        """Reads a layer such as "model.layers.0.mlp.down_proj" from a folder, an index or a safetensors file.

        The names and shapes of the layer's tensors tell the format: AWQ, GPTQ, compressed-tensors, or dense. `dtype` is
        the type of inputs and outputs.
        """
        return cls(read_layer(folder, layer), device, dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        given = {name: one for name, one in self._buffers.items() if name != "permutation"}
        given["activations"] = _rows(x) if self.permutation is None else _rows(x).index_select(1, self.permutation)
        if self.operator == "w8a8_gemm":
            scale = given.get("activation_scales")
            made = _call("quantize")(self.quantiser, input=given["activations"], scale=scale)
            given["activations"], given["activation_scales"] = made if scale is None else (made[0], scale)
        y = _call(self.operator)(self.descriptor, **given)
        return (y[0] if self.operator == "w8a8_gemm" else y).view(*x.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, {self.descriptor}"


class Calibrator(Calibration):
    """Collects statistics of the inputs of a model's linear layers while the model runs in eager mode.

        with Calibrator(model) as calibrator:
            model(batch)
        calibrator.write_scales("scales.safetensors", method="mse")

    `layers` are patterns with * and ? of the names of modules. Inputs on a GPU are copied to the host one layer at a
    time, so a run waits for the GPU in every layer.
    """

    def __init__(self, model: torch.nn.Module, layers: Iterable[str] = ("*",), threads: int = 0) -> None:
        super().__init__(threads)
        patterns = list(layers)
        chosen = {name: module for name, module in model.named_modules()
                  if isinstance(module, torch.nn.Linear | Linear) and any(fnmatchcase(name, one) for one in patterns)}
        if not chosen:
            raise InvalidArgumentError(f"layers={patterns}", "the model has no linear layer that matches",
                                       "give patterns of the names of model.named_modules()")
        self._hooks = [module.register_forward_pre_hook(partial(self._hook, name), with_kwargs=True)
                       for name, module in chosen.items()]

    def _hook(self, name: str, module: torch.nn.Module, inputs: tuple[torch.Tensor, ...],
              named: dict[str, torch.Tensor]) -> None:
        given = inputs[0] if inputs else next(iter(named.values()))  # a linear layer has one input
        self.add(name, given.detach().cpu())

    def close(self) -> None:
        """Removes the hooks from the model; the statistics stay."""
        for hook in self._hooks:
            hook.remove()

    def __enter__(self) -> "Calibrator":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _element(dtype: torch.dtype) -> str:
    if dtype not in _FIELDS:
        raise InvalidArgumentError(f"dtype={dtype}", "a layer takes float16 and bfloat16", "give one of them")
    return _FIELDS[dtype]


def _field(x: torch.Tensor) -> str:
    if x.dtype not in _FIELDS:
        raise InvalidArgumentError(f"x is {x.dtype}", "the function takes float16 and bfloat16", "convert x")
    return _FIELDS[x.dtype]


def _rows(x: torch.Tensor) -> torch.Tensor:
    return x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
