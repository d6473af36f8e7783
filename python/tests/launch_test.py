"""The C library behind launches on a GPU, without a GPU: its plans name a kernel of the CPU device, and its tensors say
that they are on a GPU but lie in the memory of the CPU device."""

import ctypes

import numpy as np
import pytest

from cubit import _library
from cubit._launch import FAILED, LAUNCHED, NO_PLAN, NO_WORKSPACE, NOT_TENSOR, _Missing, _Plan
from cubit._table import Facts, table

ARCHITECTURE = "cpu:sm_80"
NOT_CUDA, TOO_LARGE = 3, 5
NONE, INT, FLOAT, DL_TENSOR, STRING, TENSOR = 0, 1, 3, 7, 8, 70
CPU, CUDA = 1, 2
BYTES = 64


class DlTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("rank", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class Any(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("padding", ctypes.c_uint32), ("value", ctypes.c_int64)]


@pytest.fixture(scope="module")
def native():
    _library.library()
    library = ctypes.CDLL(str(_library.FOLDER / "libcubit_python.so"))
    library.cubit_python_call_create.restype = ctypes.c_void_p
    library.cubit_python_missing_workspace.restype = ctypes.POINTER(_Missing)
    stream = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32)(lambda kind, index: None)
    library.cubit_python_start(stream)
    library.stream = stream  # must live as long as the library uses it
    return library


class Copy:
    """Calls of stream_copy with its tensors and its number."""

    def __init__(self, native):
        self.native = native
        self.table = table("stream_copy")
        self.device = _library.device(ARCHITECTURE)
        self.kernel = _library.kernel("stream_copy", ARCHITECTURE)
        offsets = [self.table.by_name[name].offset for name in ("source", "destination")] + [0]
        self.call = ctypes.c_void_p(native.cubit_python_call_create(3, (ctypes.c_size_t * 3)(*offsets), 0))
        self.memory = [_library.Memory(self.device, 2 * BYTES) for _ in range(2)]
        self.alive = []

    def tensor(self, which, shape=(BYTES,), device=CUDA, strides=None, offset=0):
        sizes = (ctypes.c_int64 * len(shape))(*shape)
        steps = (ctypes.c_int64 * len(shape))(*strides) if strides else None
        made = DlTensor(self.memory[which].address, device, 0, len(shape), 1, 8, 1, sizes, steps, offset)
        self.alive += [made, sizes, steps]
        return Any(DL_TENSOR, 0, ctypes.addressof(made))

    def __call__(self, *values, plan=None):
        of_plan = ctypes.addressof(plan) if plan else 0
        arguments = (Any * (2 + len(values)))(Any(INT, 0, self.call.value), Any(INT, 0, of_plan), *values)
        result = Any()
        assert self.native.cubit_python_launch(None, arguments, len(arguments), ctypes.byref(result)) == 0
        assert result.type == INT
        return result.value

    def plan(self, workspace=0):
        struct = bytes(self.table.plan({name: Facts((BYTES,), "U8") for name in ("source", "destination")}, {}).struct)
        return _Plan(self.kernel.pointer, self.device.pointer, workspace, len(struct), struct)

    def move(self, function, which, array):
        ends = (self.memory[which].pointer, ctypes.c_void_p(array.ctypes.data))
        _library.call(function, self.device.pointer, *(ends if function == "cubit_device_upload" else ends[::-1]),
                      ctypes.c_size_t(array.nbytes), None)


@pytest.fixture
def copy(native):
    made = Copy(native)
    yield made
    native.cubit_python_call_release(made.call)


def test_a_call_launches_by_its_plan(copy):
    values = copy.tensor(0), copy.tensor(1, offset=BYTES), Any(NONE)
    assert copy(*values) == NO_PLAN
    assert copy(*values, plan=copy.plan()) == LAUNCHED
    source = np.arange(BYTES, dtype=np.uint8)
    copy.move("cubit_device_upload", 0, source)
    copy.move("cubit_device_upload", 1, np.zeros(2 * BYTES, np.uint8))
    assert copy(*values) == LAUNCHED
    result = np.ones(2 * BYTES, np.uint8)
    copy.move("cubit_device_download", 1, result)
    assert (result[BYTES:] == source).all() and (result[:BYTES] == 0).all(), "the byte offset counts"


def test_a_plan_is_for_equal_shapes_strides_and_numbers(copy):
    first = copy.tensor(0), copy.tensor(1), Any(NONE)
    assert copy(*first, plan=copy.plan()) == LAUNCHED
    assert copy(copy.tensor(0), copy.tensor(1), Any(NONE)) == LAUNCHED
    others = [(copy.tensor(0, (32,)), copy.tensor(1), Any(NONE)), (copy.tensor(0, (8, 8)), copy.tensor(1), Any(NONE)),
              (copy.tensor(0, strides=(1,)), copy.tensor(1), Any(NONE)), (Any(NONE), copy.tensor(1), Any(NONE)),
              (copy.tensor(0), copy.tensor(1), Any(INT, 0, 64)), (copy.tensor(0), copy.tensor(1), Any(FLOAT, 0, 64))]
    for values in others:
        assert copy(*values) == NO_PLAN
    for values in others:
        assert copy(*values, plan=copy.plan()) == LAUNCHED
    assert copy(*first) == LAUNCHED


def test_other_values_are_refused(copy):
    good = copy.tensor(1)
    assert copy(Any(STRING), good, Any(NONE)) == NOT_TENSOR
    assert copy(Any(INT, 0, 3), good, Any(NONE)) == NOT_TENSOR
    assert copy(good, good, good) == NOT_TENSOR, "a tensor where a number belongs"
    assert copy(copy.tensor(0, device=CPU), good, Any(NONE)) == NOT_CUDA
    assert copy(copy.tensor(0, (1,) * 9), good, Any(NONE)) == TOO_LARGE
    assert copy(good, good) == TOO_LARGE


def test_an_error_of_the_library_comes_back(copy):
    values = copy.tensor(0, offset=1), copy.tensor(1), Any(NONE)  # not aligned
    assert copy(*values, plan=copy.plan()) == LAUNCHED
    assert copy(*values) == FAILED + 1
    assert "source" in str(_library.last_error()) and "16" in str(_library.last_error())


def test_a_stream_without_workspace_says_what_it_lacks(copy):
    values = copy.tensor(0), copy.tensor(1), Any(NONE)
    assert copy(*values, plan=copy.plan(workspace=1 << 20)) == LAUNCHED
    assert copy(*values) == NO_WORKSPACE
    missing = copy.native.cubit_python_missing_workspace().contents
    assert (missing.bytes, missing.device_id, missing.stream) == (1 << 20, 0, None)
    memory = _library.Memory(copy.device, 1 << 20)
    memory.zero()
    assert copy.native.cubit_python_set_workspace(0, None, memory.pointer, ctypes.c_size_t(memory.size)) == 1
    assert copy(*values) == LAUNCHED


def test_a_launch_with_an_error_of_the_device_gives_up_its_workspace(copy):
    values = copy.tensor(0), copy.tensor(1), Any(NONE)
    assert copy(*values, plan=copy.plan(workspace=1 << 20)) == LAUNCHED
    memory = _library.Memory(copy.device, 1 << 20)
    memory.zero()
    assert copy.native.cubit_python_set_workspace(0, None, memory.pointer, ctypes.c_size_t(memory.size)) == 1
    assert copy(*values) == LAUNCHED
    beyond = copy.tensor(0, offset=2 * BYTES), copy.tensor(1), Any(NONE)
    assert copy(*beyond) == FAILED + 7, "the copy reads beyond its memory"
    assert copy(*values) == NO_WORKSPACE


def test_a_table_of_many_plans_starts_again(copy):
    plan = copy.plan()
    source, destination = copy.tensor(0), copy.tensor(1)
    for number in range(4096):
        assert copy(source, destination, Any(INT, 0, number), plan=plan) == LAUNCHED
    assert copy(source, destination, Any(INT, 0, 0)) == LAUNCHED
    assert copy(source, destination, Any(INT, 0, 4096), plan=plan) == LAUNCHED
    assert copy(source, destination, Any(INT, 0, 0)) == NO_PLAN
    assert copy(source, destination, Any(INT, 0, 4096)) == LAUNCHED


def test_tvm_ffi_has_the_layout_that_the_library_declares(copy):
    tvm_ffi = pytest.importorskip("tvm_ffi")
    address = ctypes.cast(copy.native.cubit_python_launch, ctypes.c_void_p).value
    function = tvm_ffi.Function.__from_extern_c__(address)
    host = tvm_ffi.from_dlpack(np.zeros(BYTES, np.uint8))
    assert function(copy.call.value, 0, host, host, None) == NOT_CUDA, "the device of a tensor is read where it is"
    assert function(copy.call.value, 0, "text", host, None) == NOT_TENSOR
    assert function(copy.call.value, 0, None, None, None) == NO_PLAN
