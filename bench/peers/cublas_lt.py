"""cuBLASLt's products of signed bytes through ctypes, which torch does not offer: s8 outputs with one scale.

torch loads the library. Constants are those of cublasLt.h and library_types.h.
"""

import ctypes
from pathlib import Path

COMPUTE_32I = 72
R_32F, R_8I, R_32I = 0, 3, 10
DESC_TRANSA, DESC_TRANSB = 3, 4
OP_N, OP_T = 0, 1
PREFERENCE_MAX_WORKSPACE_BYTES = 1
CANDIDATES = 8


class Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t"""

    _fields_ = [("algorithm", ctypes.c_uint64 * 8), ("workspace_bytes", ctypes.c_size_t), ("state", ctypes.c_int),
                ("waves", ctypes.c_float), ("reserved", ctypes.c_int * 4)]


def library_path():
    """The cuBLASLt that this process has loaded."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        if "libcublasLt.so" in line:
            return line.split()[-1]
    raise ImportError("torch has not loaded cuBLASLt")


class Product:
    """output [m, n] = activations [m, k] · weights [n, k] transposed; s32 outputs, or s8 with one scale."""

    def __init__(self, torch, m, n, k, has_bytes):
        self._torch = torch
        self._library = ctypes.CDLL(library_path())
        self._workspace = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
        if has_bytes:
            self._alpha, self._beta = ctypes.c_float(1e-4), ctypes.c_float(0)
        else:
            self._alpha, self._beta = ctypes.c_int32(1), ctypes.c_int32(0)
        self._handle = self._new("cublasLtCreate")
        self._product = self._new("cublasLtMatmulDescCreate", COMPUTE_32I, R_32F if has_bytes else R_32I)
        for attribute, value in ((DESC_TRANSA, OP_T), (DESC_TRANSB, OP_N)):
            self._set("cublasLtMatmulDescSetAttribute", self._product, attribute, ctypes.c_int32(value))
        layout = lambda kind, rows, columns: self._new("cublasLtMatrixLayoutCreate", kind, ctypes.c_uint64(rows),
                                                       ctypes.c_uint64(columns), ctypes.c_int64(rows))
        self._weights, self._activations = layout(R_8I, k, n), layout(R_8I, k, m)
        self._output = layout(R_8I if has_bytes else R_32I, n, m)
        self.algorithms = self._find()

    def _call(self, name, *arguments):
        status = getattr(self._library, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name} failed with status {status}")

    def _new(self, name, *arguments):
        made = ctypes.c_void_p()
        self._call(name, ctypes.byref(made), *arguments)
        return made

    def _set(self, name, owner, attribute, value):
        self._call(name, owner, attribute, ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value)))

    def _find(self):
        preference = self._new("cublasLtMatmulPreferenceCreate")
        self._set("cublasLtMatmulPreferenceSetAttribute", preference, PREFERENCE_MAX_WORKSPACE_BYTES,
                  ctypes.c_size_t(len(self._workspace)))
        found, count = (Heuristic * CANDIDATES)(), ctypes.c_int()
        self._call("cublasLtMatmulAlgoGetHeuristic", self._handle, self._product, self._weights, self._activations,
                   self._output, self._output, preference, CANDIDATES, found, ctypes.byref(count))
        return [found[i] for i in range(count.value) if found[i].state == 0]

    def launch(self, algorithm, activations, weights, output):
        """Launches on torch's current stream."""
        address = lambda tensor: ctypes.c_void_p(tensor.data_ptr())
        self._call("cublasLtMatmul", self._handle, self._product, ctypes.byref(self._alpha), address(weights),
                   self._weights, address(activations), self._activations, ctypes.byref(self._beta), address(output),
                   self._output, address(output), self._output, algorithm.algorithm, address(self._workspace),
                   ctypes.c_size_t(len(self._workspace)),
                   ctypes.c_void_p(self._torch.cuda.current_stream().cuda_stream))
