"""Launches on a GPU: tensors go through tvm-ffi, which knows their frameworks, to libcubit_python.

libcubit_python finds the plan of a call by shapes, strides, types and numbers. This module makes a plan for a new
combination, and a workspace for a stream that has none.
"""

import ctypes
import json
import sys
from collections.abc import Iterable
from functools import cache
from typing import Any

from cubit import _library, errors
from cubit._arrays import common_device, facts_of
from cubit._table import Table

LAUNCHED, NO_PLAN, NO_WORKSPACE, NOT_TENSOR, FAILED = 0, 1, 2, 4, 100
SMALLEST_WORKSPACE = 1 << 20


class _Plan(ctypes.Structure):
    """cubit_python_plan."""

    _fields_ = [("kernel", ctypes.c_void_p), ("device", ctypes.c_void_p), ("workspace_bytes", ctypes.c_size_t),
                ("argument_bytes", ctypes.c_size_t), ("arguments", ctypes.c_char_p)]


class _Missing(ctypes.Structure):
    """cubit_python_missing."""

    _fields_ = [("stream", ctypes.c_void_p), ("bytes", ctypes.c_size_t), ("device_id", ctypes.c_int32)]


@cache
def _native() -> tuple[ctypes.CDLL, Any]:
    """libcubit_python, and its launch function as a function of tvm-ffi."""
    try:
        import tvm_ffi
        from tvm_ffi.libinfo import find_libtvm_ffi
    except ImportError:
        raise ImportError("a launch on a GPU needs the package apache-tvm-ffi") from None
    ffi = ctypes.CDLL(str(find_libtvm_ffi()))
    _library.library()
    native = ctypes.CDLL(str(_library.FOLDER / "libcubit_python.so"))
    native.cubit_python_call_create.restype = ctypes.c_void_p
    native.cubit_python_missing_workspace.restype = ctypes.POINTER(_Missing)
    native.cubit_python_start(ctypes.cast(ffi.TVMFFIEnvGetStream, ctypes.c_void_p))
    address = ctypes.cast(native.cubit_python_launch, ctypes.c_void_p).value or 0
    function = tvm_ffi.Function.__from_extern_c__(address)
    function.release_gil = False  # a launch is shorter than giving the lock away and back
    return native, function


@cache
def architecture_of(device: str) -> str:
    described = ctypes.c_char_p()
    _library.call("cubit_device_describe", _library.device(device).pointer, ctypes.byref(described))
    return str(json.loads(described.value or b"{}")["target"])


_prepared: dict[tuple[str, str], _library.Handle] = {}


def prepared(descriptor: str, device: str) -> _library.Handle:
    """The kernel, loaded on the device. A stream of PyTorch that is being captured neither compiles nor loads one."""
    kernel = _prepared.get((descriptor, device))
    if kernel is None:
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_current_stream_capturing():
            raise errors.NotResidentError(descriptor, f"a captured launch needs a kernel that is prepared on {device}",
                                          "call prepare, or the kernel, before the capture")
        kernel = _library.kernel(descriptor, architecture_of(device))
        _library.call("cubit_kernel_prepare", kernel.pointer, _library.device(device).pointer)
        kernel = _prepared.setdefault((descriptor, device), kernel)
    return kernel


class Launcher:
    """The launches of one descriptor with the arguments of these names, in this order."""

    def __init__(self, table: Table, names: tuple[str, ...], overlap: bool = False) -> None:
        native, self.function = _native()
        self.table, self.names = table, names
        offsets = [0 if table.by_name[name].is_number else table.by_name[name].offset for name in names]
        self.handle = native.cubit_python_call_create(len(offsets), (ctypes.c_size_t * len(offsets))(*offsets),
                                                      int(overlap))
        if not self.handle:
            raise errors.InternalError(table.descriptor, "the operator has too many arguments")
        self._release = native.cubit_python_call_release

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self._release(ctypes.c_void_p(self.handle))

    def launch(self, values: Iterable[Any]) -> bool:
        """Launches; False: a value is neither a tensor nor a number."""
        outcome = self.function(self.handle, 0, *values)
        return self._resolve(outcome, values) if outcome else True

    def _resolve(self, outcome: int, values: Iterable[Any]) -> bool:
        """Does what the launch lacked, and launches again."""
        while outcome:
            if outcome == NO_PLAN:
                self._add_plan(values)
            elif outcome == NO_WORKSPACE:
                _add_workspace()
            elif outcome == NOT_TENSOR:
                return False
            elif outcome > FAILED:
                raise _library.last_error()
            else:
                common_device(self._tensors(values))
                raise self.table.reject("a tensor", "the tensors of a launch on a GPU are on the GPU, of rank 0 to 8")
            outcome = self.function(self.handle, 0, *values)
        return True

    def _tensors(self, values: Iterable[Any]) -> dict[str, Any]:
        return {name: value for name, value in zip(self.names, values, strict=True)
                if value is not None and not self.table.by_name[name].is_number}

    def _add_plan(self, values: Iterable[Any]) -> None:
        tensors = self._tensors(values)
        numbers = {name: value for name, value in zip(self.names, values, strict=True)
                   if value is not None and name not in tensors}
        self.table.check_names(tensors | numbers)
        name = common_device(tensors)
        plan = self.table.plan({one: facts_of(one, tensor) for one, tensor in tensors.items()}, numbers)
        device = _library.device(name)
        kernel = prepared(self.table.descriptor, name)
        filled = bytearray(plan.struct)
        for one in tensors:  # any address: the size of a workspace depends on which tensors are given
            offset = self.table.by_name[one].offset
            filled[offset:offset + 8] = (256).to_bytes(8, "little")
        size = _library.workspace_bytes(kernel, bytes(filled), device)
        made = _Plan(kernel.pointer, device.pointer, size, len(plan.struct), bytes(plan.struct))
        if self.function(self.handle, ctypes.addressof(made), *values) != LAUNCHED:
            raise errors.InternalError(self.table.descriptor, "the plan cannot be stored")


_workspaces: list[_library.Memory] = []  # graphs may contain their addresses


def _add_workspace() -> None:
    """Gives a stream the workspace that this thread's last launch lacked. The fill runs on a stream of its own, so that
    this works while the launch's stream is being captured."""
    native = _native()[0]
    missing = native.cubit_python_missing_workspace().contents
    device = _library.device(f"cuda:{missing.device_id}")
    memory = _library.Memory(device, max(SMALLEST_WORKSPACE, 1 << (missing.bytes - 1).bit_length()))
    stream = ctypes.c_void_p()
    _library.call("cubit_stream_create", device.pointer, ctypes.byref(stream))
    memory.zero(stream)
    _library.call("cubit_device_synchronise", device.pointer, stream)
    _library.call("cubit_stream_destroy", device.pointer, stream)
    if not native.cubit_python_set_workspace(missing.device_id, ctypes.c_void_p(missing.stream), memory.pointer,
                                             ctypes.c_size_t(memory.size)):
        raise errors.UnsupportedError("the workspaces of this process", "cubit keeps one for each of 256 streams",
                                      "reuse streams")
    _workspaces.append(memory)
