"""What guards a launch on a GPU, tested without a GPU: shared objects, values that are no tensor, arrays of JAX,
captures and workspaces. Stand-ins for PyTorch, JAX and CuPy say that their arrays are on a GPU."""

import contextlib
import ctypes
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

import cubit
from cubit import _arrays, _cpu, _launch, _library
from cubit._table import Facts, table
from cubit.errors import CompilerUnavailableError, InvalidArgumentError, NotResidentError, UnsupportedError


class Tensor:
    """A tensor of a framework's stand-in."""

    is_cuda = True

    def __init__(self, shape, dtype, kind=2, value=0.0):
        self.shape, self.dtype, self.kind, self.value = tuple(shape), dtype, kind, value

    def __dlpack_device__(self):
        return self.kind, 0

    def __float__(self):
        return self.value

    def new_empty(self, shape, dtype):
        return type(self)(shape, dtype)


class TorchTensor(Tensor):
    __module__ = "torch"


class JaxArray(Tensor):
    __module__ = "jaxlib._jax"


TORCH = SimpleNamespace(bfloat16="bfloat16", float16="float16", float32="float32", int8="int8")


@pytest.fixture
def launched(monkeypatch):
    """The arguments of each launch. As tvm-ffi does, the stand-in takes tensors and plain numbers alone."""
    calls = []

    class Launcher:
        def __init__(self, about, names, overlap):
            self.about, self.names, self.handle = about, names, 0

        def function(self, *values):
            return 1

        def launch(self, values):
            calls.append(dict(zip(self.names, values, strict=True)))
            return all(type(value) in (int, float) if self.about.by_name[name].is_number else isinstance(value, Tensor)
                       for name, value in calls[-1].items())

    monkeypatch.setitem(sys.modules, "torch", TORCH)
    monkeypatch.setattr(_launch, "Launcher", Launcher)
    return calls


def test_first_calls_of_several_threads_share_one_object(monkeypatch):
    create = _library.Handle.__init__

    def slow(self, *arguments):
        time.sleep(0.05)
        create(self, *arguments)

    monkeypatch.setattr(_library.Handle, "__init__", slow)
    start, found = threading.Barrier(6), []

    def work():
        start.wait()
        found.append((_library.device("cpu:sm_86"), _library.kernel("stream_copy", "cpu:sm_86")))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6 and len({tuple(map(id, pair)) for pair in found}) == 1


@pytest.fixture
def nvidia(tmp_path, monkeypatch):
    """A folder of NVIDIA's wheels with files of these names, and no variable that names a place."""
    for name in ("cuda_nvrtc/lib/libnvrtc.so.12", "cu13/lib/libnvrtc.so.13", "cu13/lib/libnvrtc-builtins.so.13.0"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for name in ("CUBIT_NVRTC", "CUBIT_NVRTC_DIR", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    found = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(_library.importlib.util, "find_spec", lambda name: found)
    monkeypatch.setattr(_library, "_driver_major", lambda: 13)
    return [str(tmp_path / name).encode() for name in ("cu13/lib/libnvrtc.so.13", "cuda_nvrtc/lib/libnvrtc.so.12")]


def test_wheels_of_nvrtc_are_those_that_the_driver_takes(nvidia, monkeypatch):
    assert _library.nvrtc_of_wheels() == nvidia
    monkeypatch.setattr(_library, "_driver_major", lambda: 12)
    assert _library.nvrtc_of_wheels() == nvidia[1:]
    monkeypatch.setenv("CUDA_HOME", "/toolkit")
    assert _library.nvrtc_of_wheels() == []


def test_a_wheel_of_nvrtc_is_used_where_nothing_else_is_found(nvidia, monkeypatch):
    asked, usable = [], {None}

    def kernel_of(nvrtc, descriptor, architecture):
        asked.append(nvrtc)
        if nvrtc not in usable:
            raise CompilerUnavailableError("NVRTC", f"{nvrtc} is not usable")
        return descriptor

    monkeypatch.setattr(_library, "engine", lambda nvrtc=None: nvrtc)
    monkeypatch.setattr(_library, "kernel_of", kernel_of)
    assert _library.kernel("first", "sm_80") == "first" and asked == [None]
    usable = {nvidia[1]}
    assert _library.kernel("second", "sm_80") == "second" and asked == [None, None, *nvidia]
    usable = set()
    with pytest.raises(CompilerUnavailableError, match="None is not usable"):
        _library.kernel("third", "sm_80")


def norm():
    return cubit.get("norm_quantize:output=unquantised,input=fp16"), {
        "input": TorchTensor((3, 64), "float16"), "weight": TorchTensor((64,), "float16")}


def test_a_number_that_is_a_tensor_becomes_a_number(launched):
    kernel, tensors = norm()
    for value in (1e-6, 1e-5):
        made = kernel(**tensors, epsilon=TorchTensor((), "float32", value=value))
        assert made.shape == (3, 64) and launched[-1]["epsilon"] == value


def test_an_equal_number_of_another_type_is_another_call(launched):
    kernel, tensors = norm()
    kernel(**tensors, epsilon=1.0)
    with pytest.raises(InvalidArgumentError, match="epsilon = True: the argument is a number"):
        kernel(**tensors, epsilon=True)


def test_a_value_that_nothing_can_launch_is_refused(launched, monkeypatch):
    kernel, tensors = norm()
    monkeypatch.setattr(type(kernel), "_launch", lambda self, arguments: False)
    with pytest.raises(InvalidArgumentError, match="an argument: it is neither a tensor nor a number"):
        kernel(**tensors, epsilon=1e-6)


@pytest.mark.parametrize("value", [50.9, float("inf"), float("nan")])
def test_a_fraction_is_no_whole_number(value):
    x = np.zeros((3, 64), np.float16)
    with pytest.raises(InvalidArgumentError, match=f"rows = {value}: the argument is a whole number; give int32"):
        cubit.get("quantize")(input=x, rows=value)
    with pytest.raises(InvalidArgumentError, match=f"rows = {value}: the argument is a whole number"):
        table("quantize").plan({"input": Facts((3, 64), "F16")}, {"rows": value})


def test_whole_floats_are_whole_numbers():
    about = table("quantize")
    assert about.whole("rows", 3.0) == 3 and about.whole("rows", np.int64(2**60 + 1)) == 2**60 + 1


def test_a_float_that_is_too_large_is_refused():
    zeros = np.zeros((2, 8, 128), np.uint16), np.zeros((2, 4, 1, 128), np.uint16)
    with pytest.raises(InvalidArgumentError, match=r"softmax_scale = 1e\+39: it does not fit into float"):
        cubit.get("gqa_decode:heads_per_kv=8")(query=zeros[0], key=zeros[1], value=zeros[1], softmax_scale=1e39)


def test_arrays_of_jax_on_a_gpu_are_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace())
    kernel = cubit.get("quantize")
    with pytest.raises(InvalidArgumentError, match=r"input is an array of JAX on a GPU: .*; call cubit\.jax\.get"):
        kernel(input=JaxArray((3, 64), "float16"))
    with pytest.raises(InvalidArgumentError, match="source is an array of JAX on a GPU"):
        _arrays.refuse_jax([("scale", 1.0), ("in_host_memory", JaxArray((3,), "int8", kind=1)),
                            ("source", JaxArray((3,), "int8"))])


def test_outputs_of_cupy_are_on_the_device_of_the_inputs(monkeypatch):
    entered = []

    @contextlib.contextmanager
    def device():
        entered.append("entered")
        yield
        entered.append("left")

    class Array(Tensor):
        __module__ = "cupy"
        device = property(lambda self: device())

    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(empty=lambda shape, dtype: (shape, dtype, *entered)))
    made = _arrays.new_like(Array((3,), "int8"), Facts((4,), "I8"))
    assert made == ((4,), np.dtype("int8"), "entered") and entered == ["entered", "left"]


def test_a_capture_neither_compiles_nor_loads(monkeypatch):
    is_capturing = [True]
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(
        cuda=SimpleNamespace(is_current_stream_capturing=lambda: is_capturing[0])))
    with pytest.raises(NotResidentError, match="call prepare, or the kernel, before the capture"):
        _launch.prepared("stream_copy", "cpu:sm_86")
    is_capturing[0] = False
    monkeypatch.setattr(_launch, "architecture_of", lambda device: device)
    kernel = _launch.prepared("stream_copy", "cpu:sm_86")
    is_capturing[0] = True
    assert _launch.prepared("stream_copy", "cpu:sm_86") is kernel


def test_a_workspace_that_finds_no_place_is_freed(monkeypatch):
    missing = _launch._Missing(None, 1000, 0)
    native = SimpleNamespace(cubit_python_missing_workspace=lambda: ctypes.pointer(missing),
                             cubit_python_set_workspace=lambda *arguments: 0)
    device = _library.device("cpu:sm_80")
    monkeypatch.setattr(_launch, "_native", lambda: (native, None))
    monkeypatch.setattr(_library, "device", lambda name: device)
    held = len(_launch._workspaces)
    with pytest.raises(UnsupportedError, match="256 streams"):
        _launch._add_workspace()
    assert len(_launch._workspaces) == held


def test_the_cpu_device_checks_the_type_that_the_caller_gave(monkeypatch):
    monkeypatch.setattr(_cpu, "to_numpy", lambda tensor: np.zeros(tensor.shape, np.uint8))
    codes = TorchTensor((16, 128), "float8_e5m2", kind=1)
    with pytest.raises(InvalidArgumentError, match=r"weights is F8_E5M2: .* takes F8_E4M3"):
        _cpu.launch(table("w8a8_gemm:element=fp8_e4m3"), "cpu:sm_89",
                    {"activations": TorchTensor((3, 128), "float8_e4m3fn", kind=1), "weights": codes,
                     "activation_scales": TorchTensor((3,), "float32", kind=1),
                     "weight_scales": TorchTensor((16,), "float32", kind=1)}, {}, frozenset())
