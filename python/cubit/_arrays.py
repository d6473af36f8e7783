"""Tensors of any framework: their facts, and new ones. No framework is imported here before the caller has it."""

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from cubit._table import BYTES, NAMES, TYPES, Facts
from cubit.errors import InvalidArgumentError

JAX = ("jax", "jaxlib")
CUDA_TYPES = (2, 13)  # kDLCUDA and kDLCUDAManaged


def type_of(name: str, tensor: Any) -> str:
    """The type of safetensors."""
    spelled = str(tensor.dtype).removeprefix("torch.")
    if spelled not in TYPES:
        raise InvalidArgumentError(f"{name} has type {spelled}", "cubit has no such type", f"give {', '.join(TYPES)}")
    return TYPES[spelled]


def facts_of(name: str, tensor: Any) -> Facts:
    type_ = type_of(name, tensor)
    strides = getattr(tensor, "stride", None)
    if callable(strides):  # PyTorch counts elements
        return Facts(tuple(tensor.shape), type_, tuple(strides()))
    counted = getattr(tensor, "strides", None)  # NumPy and CuPy count bytes; JAX has no strides
    return Facts(tuple(tensor.shape), type_, counted and tuple(one // BYTES[type_] for one in counted))


def device_of(name: str, tensor: Any) -> str:
    """ "cpu" or "cuda:0"."""
    try:
        kind, index = tensor.__dlpack_device__()
    except (AttributeError, TypeError):
        raise InvalidArgumentError(f"{name} is of type {type(tensor).__name__}", "a tensor supports DLPack",
                                   "give an array of NumPy, CuPy or JAX, or a tensor of PyTorch") from None
    return f"cuda:{index}" if kind in CUDA_TYPES else "cpu"


def refuse_jax(arguments: Iterable[tuple[str, Any]]) -> None:
    """JAX has no stream that a launch could follow, and its arrays never change. A traced array has no values yet."""
    for name, value in arguments:
        if type(value).__module__.partition(".")[0] not in JAX:
            continue
        is_traced = not hasattr(value, "__dlpack_device__")
        if is_traced or device_of(name, value) != "cpu":
            kind = "a traced array of JAX" if is_traced else "an array of JAX on a GPU"
            raise InvalidArgumentError(f"{name} is {kind}", "a launch cannot follow the order of JAX",
                                       "call cubit.jax.get(descriptor) instead")


def common_device(tensors: Mapping[str, Any]) -> str:
    """The device of all tensors."""
    devices = {name: device_of(name, tensor) for name, tensor in tensors.items()}
    first = next(iter(devices.items()), ("", "cpu"))
    for name, device in devices.items():
        if device != first[1]:
            raise InvalidArgumentError(f"{name} is on {device}", f"{first[0]} is on {first[1]}",
                                       "give tensors of one device")
    return first[1]


def new_like(example: Any, facts: Facts) -> Any:
    """A new tensor of the framework and on the device of `example`."""
    framework = type(example).__module__.partition(".")[0]
    shape, name = tuple(facts.shape), NAMES[facts.type]
    if framework == "torch":
        return example.new_empty(shape, dtype=getattr(sys.modules["torch"], name))
    if framework == "cupy":
        with example.device:
            return sys.modules["cupy"].empty(shape, dtype=numpy_type(facts.type))
    raise InvalidArgumentError(f"tensors of {framework} on a GPU", "cubit allocates outputs for PyTorch and CuPy",
                               "give the outputs by out=")


def to_numpy(tensor: Any) -> Any:
    """A view of a tensor in host memory. NumPy has no bfloat16 of PyTorch, whose bits become uint16."""
    import numpy

    if type(tensor).__module__.partition(".")[0] != "torch":
        return numpy.asarray(tensor)
    torch = sys.modules["torch"]
    words = {torch.bfloat16: torch.uint16, torch.float8_e4m3fn: torch.uint8, torch.float8_e5m2: torch.uint8}
    return tensor.detach().view(words.get(tensor.dtype, tensor.dtype)).numpy()


def from_numpy(example: Any, array: Any, type_: str) -> Any:
    """The array as a tensor of the framework of `example`."""
    framework = type(example).__module__.partition(".")[0]
    if framework == "torch":
        return tensor_of_bits(array, type_)
    return sys.modules["jax"].numpy.asarray(array) if framework in JAX else array


def tensor_of_bits(array: Any, type_: str) -> Any:
    """The array as a tensor of PyTorch, which shares its memory. NumPy may lack `type_`, the type of the values."""
    torch = sys.modules["torch"]
    bits = array.view(f"u{BYTES[type_]}") if type_ in ("BF16", "F8_E4M3", "F8_E5M2") else array
    return torch.from_numpy(bits).view(getattr(torch, NAMES[type_]))


def numpy_type(type_: str) -> Any:
    """The dtype of NumPy; with ml_dtypes also of bfloat16 and float8, whose bits are otherwise integers."""
    import numpy

    try:
        return numpy.dtype(NAMES[type_])
    except TypeError:
        pass
    try:
        import ml_dtypes
    except ImportError:
        return numpy.dtype("uint16" if BYTES[type_] == 2 else "uint8")
    return numpy.dtype(getattr(ml_dtypes, NAMES[type_]))
