"""libcubit through ctypes: everything but the hot path of launches on a GPU.

libcubit lies in the folder `lib` of this package. libcubit itself looks for libcubit_cpu, the CPU device, in its own
folder, where the distribution cubit-kernels-cpu puts it. Where libcubit finds
no NVRTC, that of NVIDIA's wheel is used.
"""

import ctypes
import importlib.util
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from cubit import errors

FOLDER = Path(__file__).parent / "lib"
T = TypeVar("T")


class _Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char_p), ("what", ctypes.c_char_p),
                ("why", ctypes.c_char_p), ("remedy", ctypes.c_char_p)]


class _EngineOptions(ctypes.Structure):
    """The first members of cubit_engine_options; the library takes the missing ones as zero."""

    _fields_ = [("size", ctypes.c_size_t), ("cache_dir", ctypes.c_char_p), ("nvrtc_path", ctypes.c_char_p)]


class Launch(ctypes.Structure):
    """cubit_launch."""

    _fields_ = [("size", ctypes.c_size_t), ("device", ctypes.c_void_p), ("stream", ctypes.c_void_p),
                ("workspace", ctypes.c_void_p), ("workspace_bytes", ctypes.c_size_t), ("overlap", ctypes.c_int)]


def once(make: Callable[..., T]) -> Callable[..., T]:
    """Makes one object for each combination of arguments. functools.cache is not enough: when several threads make the
    first call, each thread gets an object of its own, and C code keeps the addresses of these objects."""
    made: dict[tuple[Any, ...], T] = {}
    locks: dict[tuple[Any, ...], threading.Lock] = {}

    def get(*key: Any) -> T:
        found = made.get(key)
        if found is None:
            with locks.setdefault(key, threading.Lock()):
                found = made.get(key)
                if found is None:
                    found = made[key] = make(*key)
        return found

    return get


@cache
def library() -> ctypes.CDLL:
    file = next(iter(sorted(FOLDER.glob("libcubit.so.*"), key=lambda path: len(path.name))), None)
    if file is None:
        raise ImportError(f"{FOLDER} has no libcubit.so: the package cubit-kernels is not installed completely")
    loaded = ctypes.CDLL(str(file))
    loaded.cubit_last_error.restype = ctypes.POINTER(_Error)
    return loaded


def last_error() -> errors.Error:
    """The exception of this thread's last failure."""
    found = library().cubit_last_error().contents
    kind = errors.BY_STATUS.get(found.status, errors.InternalError)
    return kind(*(part.decode(errors="replace") for part in (found.what, found.why, found.remedy)))


def call(name: str, *arguments: Any) -> None:
    """Calls a function that returns a cubit_status."""
    if getattr(library(), name)(*arguments):
        raise last_error()


def text(name: str, *arguments: str) -> str:
    """Calls a function whose last parameter receives a text."""
    result = ctypes.c_char_p()
    call(name, *(one.encode() for one in arguments), ctypes.byref(result))
    return (result.value or b"").decode()


class Handle:
    """An object of the library. The library's release function runs when Python no longer uses the object."""

    def __init__(self, create: str, release: str, *arguments: Any) -> None:
        self.pointer = ctypes.c_void_p()
        self._release: Callable[[ctypes.c_void_p], None] = getattr(library(), release)
        call(create, *arguments, ctypes.byref(self.pointer))

    def __del__(self) -> None:
        if getattr(self, "pointer", None):
            self._release(self.pointer)


def nvrtc_of_wheels() -> list[bytes]:
    """The NVRTC libraries of NVIDIA's wheels that the driver takes, newest first. None if the user names a place."""
    if any(os.environ.get(name) for name in ("CUBIT_NVRTC", "CUBIT_NVRTC_DIR", "CUDA_HOME", "CUDA_PATH")):
        return []
    spec = importlib.util.find_spec("nvidia")
    folders = (spec.submodule_search_locations or ()) if spec else ()
    files = [file for folder in folders for file in Path(folder).glob("*/lib/libnvrtc.so.1[0-9]")]
    usable = [file for file in files if int(file.name.rpartition(".")[2]) <= _driver_major()]
    return [str(file).encode() for file in sorted(usable, key=lambda file: (file.name, str(file)), reverse=True)]


def _driver_major() -> int:
    """The major version of CUDA that the driver takes; without a driver nothing limits it."""
    version = ctypes.c_int()
    try:
        failed = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except OSError:
        return 99
    return 99 if failed else version.value // 1000


@once
def engine(nvrtc: bytes | None = None) -> Handle:
    """The engine of this process that compiles with this NVRTC; None: the one that libcubit finds. It has the usual
    cache folder and the options of the environment."""
    options = _EngineOptions(ctypes.sizeof(_EngineOptions), None, nvrtc)
    return Handle("cubit_engine_create", "cubit_engine_release", ctypes.byref(options))


@once
def device(name: str) -> Handle:
    """An open device, "cuda:0" or "cpu:sm_80". Devices stay open until the process ends."""
    try:
        return Handle("cubit_device_open", "cubit_device_release", name.encode())
    except errors.Error as error:
        if name.startswith("cpu:") and "libcubit_cpu" in error.why:
            raise type(error)(error.what, error.why, "install the distribution cubit-kernels-cpu") from None
        raise


@once
def kernel(descriptor: str, architecture: str) -> Handle:
    """The kernel of a descriptor for an architecture, "sm_90a" or "cpu:sm_80"."""
    try:
        return kernel_of(engine(), descriptor, architecture)
    except errors.CompilerUnavailableError:
        for file in nvrtc_of_wheels():
            with suppress(errors.CompilerUnavailableError):  # a wheel may be older than cubit needs
                return kernel_of(engine(file), descriptor, architecture)
        raise


def kernel_of(from_engine: Handle, descriptor: str, architecture: str) -> Handle:
    return Handle("cubit_engine_get", "cubit_kernel_release", from_engine.pointer, descriptor.encode(),
                  architecture.encode())


def workspace_bytes(kernel_handle: Handle, arguments: bytes, device_handle: Handle) -> int:
    needed = ctypes.c_size_t()
    call("cubit_kernel_workspace", kernel_handle.pointer, arguments, device_handle.pointer, ctypes.byref(needed))
    return needed.value


class Memory:
    """Device memory that is freed with this object."""

    def __init__(self, device_handle: Handle, size: int) -> None:
        self.device, self.size, self.pointer = device_handle, size, ctypes.c_void_p()
        call("cubit_device_allocate", device_handle.pointer, ctypes.c_size_t(size), ctypes.byref(self.pointer))

    @property
    def address(self) -> int:
        return self.pointer.value or 0

    def zero(self, stream: ctypes.c_void_p | None = None) -> None:
        call("cubit_device_fill_zero", self.device.pointer, self.pointer, ctypes.c_size_t(self.size), stream)

    def __del__(self) -> None:
        if self.pointer:
            library().cubit_device_free(self.device.pointer, self.pointer)
