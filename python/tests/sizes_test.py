"""Shapes of argument tables: expressions, the sizes that they give to names, and plans of made-up tables."""

import struct

import pytest

from cubit import _sizes
from cubit._table import Facts, Table
from cubit.errors import InvalidArgumentError


def argument(name, kind="input", types="F16", shape="[n]", strides=(), usual="", optional=False, offset=8, size=8):
    return {"name": name, "kind": kind, "types": types, "shape": shape, "strides": list(strides), "optional": optional,
            "default": "", "usual": usual, "offset": offset, "bytes": size, "meaning": "an argument"}


def made(*arguments, **sizes):
    return Table({"descriptor": "toy", "operator": "toy", "struct": {"name": "toy", "bytes": 96}, "sizes": sizes,
                  "arguments": arguments})


@pytest.mark.parametrize(("text", "value"), [("n / 8", 8), ("ceil(k / g)", 3), ("4 * g + n / 2", 160), ("7", 7),
                                             ("n + k", 320), ("1 / sqrt(n)", 0.125), ("n or more", 64)])
def test_expressions_have_values(text, value):
    assert _sizes.Dimension(text).value({"n": 64, "k": 256, "g": 32 if "4 *" in text else 100}) == value


@pytest.mark.parametrize(("text", "extent", "found"), [
    ("n", 5, ("n", 5)), ("n / 8", 5, ("n", 40)), ("n * h", 12, ("n", 3)), ("n + h", 12, ("n", 8)),
    ("ceil(n / h) or more", 3, ("n", 12)), ("n * m", 12, None)])
def test_one_unknown_name_is_solved(text, extent, found):
    assert _sizes.Dimension(text).solve(extent, {"h": 4}) == found


def test_names_win_over_expressions_and_bounds():
    table = made(argument("a", shape="[ceil(n / 4) or more]"), argument("b", shape="[n / 2, k]", offset=16),
                 argument("c", shape="[n]", offset=24), argument("n", "number", "int32", "", offset=32, size=4))
    facts = {"a": Facts((9,), "F16"), "b": Facts((5, 3), "F16"), "c": Facts((10,), "F16")}
    assert table.plan(facts, {}).sizes["n"] == 10
    del facts["c"]
    assert table.plan(facts, {}).sizes["n"] == 10
    del facts["b"]
    assert table.plan(facts, {}).sizes["n"] == 36
    assert table.plan(facts, {"n": 33}).sizes["n"] == 33
    with pytest.raises(InvalidArgumentError, match=r"a has shape \[9\]: .* or more\]; here n is 37"):
        table.plan(facts, {"n": 37})


def test_strides_reach_the_struct():
    table = made(argument("a", shape="[rows..., h, n]", strides=[{"sizes": "rows", "offset": 16},
                                                                 {"sizes": "x|h", "offset": 24}]),
                 argument("b", shape="[n / 4, h]", strides=[{"sizes": "first", "offset": 40}], offset=32))
    facts = {"a": Facts((2, 3, 4, 8), "F16", (192, 64, 16, 1)), "b": Facts((2, 4), "F16", (100, 1))}
    plan = table.plan(facts, {})
    assert plan.sizes["rows"] == 6
    assert struct.unpack_from("<qq", plan.struct, 16) == (64, 16)
    assert struct.unpack_from("<q", plan.struct, 40) == (100,)
    assert struct.unpack_from("<q", plan.struct, 0) == (96,)
    with pytest.raises(InvalidArgumentError, match="make it contiguous"):
        table.plan(facts | {"a": Facts((2, 3, 4, 8), "F16", (1000, 64, 16, 1))}, {})
    with pytest.raises(InvalidArgumentError, match=r"dimension n of .* must be contiguous"):
        table.plan(facts | {"a": Facts((2, 3, 4, 8), "F16", (192, 64, 16, 2))}, {})


def test_leading_dimensions_with_strides_may_be_left_out():
    table = made(argument("a", shape="[b, n]", strides=[{"sizes": "b", "offset": 16}]),
                 argument("b", "number", "int32", "", offset=24, size=4))
    plan = table.plan({"a": Facts((8,), "F16")}, {"b": 3})
    assert struct.unpack_from("<q", plan.struct, 16) == (0,) and struct.unpack_from("<i", plan.struct, 24) == (3,)
    with pytest.raises(InvalidArgumentError, match="b is missing: no tensor has this size; give b, a number"):
        table.plan({"a": Facts((8,), "F16")}, {})


def test_numbers_have_their_type_and_usual_value():
    table = made(argument("a"), argument("s", "number", "float", "", usual="1 / sqrt(n)", offset=16, size=4),
                 argument("i", "number", "int32", "", optional=True, offset=20, size=4))
    assert struct.unpack_from("<fi", table.plan({"a": Facts((16,), "F16")}, {}).struct, 16) == (0.25, 0)
    assert struct.unpack_from("<fi", table.plan({"a": Facts((16,), "F16")}, {"s": 2, "i": 7}).struct, 16) == (2.0, 7)
    with pytest.raises(InvalidArgumentError, match="i = 3000000000: it does not fit into int32"):
        table.plan({"a": Facts((16,), "F16")}, {"i": 3_000_000_000})


def test_outputs_take_sizes_and_types_of_the_inputs():
    table = made(argument("a", types="I8, U8", shape="[rows..., n]"),
                 argument("y", "output", "I8, U8", "[rows..., n / 2]", offset=16),
                 argument("z", "output", "F32", "[rows...]", optional=True, offset=24))
    facts = {"a": Facts((2, 3, 8), "U8")}
    assert table.plan(facts, {}).outputs == {"y": Facts((2, 3, 4), "U8")}
    assert table.plan(facts, {}, frozenset({"z"})).outputs["z"] == Facts((2, 3), "F32")
