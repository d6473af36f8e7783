"""cubit's C interface through ctypes: the functions and structs that the benchmarks need.

The structs repeat <cubit/cubit.h> and the argument headers of two operators. `Library.check_arguments` compares an
argument struct with the table that the loaded library describes. A library of another version is therefore refused
before it reads a struct that it would misunderstand.
"""

import ctypes
import json

COMPILER_UNAVAILABLE = 5
ZEROED_WORKSPACE_BYTES = 16384  # the counters at the start of a workspace


class CubitError(Exception):
    """A call that failed. `status` is a cubit_status."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Failure(ctypes.Structure):
    """cubit_error"""

    _fields_ = [("status", ctypes.c_int), *((name, ctypes.c_char_p) for name in ("message", "what", "why", "remedy"))]


class Number(ctypes.Structure):
    """cubit_number"""

    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_double)]


class Launch(ctypes.Structure):
    """cubit_launch"""

    _fields_ = [("size", ctypes.c_size_t), ("device", ctypes.c_void_p), ("stream", ctypes.c_void_p),
                ("workspace", ctypes.c_void_p), ("workspace_bytes", ctypes.c_size_t), ("overlap", ctypes.c_int)]


class GemmArguments(ctypes.Structure):
    """cubit_w4a16_gemm_arguments"""

    operator = "w4a16_gemm"
    _fields_ = [("size", ctypes.c_size_t),
                *((name, ctypes.c_void_p) for name in ("activations", "qweight", "qzeros", "scales", "g_idx", "bias",
                                                       "residual", "output")),
                *((name, ctypes.c_int64) for name in ("activation_stride", "residual_stride", "output_stride")),
                *((name, ctypes.c_int32) for name in ("m", "n", "k", "decomposition", "splits", "groups")),
                ("weight", ctypes.c_void_p), ("weight_stride", ctypes.c_int64),
                *((f"{name}_{layer}", ctypes.c_void_p) for layer in (2, 3)
                  for name in ("qweight", "qzeros", "scales", "bias")),
                ("n_2", ctypes.c_int32), ("n_3", ctypes.c_int32)]


class StreamReadArguments(ctypes.Structure):
    """cubit_stream_read_arguments"""

    operator = "stream_read"
    slots = 4096  # elements of checksums
    _fields_ = [("size", ctypes.c_size_t), ("source", ctypes.c_void_p), ("bytes", ctypes.c_int64),
                ("checksums", ctypes.c_void_p)]


def sized(struct, **members):
    """A struct whose member `size` is set."""
    return struct(size=ctypes.sizeof(struct), **members)


class Library:
    """An opened libcubit with one engine. The engine lives as long as the process."""

    def __init__(self, path):
        self._library = ctypes.CDLL(path)
        self._library.cubit_last_error.restype = ctypes.POINTER(Failure)
        self._engine = ctypes.c_void_p()
        self.call("cubit_engine_create", None, ctypes.byref(self._engine))

    def call(self, function, *arguments):
        status = getattr(self._library, function)(*arguments)
        if status != 0:
            message = self._library.cubit_last_error().contents.message
            raise CubitError(status, message.decode() if message else f"{function} failed with status {status}")

    def text(self, function, *arguments):
        """The string that `function` returns through its last parameter."""
        text = ctypes.c_char_p()
        self.call(function, *arguments, ctypes.byref(text))
        return text.value.decode()

    def devices(self):
        return json.loads(self.text("cubit_devices"))["devices"]

    def check_arguments(self, struct):
        """Raises CubitError if `struct` differs from the operator's struct in this library."""
        operators = {operator["name"]: operator for operator in json.loads(self.text("cubit_operators"))}
        operator = operators[struct.operator]
        if operator["struct"]["bytes"] != ctypes.sizeof(struct):
            raise CubitError(0, f"{operator['struct']['name']} has {operator['struct']['bytes']} bytes in this library "
                                f"and {ctypes.sizeof(struct)} in {__name__}.py; use the library of this source tree")
        for argument in operator["arguments"]:
            member = getattr(struct, argument["member"], None)
            if member is None or (member.offset, member.size) != (argument["offset"], argument["bytes"]):
                raise CubitError(0, f"{operator['struct']['name']}: member {argument['member']} is at byte "
                                    f"{argument['offset']} in this library and not in {__name__}.py; use the library "
                                    "of this source tree")

    def suggest(self, descriptor, sizes, device):
        """The descriptor with the performance fields that cubit suggests. `device` is an entry of devices()."""
        numbers = (Number * len(sizes))(*(Number(name.encode(), value) for name, value in sizes.items()))
        return self.text("cubit_suggest", descriptor.encode(), numbers, ctypes.c_size_t(len(sizes)),
                         device["architecture"].encode(), ctypes.c_int(device["multiprocessors"]),
                         ctypes.c_int64(device["memory_bytes_per_second"]))

    def kernel(self, descriptor, architecture):
        handle = ctypes.c_void_p()
        self.call("cubit_engine_get", self._engine, descriptor.encode(), architecture.encode(), ctypes.byref(handle))
        return Kernel(self, handle)


class Kernel:
    """A kernel that the engine returned. A kernel lives as long as the process, because graphs may contain its
    launches. `device` is a cubit_device, or None for the device of the current CUDA context."""

    def __init__(self, library, handle):
        self._library = library
        self._handle = handle

    def describe(self):
        return json.loads(self._library.text("cubit_kernel_describe", self._handle))

    def prepare(self, device=None):
        self._library.call("cubit_kernel_prepare", self._handle, device)

    def workspace_bytes(self, arguments, device=None):
        count = ctypes.c_size_t()
        self._library.call("cubit_kernel_workspace", self._handle, ctypes.byref(arguments), device, ctypes.byref(count))
        return count.value

    def launch(self, arguments, launch):
        self._library.call("cubit_kernel_launch", self._handle, ctypes.byref(arguments), ctypes.byref(launch))
