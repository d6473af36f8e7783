"""Shapes of argument tables: dimensions are expressions in named sizes, which tensors and callers give values to.

Values are integers, or anything that behaves like one: the symbolic sizes of torch.compile work, too.
"""

import ast
import math
from collections.abc import Mapping
from functools import cache
from typing import Any

Sizes = Mapping[str, Any]


class Dimension:
    """A dimension is an expression: "batch", "n / 8", "ceil(k / group_size)", "max_length or more" or "rows..."."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.is_bound = text.endswith(" or more")
        self.is_many = text.endswith("...")
        plain = text.removesuffix(" or more").removesuffix("...")
        self._tree = ast.parse(plain or "any_", mode="eval").body
        self.names = frozenset(node.id for node in ast.walk(self._tree)
                               if isinstance(node, ast.Name) and node.id not in ("ceil", "sqrt"))
        self.is_name = isinstance(self._tree, ast.Name)

    def value(self, sizes: Sizes) -> Any:
        """The value, or None if a name has no value yet."""
        return None if any(sizes.get(name) is None for name in self.names) else _evaluate(self._tree, sizes)

    def solve(self, extent: Any, sizes: Sizes) -> tuple[str, Any] | None:
        """The one name without a value and the value that makes the dimension `extent`."""
        unknown = [name for name in self.names if sizes.get(name) is None]
        return _solve(self._tree, extent, unknown[0], sizes) if len(unknown) == 1 else None

    def is_about(self, name: str, position: int) -> bool:
        """Whether a stride that a table gives to `name` is that of this dimension."""
        return position == 0 if name == "first" else name in self.names and self.text.startswith(name)


def _evaluate(node: ast.expr, sizes: Sizes) -> Any:
    match node:
        case ast.Constant(value=number):
            return number
        case ast.Name(id=name):
            return sizes[name]
        case ast.Call(func=ast.Name(id="ceil"), args=[ast.BinOp(left=whole, right=part)]):
            return -(-_evaluate(whole, sizes) // _evaluate(part, sizes))
        case ast.Call(func=ast.Name(id="sqrt"), args=[argument]):
            return math.sqrt(_evaluate(argument, sizes))
        case ast.BinOp(left=left, op=operation, right=right):
            a, b = _evaluate(left, sizes), _evaluate(right, sizes)
            if isinstance(operation, ast.Div):
                return a / b if isinstance(b, float) else a // b
            return a * b if isinstance(operation, ast.Mult) else a + b
    raise ValueError(f"{ast.unparse(node)} is no expression of an argument table")


def _knows(node: ast.expr, unknown: str) -> bool:
    return all(not isinstance(one, ast.Name) or one.id != unknown for one in ast.walk(node))


def _solve(node: ast.expr, extent: Any, unknown: str, sizes: Sizes) -> tuple[str, Any] | None:
    match node:
        case ast.Name():
            return unknown, extent
        case ast.Call(func=ast.Name(id="ceil"), args=[quotient]):
            return _solve(quotient, extent, unknown, sizes)
        case ast.BinOp(left=left, op=ast.Div(), right=right) if _knows(right, unknown):
            return _solve(left, extent * _evaluate(right, sizes), unknown, sizes)
        case ast.BinOp(left=left, op=operation, right=right):
            known, other = (left, right) if _knows(left, unknown) else (right, left)
            value = _evaluate(known, sizes)
            if isinstance(operation, ast.Add):
                return _solve(other, extent - value, unknown, sizes)
            if isinstance(operation, ast.Mult) and value != 0:
                return _solve(other, extent // value, unknown, sizes)
    return None


@cache
def dimensions(shape: str) -> tuple[Dimension, ...]:
    """The dimensions of "[batch, n / 8]"."""
    return tuple(Dimension(text) for text in shape.strip("[]").split(", ") if text)


def expression(text: str) -> Dimension:
    return Dimension(text)


def matched(shape: tuple[Dimension, ...], extents: tuple[Any, ...]) -> list[tuple[Dimension, Any]] | None:
    """Pairs of dimension and extent, the last ones first matched; dimensions "rows..." take a product. Leading
    dimensions may be missing in `extents`. None if the ranks do not match."""
    many = next((i for i, one in enumerate(shape) if one.is_many), None)
    if many is None:
        missing = len(shape) - len(extents)
        return None if missing < 0 else list(zip(shape[missing:], extents, strict=True))
    behind = len(shape) - many - 1
    if len(extents) < len(shape):
        return None
    middle = extents[many:len(extents) - behind]
    product: Any = 1
    for extent in middle:
        product = product * extent
    return list(zip(shape, (*extents[:many], product, *extents[len(extents) - behind:]), strict=True))
