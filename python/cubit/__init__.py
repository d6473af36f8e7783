"""cubit generates kernels for low-bit attention and matrix products in exactly the shape you ask for.

    kernel = cubit.get("gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4")
    output = kernel(query=query, key=key, value=value, lengths=lengths)

Every operator also has a function that takes the fields of the descriptor and returns the same kernel:
`cubit.gqa_decode(heads_per_kv=8, kv="int4_rows", groups=4)`. Tensors are those of NumPy, PyTorch or CuPy,
or arrays of JAX in host memory.
`cubit.torch` has operators for torch.compile, and `cubit.jax` has functions for jax.jit.
"""

import json
from collections.abc import Callable
from typing import Any

from cubit import errors
from cubit._explain import Explanation, explain
from cubit._kernel import Kernel, get
from cubit._library import text as _text
from cubit.errors import Error

__all__ = ["Error", "Explanation", "Kernel", "devices", "errors", "explain", "get", "operators"]


def operators() -> list[str]:
    """The names of all operators."""
    return [one["name"] for one in json.loads(_text("cubit_operators"))]


def devices() -> list[str]:
    """The devices that this machine can use: "cuda:0" and so on, and "cpu"."""
    found = json.loads(_text("cubit_devices"))
    usable = [one["name"] for one in found["devices"] if "trouble" not in one]
    return usable + ([] if found["cpu"]["trouble"] else ["cpu"])


def __getattr__(name: str) -> Callable[..., Kernel]:
    """The function of an operator, which takes the fields of a descriptor and returns the kernel."""
    if name.startswith("_") or name not in operators():
        raise AttributeError(f"module 'cubit' has no attribute {name!r}")

    def kernel(**fields: Any) -> Kernel:
        words = {field: str(value).lower() if isinstance(value, bool) else value for field, value in fields.items()}
        return get(name + (":" if words else "") + ",".join(f"{field}={word}" for field, word in words.items()))

    kernel.__name__ = kernel.__qualname__ = name
    return kernel
