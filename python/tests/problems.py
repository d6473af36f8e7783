"""Problems of libcubit_check for tests: made-up inputs of any operator, and a comparison with its reference."""

import ctypes
from pathlib import Path
from typing import Any

import numpy as np

from cubit import _library
from cubit._arrays import numpy_type
from cubit._table import FORMATS, Table

POINTER = ctypes.POINTER


class _Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("type", ctypes.c_char_p), ("rank", ctypes.c_int),
                ("shape", ctypes.c_int64 * 8), ("data", ctypes.c_void_p)]


class _Number(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_double)]


def library() -> ctypes.CDLL:
    _library.library()
    checks = ctypes.CDLL(str(Path(_library.FOLDER) / "libcubit_check.so"))
    checks.cubit_problem_input_count.restype = checks.cubit_problem_output_count.restype = ctypes.c_size_t
    return checks


class Problem:
    """Made-up data for sizes such as batch=2."""

    def __init__(self, descriptor: str, **sizes: float) -> None:
        self.checks = library()
        self.pointer = ctypes.c_void_p()
        numbers = (_Number * len(sizes))(*[_Number(name.encode(), value) for name, value in sizes.items()])
        self._check(self.checks.cubit_problem_random(descriptor.encode(), numbers, ctypes.c_size_t(len(sizes)),
                                                     ctypes.c_uint64(1), ctypes.byref(self.pointer)))
        self.inputs = self._tensors("input")
        self.outputs = self._tensors("output")

    def _check(self, status: int) -> None:
        if status:
            raise _library.last_error()

    def _tensors(self, kind: str) -> dict[str, np.ndarray]:
        found = {}
        count = getattr(self.checks, f"cubit_problem_{kind}_count")(self.pointer)
        for i in range(count):
            tensor = _Tensor()
            self._check(getattr(self.checks, f"cubit_problem_{kind}")(self.pointer, ctypes.c_size_t(i),
                                                                      ctypes.byref(tensor)))
            dtype = numpy_type(tensor.type.decode())
            array = np.zeros(tuple(tensor.shape[:tensor.rank]), dtype)
            if tensor.data and array.nbytes:
                ctypes.memmove(array.ctypes.data, tensor.data, array.nbytes)
            found[tensor.name.decode()] = array
        return found

    def numbers(self, table: Table) -> dict[str, float]:
        """The numbers of the problem's own launch that are not zero."""
        count = len(self.inputs) + len(self.outputs)
        addresses = (ctypes.c_void_p * count)(*range(256, 256 * (count + 1), 256))
        arguments, size = ctypes.c_void_p(), ctypes.c_size_t()
        self._check(self.checks.cubit_problem_arguments(self.pointer, addresses, ctypes.c_size_t(count),
                                                        ctypes.byref(arguments), ctypes.byref(size)))
        struct = ctypes.string_at(arguments, size.value)
        values = {one.name: np.frombuffer(struct, FORMATS[one.types].replace("i", "i4").replace("q", "i8").replace(
            "f", "f4"), 1, one.offset)[0].item() for one in table.numbers}
        return {name: value for name, value in values.items() if value != 0}

    def error(self, outputs: dict[str, np.ndarray]) -> tuple[float, float, str]:
        """The error at the worst place, its tolerance, and the place."""
        data: Any = (ctypes.c_void_p * len(self.outputs))(
            *[outputs[name].ctypes.data for name in self.outputs])
        error, tolerance, worst = ctypes.c_double(), ctypes.c_double(), ctypes.c_char_p()
        self._check(self.checks.cubit_problem_compare(self.pointer, data, ctypes.c_size_t(len(self.outputs)),
                                                      ctypes.byref(error), ctypes.byref(tolerance),
                                                      ctypes.byref(worst)))
        return error.value, tolerance.value, (worst.value or b"").decode()

    def __del__(self) -> None:
        self.checks.cubit_problem_release(self.pointer)
