"""The argument table of one descriptor: checks tensors, infers sizes and fills the operator's argument struct.

Nothing here knows an operator: names, types, shapes, strides and offsets come from cubit_descriptor_arguments.
"""

import json
import operator
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from cubit import _library, _sizes
from cubit.errors import InvalidArgumentError

# Types of safetensors by the names that NumPy, ml_dtypes, PyTorch and JAX give them.
TYPES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32", "int8": "I8", "uint8": "U8", "int32": "I32",
         "uint32": "U32", "uint16": "U16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"}
NAMES = {type_: name for name, type_ in TYPES.items()}
BYTES = {"BF16": 2, "F16": 2, "F32": 4, "I8": 1, "U8": 1, "I32": 4, "U32": 4, "U16": 2, "F8_E4M3": 1, "F8_E5M2": 1}
# Integers of the same width hold the bits of a type that a framework lacks.
BITS = {"BF16": "U16", "F16": "U16", "I8": "U8", "F8_E4M3": "U8", "F8_E5M2": "U8", "I32": "U32"}
FORMATS = {"int32": "<i", "int64": "<q", "float": "<f"}


class Facts(NamedTuple):
    """What a plan depends on of a tensor. Strides are in elements; None: dense."""

    shape: tuple[Any, ...]
    type: str
    strides: tuple[Any, ...] | None = None


@dataclass
class Argument:
    name: str
    kind: str
    types: str
    shape: str
    strides: list[dict[str, Any]]
    optional: bool
    default: str
    usual: str
    offset: int
    bytes: int
    meaning: str

    @property
    def is_number(self) -> bool:
        return self.kind == "number"

    @property
    def is_written(self) -> bool:
        return self.kind in ("output", "updated")

    def line(self) -> str:
        notes = {"output": ["written"], "updated": ["written in part"]}.get(self.kind, [])
        notes += [f"default: {self.default or self.usual}"] if self.default or self.usual else []
        about = f"{self.types} {self.shape}".strip()
        return f"{self.name}: {about}\n    {self.meaning}" + "".join(f"; {note}" for note in notes)


@dataclass
class Plan:
    """Everything of a launch but addresses."""

    struct: bytearray
    sizes: dict[str, Any]
    outputs: dict[str, Facts] = field(default_factory=dict)


class Table:
    """The arguments that a descriptor takes."""

    def __init__(self, described: Mapping[str, Any]) -> None:
        self.descriptor: str = described["descriptor"]
        self.operator: str = described["operator"]
        self.bytes: int = described["struct"]["bytes"]
        self.fixed: dict[str, int] = described["sizes"]
        self.arguments = [Argument(**one) for one in described["arguments"]]
        self.by_name = {one.name: one for one in self.arguments}
        self.tensors = [one for one in self.arguments if not one.is_number]
        self.numbers = [one for one in self.arguments if one.is_number]
        self.outputs = [one for one in self.tensors if one.kind == "output"]

    def docstring(self) -> str:
        return f"Launches {self.descriptor}.\n\n" + "\n".join(one.line() for one in self.arguments)

    def reject(self, what: str, why: str, remedy: str = "") -> InvalidArgumentError:
        return InvalidArgumentError(f"{self.operator}: {what}", why, remedy)

    def whole(self, name: str, value: Any) -> int:
        """A whole number from an integer, or from a float or tensor of the same value."""
        try:
            return operator.index(value)
        except TypeError:
            number = float(value)
        if number % 1 != 0:  # also of an infinity, and of what is not a number
            raise self.reject(f"{name} = {number}", "the argument is a whole number",
                              f"give {self.by_name[name].types}")
        return int(number)

    def check_names(self, given: Mapping[str, Any]) -> None:
        for name in given:
            if name not in self.by_name:
                raise self.reject(name, f"{self.descriptor} has no such argument",
                                  f"it takes {', '.join(self.by_name)}")
        for one in self.tensors:
            if one.kind != "output" and not one.optional and given.get(one.name) is None:
                raise self.reject(f"{one.name} is missing", "the tensor is needed",
                                  f"give {one.types} {one.shape}: {one.meaning}")

    def plan(self, tensors: Mapping[str, Facts], numbers: Mapping[str, float], wanted: frozenset[str] = frozenset(),
             *, is_symbolic: bool = False) -> Plan:
        """The plan for these tensors and numbers. Optional outputs are planned if they are given or `wanted`. The
        struct of a symbolic plan stays empty."""
        tensors = {name: facts if facts.shape else facts._replace(shape=(1,), strides=None)  # a scalar
                   for name, facts in tensors.items()}
        sizes = self._infer(tensors, numbers)
        for name, facts in tensors.items():
            self._check(self.by_name[name], facts, sizes)
        plan = Plan(bytearray(self.bytes), sizes)
        for one in self.outputs:
            if one.name in tensors or one.name in wanted or not one.optional:
                plan.outputs[one.name] = tensors.get(one.name) or self._output(one, sizes, tensors)
        if not is_symbolic:
            struct.pack_into("<q", plan.struct, 0, self.bytes)
            self._fill(plan, {**tensors, **plan.outputs})
        return plan

    def _infer(self, tensors: Mapping[str, Facts], numbers: Mapping[str, float]) -> dict[str, Any]:
        sizes: dict[str, Any] = dict(self.fixed)
        sizes.update({name: self.whole(name, value) if type(value) is float and self.by_name[name].types != "float" else
                      value for name, value in numbers.items()})
        pairs = []
        for name, facts in tensors.items():
            shape = _sizes.dimensions(self.by_name[name].shape)
            if any(not one.names or one.text == "..." for one in shape) and len(shape) == 1:
                continue
            found = _sizes.matched(shape, facts.shape)
            if found is None:
                raise self._wrong_shape(self.by_name[name], facts, sizes)
            pairs += found
        # Names first, then expressions with one unknown name, then bounds, from which a name takes the largest value.
        passes = [[pair for pair in pairs if pair[0].is_name and not pair[0].is_bound],
                  *[[pair for pair in pairs if not pair[0].is_bound]] * 3, [pair for pair in pairs if pair[0].is_bound]]
        for some in passes:
            for dimension, extent in some:
                solved = dimension.solve(extent, sizes)
                if solved is not None:
                    sizes[solved[0]] = solved[1]
        for one in self.numbers:
            if sizes.get(one.name) is None and one.usual:
                sizes[one.name] = _sizes.expression(one.usual).value(sizes)
            if sizes.get(one.name) is None and not one.optional:
                raise self.reject(f"{one.name} is missing", "no tensor has this size",
                                  f"give {one.name}, a number: {one.meaning}")
        return sizes

    def _wrong_shape(self, one: Argument, facts: Facts, sizes: Mapping[str, Any]) -> InvalidArgumentError:
        names = sorted(set().union(*(d.names for d in _sizes.dimensions(one.shape))))
        known = ", ".join(f"{name} is {sizes[name]}" for name in names if sizes.get(name) is not None)
        return self.reject(f"{one.name} has shape {list(facts.shape)}", f"{self.descriptor} takes {one.shape}",
                           f"here {known}" if known else "")

    def _check(self, one: Argument, facts: Facts, sizes: Mapping[str, Any]) -> None:
        accepted = one.types.split(", ")
        if one.types != "any type" and facts.type not in accepted + [BITS.get(type_, "") for type_ in accepted]:
            raise self.reject(f"{one.name} is {facts.type}", f"{self.descriptor} takes {one.types}",
                              f"convert it to {' or '.join(NAMES[type_] for type_ in accepted if type_ in NAMES)}")
        shape = _sizes.dimensions(one.shape)
        found = _sizes.matched(shape, facts.shape)
        if found is None:
            raise self._wrong_shape(one, facts, sizes)
        is_short = len(found) < len(shape)
        if is_short and (one.kind != "input" or not all(self._stride_offset(one, d, i) for i, d in
                                                        enumerate(shape[:len(shape) - len(found)]))):
            raise self._wrong_shape(one, facts, sizes)
        for dimension, extent in found:
            value = dimension.value(sizes)
            if value is not None and extent != value and not (dimension.is_bound and extent > value):
                raise self._wrong_shape(one, facts, sizes)

    def _output(self, one: Argument, sizes: Mapping[str, Any], tensors: Mapping[str, Facts]) -> Facts:
        shape: list[Any] = []
        for dimension in _sizes.dimensions(one.shape):
            value = dimension.value(sizes)
            if value is None:
                raise self.reject(f"{one.name} is missing", f"no tensor has its size {dimension.text}", "give it")
            shape += self._many(dimension, tensors) or [value] if dimension.is_many else [value]
        type_ = one.types
        if ", " in type_:  # of the type of the inputs that have the same choice
            type_ = next((facts.type for name, facts in tensors.items() if self.by_name[name].types == type_),
                         type_.split(", ")[0])
        return Facts(tuple(shape), type_)

    def _many(self, dimension: _sizes.Dimension, tensors: Mapping[str, Facts]) -> list[Any]:
        """The dimensions that "rows..." stands for, as the first tensor with it has them."""
        for name, facts in tensors.items():
            shape = _sizes.dimensions(self.by_name[name].shape)
            for i, one in enumerate(shape):
                if one.text == dimension.text:
                    return list(facts.shape[i:len(facts.shape) - (len(shape) - i - 1)])
        return []

    @staticmethod
    def _stride_offset(one: Argument, dimension: _sizes.Dimension, position: int) -> int:
        """Where the struct holds the stride of a dimension; 0: the dimension is dense."""
        for rule in one.strides:
            if any(dimension.is_about(name, position) for name in rule["sizes"].split("|")):
                return int(rule["offset"])
        return 0

    def _fill(self, plan: Plan, tensors: Mapping[str, Facts]) -> None:
        for one in self.numbers:
            value = plan.sizes.get(one.name)
            if value is None:
                continue
            kind = FORMATS[one.types]
            number = float(value) if kind == "<f" else self.whole(one.name, value)
            try:
                struct.pack_into(kind, plan.struct, one.offset, number)
            except (struct.error, OverflowError):
                raise self.reject(f"{one.name} = {value}", f"it does not fit into {one.types}") from None
        written: dict[int, tuple[str, int]] = {}
        for name, facts in tensors.items():
            for offset, stride in self._strides(self.by_name[name], facts):
                if written.setdefault(offset, (name, stride))[1] != stride:
                    raise self.reject(f"{name} has a stride of {stride} elements",
                                      f"{written[offset][0]} has {written[offset][1]}, and both must be equal")
                struct.pack_into("<q", plan.struct, offset, stride)

    def _strides(self, one: Argument, facts: Facts) -> list[tuple[int, int]]:
        """Pairs of offset and stride of a tensor."""
        shape = _sizes.dimensions(one.shape)
        if one.types == "any type":
            return []
        extents, strides = _collapsed(shape, facts)
        if extents is None:
            raise self.reject(f"{one.name} has strides {list(facts.strides or ())}",
                              f"the dimensions {one.shape} need one stride each", "make it contiguous")
        found: list[tuple[int, int]] = []
        missing = len(shape) - len(extents)
        dense = 1
        for i in reversed(range(len(extents))):
            offset = self._stride_offset(one, shape[i + missing], i + missing)
            if offset:
                found.append((offset, strides[i] if extents[i] != 1 else dense))
            elif strides[i] != dense and extents[i] > 1:
                raise self.reject(f"{one.name} has strides {list(facts.strides or ())}",
                                  f"dimension {shape[i + missing].text} of {one.shape} must be contiguous",
                                  "make it contiguous")
            dense = dense * extents[i] if offset == 0 or extents[i] == 1 else strides[i] * extents[i]
        return found + [(self._stride_offset(one, shape[i], i), 0) for i in range(missing)]


def _collapsed(shape: tuple[_sizes.Dimension, ...], facts: Facts) -> tuple[list[int] | None, list[int]]:
    """Extents and strides with one entry for "rows..."."""
    extents = list(facts.shape)
    strides = list(facts.strides) if facts.strides is not None else dense_strides(extents)
    many = next((i for i, one in enumerate(shape) if one.is_many), None)
    while many is not None and len(extents) > len(shape):
        if extents[many] != 1 and extents[many + 1] != 1 and strides[many] != strides[many + 1] * extents[many + 1]:
            return None, []
        stride = strides[many] if extents[many + 1] == 1 else strides[many + 1]
        extents[many:many + 2] = [extents[many] * extents[many + 1]]
        strides[many:many + 2] = [stride]
    return extents, strides


def dense_strides(extents: list[int]) -> list[int]:
    strides, step = [], 1
    for extent in reversed(extents):
        strides.append(step)
        step *= extent
    return strides[::-1]


@cache
def table(descriptor: str) -> Table:
    return Table(json.loads(_library.text("cubit_descriptor_arguments", descriptor)))
