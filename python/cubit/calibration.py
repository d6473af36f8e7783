"""Calibration of activations for INT8 and FP8, from arrays in memory. libcubit_calibrate collects the statistics.

    calibration = cubit.calibration.Calibration()
    for batch in batches:
        calibration.add("model.layers.0.mlp.down_proj", batch)
    calibration.write_scales("scales.safetensors", method="mse")

`cubit.torch.Calibrator` adds the inputs of a model's layers while the model runs.
"""

import ctypes
import json
import os
import threading
from functools import cache
from typing import Any

from cubit import _library
from cubit._arrays import to_numpy, type_of

__all__ = ["Calibration"]


class _Choice(ctypes.Structure):
    """cubit_python_choice."""

    _fields_ = [("method", ctypes.c_char_p), ("format", ctypes.c_char_p), ("percentile", ctypes.c_double)]


@cache
def _native() -> ctypes.CDLL:
    _library.library()
    return ctypes.CDLL(str(_library.FOLDER / "libcubit_python_calibrate.so"))


class Calibration:
    """Statistics of the activations of layers, which any thread may add to. No batch is kept or written to a file."""

    def __init__(self, threads: int = 0) -> None:
        self._threads = threads or os.cpu_count() or 1
        self._lock = threading.Lock()
        self._pointer = ctypes.c_void_p()
        self._call("create", ctypes.byref(self._pointer))

    def __del__(self) -> None:
        if getattr(self, "_pointer", None):
            _native().cubit_python_calibration_release(self._pointer)

    def add(self, layer: str, activations: Any) -> None:
        """Adds one batch that `layer` receives: an array in host memory whose last dimension counts channels."""
        import numpy

        array = numpy.ascontiguousarray(to_numpy(activations))
        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        with self._lock:
            self._call("add", self._pointer, layer.encode(), type_of(layer, activations).encode(),
                       ctypes.c_size_t(array.ndim), shape, ctypes.c_void_p(array.ctypes.data),
                       ctypes.c_size_t(array.nbytes), self._threads)

    def ranges(self, method: str = "mse", format: str = "int8", percentile: float = 99.99) -> dict[str, dict[str, Any]]:
        """The range of each layer: low, high, scale, zero_point, the share of clipped values, and the error.

        `method` is minmax, percentile, entropy or mse, and `format` is int8, int8_asymmetric or e4m3.
        """
        text = ctypes.c_char_p()
        with self._lock:
            self._call("ranges", self._pointer, _choice(method, format, percentile), ctypes.byref(text))
            found: dict[str, dict[str, Any]] = json.loads(text.value or b"{}")
        return found

    def write_scales(self, path: str | os.PathLike[str], method: str = "mse", format: str = "int8",
                     percentile: float = 99.99) -> None:
        """Writes the scales of all layers to a safetensors file with the names of compressed-tensors."""
        with self._lock:
            self._call("write_scales", self._pointer, _choice(method, format, percentile), os.fsencode(path))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the statistics to a file, which `cubit calibrate --merge` reads."""
        with self._lock:
            self._call("save", self._pointer, os.fsencode(path))

    @staticmethod
    def _call(name: str, *arguments: Any) -> None:
        if getattr(_native(), f"cubit_python_calibration_{name}")(*arguments):
            raise _library.last_error()


def _choice(method: str, format: str, percentile: float) -> Any:
    return ctypes.byref(_Choice(method.encode(), format.encode(), percentile))
