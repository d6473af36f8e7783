"""Kernels: get() and the callable that it returns."""

import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from cubit import _cpu, _launch, _library
from cubit._arrays import common_device, facts_of, new_like, refuse_jax
from cubit._table import NAMES, Facts, Table, table
from cubit.errors import InvalidArgumentError

CPU_ARCHITECTURE = "sm_80"
MOST_SHAPES = 4096
PLAIN_NUMBERS = (int, float, type(None))


Makers: TypeAlias = dict[str, Callable[[Any], Any] | None]


class Kernel:
    """A kernel belongs to one descriptor. A call launches the kernel, and `kernel.__doc__` lists the arguments.

    The tensors decide where the kernel runs: on the GPU that holds them, in the order of the current stream, or, for
    tensors in host memory, on the CPU device. The code for a GPU is made at the first call there, or by `prepare`.
    """

    def __init__(self, descriptor: str, cpu_architecture: str = CPU_ARCHITECTURE, overlap: bool = False) -> None:
        self.descriptor = _library.text("cubit_descriptor_canonical", descriptor)
        self.cpu_architecture = "cpu:" + cpu_architecture.removeprefix("cpu:")
        self.overlap = overlap
        self.table: Table = table(self.descriptor)
        self.__doc__ = self.table.docstring()
        self._needed_outputs = frozenset(one.name for one in self.table.outputs if not one.optional)
        self._first = next(one.name for one in self.table.tensors if not one.optional)
        self._out = next(iter(self._needed_outputs)) if len(self._needed_outputs) == 1 else ""
        self._launchers: dict[tuple[str, ...], _launch.Launcher] = {}
        self._shapes: dict[Any, Makers] = {}

    def __repr__(self) -> str:
        return f"cubit.get({self.descriptor!r})"

    def prepare(self, device: str = "cuda:0") -> "Kernel":
        """Makes the kernel for a device and loads it there, so that the first call does not compile."""
        if device.startswith("cpu"):
            _library.kernel(self.descriptor, self.cpu_architecture)
            return self
        _launch.prepared(self.descriptor, device)
        return self

    def __call__(self, *, out: Any = None, **arguments: Any) -> Any:
        """Launches the kernel and returns its output: one tensor, or a dict if the launch writes several.

        `out` is the tensor to write, or a dict of them by name; cubit allocates the outputs that are not given. An
        optional output is written if it is given as a tensor or as True: `lse=True`.
        """
        if out is not None:
            if isinstance(out, dict):
                arguments.update(out)
                out = result(out)
            else:
                arguments[self._out or self._one_output()] = out
        if "jax" in sys.modules:
            refuse_jax(arguments.items())
        launcher = self._launchers.get(tuple(arguments))  # the hot path: nothing is called but tvm-ffi
        try:
            if launcher is not None and not launcher.function(launcher.handle, 0, *arguments.values()):
                return self._given(arguments) if out is None else out
        except Exception:  # an array that tvm-ffi does not take, such as one of ml_dtypes, or a mistake: see below
            launcher = None
        first: Any = arguments.get(self._first)
        if getattr(first, "is_cuda", False) is not True:  # PyTorch's tensor on a GPU, without a question to DLPack
            return self._call_slowly(arguments)
        if self._needed_outputs <= arguments.keys():
            return self._given(arguments) if self._launch(arguments) else self._call_slowly(arguments)
        kind: Any = type(first)
        key = tuple([(name, value.shape, value.dtype) if isinstance(value, kind) else (name, type(value), value)
                     for name, value in arguments.items()])
        try:
            made = self._shapes.get(key)
        except TypeError:  # a list, for example, which is no tensor
            return self._call_slowly(arguments)
        if made is None:
            if any(type(arguments.get(one.name, 0)) not in PLAIN_NUMBERS for one in self.table.numbers):
                return self._call_slowly(arguments)  # the sizes may depend on a value that the key does not have
            made = self._plan_outputs(key, arguments)
        outputs = {name: arguments[name] if new is None else new(first) for name, new in made.items()}
        arguments.update(outputs)
        return result(outputs) if self._launch(arguments) else self._call_slowly(arguments)

    def positional(self, *names: str) -> Callable[..., None]:
        """A function that takes the arguments of these names, outputs included, by position: the fastest call on a GPU.

            attend = kernel.positional("query", "key", "value", "output")
            attend(query, key, value, output)
        """
        launcher = self._launcher_of(dict.fromkeys(names, 0))
        function, handle = launcher.function, launcher.handle

        def launch(*values: Any) -> None:
            if "jax" in sys.modules:
                refuse_jax(zip(names, values, strict=False))
            if function(handle, 0, *values) and not launcher.launch(values):
                raise self._wrong_value()

        return launch

    def _wrong_value(self) -> InvalidArgumentError:
        return self.table.reject("an argument", "it is neither a tensor nor a number", "give tensors and numbers")

    def _launcher_of(self, arguments: Mapping[str, Any]) -> _launch.Launcher:
        names = tuple(arguments)
        launcher = self._launchers.get(names)
        if launcher is None:
            self.table.check_names(arguments)
            launcher = self._launchers[names] = _launch.Launcher(self.table, names, self.overlap)
        return launcher

    def _launch(self, arguments: dict[str, Any]) -> bool:
        return self._launcher_of(arguments).launch(arguments.values())

    def _given(self, arguments: Mapping[str, Any]) -> Any:
        """The outputs that the caller has given."""
        return result({one.name: arguments[one.name] for one in self.table.outputs
                        if arguments.get(one.name) is not None})

    def _plan_outputs(self, key: Any, given: Mapping[str, Any]) -> Makers:
        """What makes the outputs that a call with these arguments writes; None: the caller has given the tensor."""
        tensors, numbers, wanted = self.sort_arguments(given)
        common_device(tensors)
        facts = {name: facts_of(name, tensor) for name, tensor in tensors.items()}
        outputs = self.table.plan(facts, numbers, wanted, is_symbolic=True).outputs
        if len(self._shapes) >= MOST_SHAPES:
            self._shapes.clear()
        self._shapes[key] = {name: None if name in tensors else _maker(one) for name, one in outputs.items()}
        return self._shapes[key]

    def _one_output(self) -> str:
        needed = ", ".join(sorted(self._needed_outputs)) or "no new tensor"
        raise self.table.reject("out is one tensor", f"the launch writes {needed}", "give a dict of tensors by name")

    def sort_arguments(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, float], frozenset[str]]:
        """Tensors, numbers, and the names of the outputs that the caller asks for by True."""
        arguments = {name: value for name, value in given.items() if value is not None}
        self.table.check_names(arguments)
        wanted = frozenset(one.name for one in self.table.outputs if arguments.get(one.name) is True)
        tensors = {name: value for name, value in arguments.items()
                   if name not in wanted and not self.table.by_name[name].is_number}
        numbers = {name: _number(self.table, name, value) for name, value in arguments.items()
                   if self.table.by_name[name].is_number}
        return tensors, numbers, wanted

    def _call_slowly(self, arguments: Mapping[str, Any]) -> Any:
        """For tensors that are not PyTorch's on a GPU."""
        tensors, numbers, wanted = self.sort_arguments(arguments)
        if common_device(tensors) == "cpu":
            return result(_cpu.launch(self.table, self.cpu_architecture, tensors, numbers, wanted))
        facts = {name: facts_of(name, tensor) for name, tensor in tensors.items()}
        made = self.table.plan(facts, numbers, wanted, is_symbolic=True).outputs
        example = next(iter(tensors.values()))
        outputs = {name: tensors[name] if name in tensors else new_like(example, one) for name, one in made.items()}
        if not self._launch({**tensors, **numbers, **outputs}):
            raise self._wrong_value()
        return result(outputs)


def _maker(facts: Facts) -> Callable[[Any], Any]:
    """A function that makes a tensor of PyTorch on the device of another one."""
    shape, dtype = tuple(facts.shape), getattr(sys.modules["torch"], NAMES[facts.type])
    return lambda example: example.new_empty(shape, dtype=dtype)


def result(outputs: dict[str, Any]) -> Any:
    return next(iter(outputs.values())) if len(outputs) == 1 else outputs or None


def _number(about: Table, name: str, value: Any) -> float:
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise about.reject(f"{name} = {value!r}", "the argument is a number", f"give {about.by_name[name].types}")
    return float(value) if about.by_name[name].types == "float" else about.whole(name, value)


def get(descriptor: str, *, cpu_architecture: str = CPU_ARCHITECTURE, overlap: bool = False) -> Kernel:
    """The kernel that a descriptor such as "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4" names.

    `cpu_architecture` is the architecture whose code the CPU device executes for tensors in host memory. With `overlap`
    a launch may begin while the previous kernel of the stream still runs; results do not change.
    """
    return Kernel(descriptor, cpu_architecture, overlap)
