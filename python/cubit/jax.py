"""Kernels inside of functions of JAX, by XLA's custom calls, on a GPU and on the CPU device.

    attend = cubit.jax.get("gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4")
    output = jax.jit(attend)(query=query, key=key, value=value, lengths=lengths)

A call checks its arrays while JAX traces it. Tensors that an operator changes in place are results like others, because
arrays of JAX never change; a donated argument becomes such a result without a copy.
"""

import ctypes
from typing import Any

import jax
import numpy

import cubit
from cubit import _launch, _library, errors
from cubit._arrays import facts_of, numpy_type
from cubit._kernel import CPU_ARCHITECTURE, result
from cubit._table import BYTES, Facts

__all__ = ["Call", "get"]

TARGET = "cubit"


class _Kernel(ctypes.Structure):
    """cubit_jax_kernel."""

    _fields_ = [("kernel", ctypes.c_void_p), ("device", ctypes.c_void_p)]


def _resolve(descriptor: bytes, device: bytes, found: Any) -> int:
    """Makes the kernel that a call needs on a device. XLA calls this once for each descriptor and device."""
    try:
        name = device.decode()
        make = _library.kernel if name.startswith("cpu:") else _launch.prepared
        found[0] = _Kernel(make(descriptor.decode(), name).pointer, _library.device(name).pointer)
        return 0
    except Exception as error:  # no exception may leave a function that C calls
        known = error if isinstance(error, errors.Error) else errors.InternalError("cubit.jax", repr(error))
        parts = (one.encode() for one in (known.what, known.why, known.remedy))
        _library.library().cubit_set_last_error(known.status, *parts)
        return known.status


_RESOLVE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(_Kernel))(_resolve)


def _register() -> None:
    """Registers the handlers with JAX."""
    _library.library()
    native = ctypes.CDLL(str(_library.FOLDER / "libcubit_python.so"))
    native.cubit_jax_start(_RESOLVE)
    for platform in ("cpu", "CUDA"):
        handler = getattr(native, f"cubit_jax_{platform.lower()}")
        jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(handler), platform=platform)


class Call:
    """A kernel as a function of arrays of JAX. `call.__doc__` lists the arguments.

    Numbers are Python's, and constants of the traced function. An optional output is written if it is given as True.
    """

    def __init__(self, descriptor: str, cpu_architecture: str = CPU_ARCHITECTURE, overlap: bool = False) -> None:
        self._kernel = cubit.get(descriptor, cpu_architecture=cpu_architecture, overlap=overlap)
        self.descriptor, self.__doc__ = self._kernel.descriptor, self._kernel.__doc__

    def __repr__(self) -> str:
        return f"cubit.jax.get({self.descriptor!r})"

    def __call__(self, **arguments: Any) -> Any:
        """Returns the outputs and the tensors that the operator changes: one array, or a dict if there are several."""
        table = self._kernel.table
        for one in table.numbers:
            if isinstance(arguments.get(one.name), jax.core.Tracer):
                raise table.reject(f"{one.name} is traced", "the argument is a number of Python",
                                   "name it in static_argnames of jax.jit")
        tensors, numbers, wanted = self._kernel.sort_arguments(arguments)
        for name in tensors:
            if table.by_name[name].kind == "output":
                raise table.reject(f"{name} is given", "arrays of JAX never change", f"take {name} from the result")
        operands = {name: jax.numpy.asarray(one) for name, one in tensors.items()}
        facts = {name: facts_of(name, one) for name, one in operands.items()}
        plan = table.plan(facts, numbers, wanted)
        results = {name: one for name, one in facts.items() if table.by_name[name].is_written} | plan.outputs
        names = [*operands, *results]
        call = jax.ffi.ffi_call(TARGET, tuple(map(_shape, results.values())), input_output_aliases={
            list(operands).index(name): i for i, name in enumerate(results) if name in operands})
        made = call(*operands.values(), descriptor=self.descriptor, architecture=self._kernel.cpu_architecture,
                    arguments=numpy.frombuffer(bytes(plan.struct), numpy.uint8),
                    overlap=numpy.array([self._kernel.overlap], numpy.int64),
                    offsets=numpy.array([table.by_name[name].offset for name in names], numpy.int64),
                    bytes=numpy.array([_bytes(one) for one in [*facts.values(), *results.values()]], numpy.int64))
        return result(dict(zip(results, made, strict=True)))


def _shape(facts: Facts) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(facts.shape, numpy_type(facts.type))


def _bytes(facts: Facts) -> int:
    return int(numpy.prod(facts.shape, dtype=numpy.int64)) * BYTES[facts.type]


def get(descriptor: str, *, cpu_architecture: str = CPU_ARCHITECTURE, overlap: bool = False) -> Call:
    """The function that a descriptor such as "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4" names.

    `cpu_architecture` is the architecture whose code the CPU device executes for arrays in host memory. With `overlap`
    a launch may begin while the previous kernel of the stream still runs; results do not change.
    """
    return Call(descriptor, cpu_architecture, overlap)


_register()
