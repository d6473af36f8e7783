"""Launches on the CPU device: NumPy arrays are copied into the device's memory and back."""

import ctypes
from typing import Any

from cubit import _library
from cubit._arrays import from_numpy, numpy_type, to_numpy, type_of
from cubit._table import Facts, Table


def launch(table: Table, architecture: str, tensors: dict[str, Any], numbers: dict[str, float],
           wanted: frozenset[str]) -> dict[str, Any]:
    """Returns the outputs by name. Arrays that are written are changed in place."""
    import numpy

    arrays = {name: to_numpy(tensor) for name, tensor in tensors.items()}
    facts = {name: Facts(array.shape, type_of(name, tensors[name])) for name, array in arrays.items()}
    plan = table.plan(facts, numbers, wanted)
    outputs = {name: arrays[name] if name in arrays else numpy.empty(one.shape, numpy_type(one.type))
               for name, one in plan.outputs.items()}
    written = {name: arrays[name] for name in arrays if table.by_name[name].is_written} | outputs
    for name, array in written.items():
        if not array.flags.writeable:
            raise table.reject(f"{name} is read-only", "the launch writes it", "give a writable array")
    device = _library.device(architecture)
    kernel = _library.kernel(table.descriptor, architecture)
    memory: dict[str, _library.Memory] = {}
    for name, array in (arrays | outputs).items():
        memory[name] = _library.Memory(device, array.nbytes)
        offset = table.by_name[name].offset
        plan.struct[offset:offset + 8] = memory[name].address.to_bytes(8, "little")
        if name in arrays:
            _copy("cubit_device_upload", memory[name], numpy.ascontiguousarray(array))
    struct = bytes(plan.struct)
    workspace = _library.Memory(device, _library.workspace_bytes(kernel, struct, device))
    workspace.zero()
    how = _library.Launch(ctypes.sizeof(_library.Launch), device.pointer, None, workspace.pointer, workspace.size, 0)
    _library.call("cubit_kernel_launch", kernel.pointer, struct, ctypes.byref(how))
    for name, array in written.items():
        result = numpy.empty(array.shape, array.dtype)
        _copy("cubit_device_download", memory[name], result)
        array[...] = result
    example = next(iter(tensors.values()))
    return {name: tensors[name] if name in tensors else from_numpy(example, array, plan.outputs[name].type)
            for name, array in outputs.items()}


def _copy(function: str, memory: _library.Memory, array: Any) -> None:
    """Copies between the device's memory and a contiguous array; the CPU device's copies are complete on return."""
    ends = (memory.pointer, ctypes.c_void_p(array.ctypes.data))
    target, source = ends if function == "cubit_device_upload" else ends[::-1]
    _library.call(function, memory.device.pointer, target, source, ctypes.c_size_t(array.nbytes), None)
