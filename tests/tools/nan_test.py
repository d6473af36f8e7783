"""Tests that NaN and infinity stay visible in every operator that reads or writes quantised numbers: nan_test.py <cubit>.

Expected bytes follow from the rule alone, without any code of cubit: a group of values with an infinity or NaN has the
scale NaN (0x7fc00000, 0x7e00) and zeros, a NaN code is read as NaN, and the bytes of all other groups are those of a
row without such values. The tests run on the CPU device for each class of architectures, and skip without the CPU
device or NVRTC. Python's standard library only.
"""

import itertools
import math
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import w4a16_files_test as files
from w4_convert_test import parse

ARCHITECTURES = ["sm_75", "sm_80", "sm_89", "sm_90a"]  # no 16-bit minima; no fp8 conversion; with it; warpgroups
D = 64
NONE = [math.nan, math.inf, -math.inf]
FLOAT_NAN, HALF_NAN = struct.pack("<I", 0x7fc00000), struct.pack("<H", 0x7e00)
program = ""


def bf16s(values):
    return b"".join(struct.pack("<f", value)[2:] for value in values)


def halves(values):
    return b"".join(struct.pack("<e", value) for value in values)


def floats_of(tensor):
    kind, _, data = tensor
    if kind == "BF16":
        return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]
    return list(struct.unpack(f"<{len(data) // 2}e" if kind == "F16" else f"<{len(data) // 4}f", data))


def fp8_value(code, exponent_bits):
    """The number of a code, by table 1 of the OCP 8-bit floating point specification."""
    fraction_bits = 7 - exponent_bits
    sign, magnitude = (-1 if code & 0x80 else 1), code & 0x7f
    exponent, fraction = magnitude >> fraction_bits, magnitude & ((1 << fraction_bits) - 1)
    if exponent_bits == 5 and exponent == 31:
        return math.nan if fraction else sign * math.inf
    if exponent_bits == 4 and magnitude == 0x7f:
        return math.nan
    bias = (1 << (exponent_bits - 1)) - 1
    if exponent == 0:
        return sign * fraction * 2.0**(1 - bias - fraction_bits)
    return sign * (1 + fraction / (1 << fraction_bits)) * 2.0**(exponent - bias)


FP8 = {"fp8_e4m3": ("F8_E4M3", 4), "fp8_e5m2": ("F8_E5M2", 5)}


class Runs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        files.program = program
        if files.trouble():
            raise unittest.SkipTest(files.trouble())

    def run_case(self, descriptor, architecture, content, *more):
        """Runs the case, which must pass --check, and returns the outputs."""
        with tempfile.TemporaryDirectory() as folder:
            source, result = Path(folder, "in.safetensors"), Path(folder, "out.safetensors")
            source.write_bytes(files.safetensors(content))
            done = subprocess.run([program, "run", descriptor, "--input", str(source), "--output", str(result), "--device",
                                   "cpu", "--arch", architecture, "--check", "--cache-dir", "", *more],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            return parse(result.read_bytes())[1]

    def assert_same(self, got, wanted, label=""):
        self.assertEqual(len(got), len(wanted))
        for i, (a, b) in enumerate(zip(got, wanted)):
            self.assertTrue(a == b or (math.isnan(a) and math.isnan(b)), f"{label}[{i}] is {a}, not {b}")


class Gather(Runs):
    def test_every_code(self):
        for (kv, (kind, exponent_bits)), architecture in itertools.product(FP8.items(), ARCHITECTURES):
            with self.subTest(kv=kv, architecture=architecture):
                codes = bytes(range(256))
                one = ("F32", [1], struct.pack("<f", 1))
                out = self.run_case(f"kv_gather:head_dim=64,kv={kv},scales=tensor,output=fp16", architecture,
                                    {"key_cache": (kind, [1, 4, 1, D], codes), "value_cache": (kind, [1, 4, 1, D], codes[::-1]),
                                     "key_scale": one, "value_scale": one})
                values = [fp8_value(code, exponent_bits) for code in codes]
                self.assert_same(floats_of(out["key"]), values)
                self.assert_same(floats_of(out["value"]), values[::-1])

    def test_scales_that_are_nan(self):
        scales = ("F32", [1, 2, 1], struct.pack("<f", 2) + FLOAT_NAN)
        for kv, kind in [("fp8_e4m3", "F8_E4M3"), ("fp8_e5m2", "F8_E5M2"), ("int8_split", "I8")]:
            with self.subTest(kv=kv):
                rows = (kind, [1, 2, 1, D], bytes(2 * D))
                out = self.run_case(f"kv_gather:head_dim=64,kv={kv}", "sm_80",
                                    {"key_cache": rows, "value_cache": rows, "key_scale": scales, "value_scale": scales})
                for name in ["key", "value"]:
                    self.assert_same(floats_of(out[name]), D * [0.0] + D * [math.nan])
        rows = ("U8", [1, 1, 1, 40], halves([1, 0.5]) + 2 * HALF_NAN + bytes(32))
        out = self.run_case("kv_gather:head_dim=64,kv=int4_rows,groups=2", "sm_80", {"key_cache": rows, "value_cache": rows})
        self.assert_same(floats_of(out["key"]), D // 2 * [0.5] + D // 2 * [math.nan])


class Append(Runs):
    """Each row has one infinity or NaN, at each position in turn; the last row has none."""

    PLACES = [(channel, none) for channel in range(D) for none in NONE]
    ROWS = len(PLACES) + 1

    def rows(self, kind="BF16"):
        made = []
        for channel, none in [*self.PLACES, (0, 0.5)]:
            row = [0.5] * D
            row[channel] = none
            made += row
        return (kind, [1, self.ROWS, 1, D], bf16s(made) if kind == "BF16" else halves(made))

    def append(self, fields, architecture, more=None, kind="BF16"):
        rows = self.rows(kind)
        return self.run_case(f"kv_append:head_dim=64,{fields}", architecture, {"key": rows, "value": rows, **(more or {})})

    def split(self, data):
        size = len(data) // self.ROWS
        self.assertEqual(len(data), size * self.ROWS)
        return [data[i * size:(i + 1) * size] for i in range(self.ROWS)]

    def check_made_scales(self, out, groups, nan, channels=lambda channel: [channel]):
        """`channels`: the channels of a row that a value at one channel changes."""
        width = D // groups
        for name in ["key", "value"]:
            payloads, scales = self.split(out[name + "_cache"][2]), self.split(out[name + "_scale"][2])
            self.assertNotIn(nan, scales[-1])
            changed = channels if name == "key" else lambda channel: [channel]
            for (channel, none), payload, scale in zip(self.PLACES, payloads, scales):
                hit = {one // width for one in changed(channel)}
                wanted = b"".join(nan if group in hit else scales[-1][group * len(nan):(group + 1) * len(nan)]
                                  for group in range(groups))
                self.assertEqual(scale, wanted, (name, channel, none))
                wanted = b"".join(bytes(width) if group in hit else payloads[-1][group * width:(group + 1) * width]
                                  for group in range(groups))
                self.assertEqual(payload, wanted, (name, channel, none))

    def test_scales_of_a_row(self):
        for architecture in ARCHITECTURES:
            for kv in ["fp8_e4m3", "fp8_e5m2", "int8_split"]:
                with self.subTest(kv=kv, architecture=architecture):
                    self.check_made_scales(self.append(f"kv={kv}", architecture), 1, FLOAT_NAN)

    def test_scales_of_groups_in_fp16(self):
        for architecture, kv in [("sm_75", "int8_split"), ("sm_80", "fp8_e4m3"), ("sm_80", "int8_split"), ("sm_90a", "fp8_e5m2")]:
            with self.subTest(kv=kv, architecture=architecture):
                out = self.append(f"kv={kv},scales=group,groups=4,scale_type=fp16,input=fp16", architecture, kind="F16")
                self.check_made_scales(out, 4, HALF_NAN)

    def test_rotated_rows(self):
        turn = {"cosines": ("F32", [self.ROWS, D // 2], struct.pack("<f", 1) * (self.ROWS * D // 2)),
                "sines": ("F32", [self.ROWS, D // 2], bytes(4 * self.ROWS * D // 2))}
        for architecture in ["sm_75", "sm_80", "sm_90a"]:
            with self.subTest(architecture=architecture):
                out = self.append("kv=fp8_e4m3,scales=group,groups=2,rotary=interleaved", architecture, turn)
                self.check_made_scales(out, 2, FLOAT_NAN, lambda channel: [channel, channel ^ 1])

    def test_rows_of_nibbles(self):
        for architecture, groups in itertools.product(ARCHITECTURES, [1, 4]):
            with self.subTest(architecture=architecture, groups=groups):
                out, width = self.append(f"kv=int4_rows,groups={groups}", architecture), D // groups
                for name in ["key_cache", "value_cache"]:
                    rows = self.split(out[name][2])
                    header, nibbles = rows[-1][:4 * groups], rows[-1][4 * groups:]
                    self.assertNotIn(HALF_NAN, header)
                    for (channel, none), row in zip(self.PLACES, rows):
                        hit = channel // width
                        wanted = header[:4 * hit] + 2 * HALF_NAN + header[4 * hit + 4:] + nibbles[:hit * width // 2] + \
                            bytes(width // 2) + nibbles[(hit + 1) * width // 2:]
                        self.assertEqual(row, wanted, (name, channel, none))

    def test_scales_that_are_given(self):
        for architecture, kv in itertools.product(ARCHITECTURES, ["fp8_e4m3", "fp8_e5m2", "int8_split"]):
            for scale in [0.25, 0.0, math.nan]:
                with self.subTest(kv=kv, architecture=architecture, scale=scale):
                    one = ("F32", [1], FLOAT_NAN if math.isnan(scale) else struct.pack("<f", scale))
                    out = self.append(f"kv={kv},scales=tensor", architecture, {"key_scale": one, "value_scale": one})
                    codes = {math.inf: 127, -math.inf: 0x81} if kv == "int8_split" else {math.inf: 0x7f, -math.inf: 0x7f}
                    nan = 0 if kv == "int8_split" else 0x7f
                    for name in ["key_cache", "value_cache"]:
                        rows = self.split(out[name][2])
                        if math.isnan(scale):
                            self.assertEqual(set(out[name][2]), {nan})
                            continue
                        self.assertNotIn(nan if nan else 1, rows[-1])
                        for (channel, none), row in zip(self.PLACES, rows):
                            wanted = bytearray(rows[-1])
                            wanted[channel] = codes.get(none, nan)
                            self.assertEqual(row, bytes(wanted), (name, channel, none))


class Quantise(Runs):
    """Row n of the weights has one infinity or NaN at k = n."""

    def check(self, fields, architecture, group, none, form="gptq", kind="F16"):
        n = k = 64
        weights = [[0.25 if (row + at) % 3 else -0.5 for at in range(k)] for row in range(n)]
        pack = halves if kind == "F16" else bf16s
        plain = self.run_case("w4_quantize:" + fields, architecture, {"weights": (kind, [n, k], pack(sum(weights, [])))})
        for row in range(n):
            weights[row][row] = none
        out = self.run_case("w4_quantize:" + fields, architecture, {"weights": (kind, [n, k], pack(sum(weights, [])))})
        order = files.AWQ_ORDER if form == "awq" else range(8)

        def fields_of(tensors, name):
            return [word >> 4 * i & 15 for word in struct.unpack(f"<{len(tensors[name][2]) // 4}I", tensors[name][2])
                    for i in range(8)]

        def code(tensor, at, row):
            if form == "awq":
                return tensor[(at * (n // 8) + row // 8) * 8 + list(order).index(row % 8)]
            return tensor[(at // 8 * n + row) * 8 + at % 8]

        codes, plain_codes = fields_of(out, "qweight"), fields_of(plain, "qweight")
        scales, plain_scales = (struct.unpack(f"<{k // group * n}H", one["scales"][2]) for one in (out, plain))
        errors = {name: floats_of(out[name]) for name in ["max_error", "rms_error"]}
        for row in range(n):
            for part in range(k // group):
                hit = row // group == part
                at = part * n + row
                self.assertEqual(scales[at], 0x7e00 if hit else plain_scales[at], (row, part))
                for values in errors.values():
                    self.assertEqual(math.isnan(values[at]), hit, (row, part))
                for i in range(part * group, (part + 1) * group):
                    self.assertEqual(code(codes, i, row), 0 if hit else code(plain_codes, i, row), (row, i))

    def test_groups(self):
        for architecture, none in itertools.product(["sm_75", "sm_80", "sm_90a"], NONE):
            with self.subTest(architecture=architecture, none=none):
                self.check("group_size=32", architecture, 32, none)

    def test_other_formats(self):
        for fields, form in [("format=awq,group_size=32", "awq"), ("format=symmetric,group_size=32", "gptq"),
                             ("format=gptq_v2,group_size=64", "gptq")]:
            with self.subTest(fields=fields):
                self.check(fields, "sm_80", 64 if "64" in fields else 32, math.nan, form)
                self.check(fields + ",input=bf16", "sm_80", 64 if "64" in fields else 32, -math.inf, form, "BF16")

    def test_one_group(self):
        for none in NONE:
            with self.subTest(none=none):
                self.check("group_size=all", "sm_80", 64, none)


class Attention(Runs):
    """Sequences of three tokens; in each, one token has one code that is none, in its key or its value."""

    TOKENS, HEADS = 3, 2

    def attend(self, fields, architecture, keys, values, more, batch):
        query = [[1.0 if (channel + head) % 2 else -0.5 for channel in range(D)] for _ in range(batch) for head in range(self.HEADS)]
        out = self.run_case(f"gqa_decode:head_dim=64,heads_per_kv={self.HEADS},query=fp16,output=fp16,{fields}", architecture,
                            {"query": ("F16", [batch, self.HEADS, D], halves(sum(query, []))), "key": keys, "value": values,
                             **more})
        values = floats_of(out["output"])
        self.assertEqual(len(values), batch * self.HEADS * D)
        return [[values[(b * self.HEADS + head) * D:(b * self.HEADS + head + 1) * D] for head in range(self.HEADS)]
                for b in range(batch)]

    def test_every_code_at_every_channel(self):
        for (kv, (kind, exponent_bits)), architecture in itertools.product(FP8.items(), ARCHITECTURES):
            with self.subTest(kv=kv, architecture=architecture):
                codes = [code for code in range(256) if not math.isfinite(fp8_value(code, exponent_bits))]
                places = [(code, channel) for code in codes for channel in range(D)]
                plain = bytes([0x38 if exponent_bits == 4 else 0x3c]) * (D * self.TOKENS)  # ones
                batch = 2 * len(places) + 1

                def rows(first):
                    made = bytearray(plain * batch)
                    for i, (code, channel) in enumerate(places):
                        made[((first + i) * self.TOKENS + i % self.TOKENS) * D + channel] = code
                    return (kind, [batch, self.TOKENS, 1, D], bytes(made))

                one = ("F32", [1], struct.pack("<f", 1))
                out = self.attend(f"kv={kv},scales=tensor", architecture, rows(0), rows(len(places)),
                                  {"key_scale": one, "value_scale": one}, batch)
                self.assert_same(out[-1][0] + out[-1][1], [1.0] * (2 * D))
                for (code, channel), by_key, by_value in zip(places, out, out[len(places):]):
                    value = fp8_value(code, exponent_bits)
                    for head in range(self.HEADS):
                        label = f"code {code:#x} at {channel}, head {head}"
                        if math.isnan(value):
                            self.assert_same(by_key[head], [math.nan] * D, "key, " + label)
                        wanted = [1.0] * D
                        wanted[channel] = value
                        self.assert_same(by_value[head], wanted, "value, " + label)

    def test_scales_that_are_nan(self):
        for architecture in ["sm_80", "sm_90a"]:
            for kv, kind, code in [("fp8_e4m3", "F8_E4M3", 0x38), ("int8_split", "I8", 1)]:
                with self.subTest(kv=kv, architecture=architecture):
                    rows = (kind, [3, self.TOKENS, 1, D], bytes([code]) * (3 * self.TOKENS * D))
                    scales = [struct.pack("<f", 1)] * (3 * self.TOKENS)
                    key_scales, value_scales = list(scales), list(scales)
                    key_scales[1], value_scales[self.TOKENS + 2] = FLOAT_NAN, FLOAT_NAN
                    out = self.attend(f"kv={kv}", architecture, rows, rows,
                                      {name: ("F32", [3, self.TOKENS, 1], b"".join(one))
                                       for name, one in [("key_scale", key_scales), ("value_scale", value_scales)]}, 3)
                    for sequence, value in enumerate([math.nan, math.nan, 1.0]):
                        self.assert_same(sum(out[sequence], []), [value] * (2 * D), f"sequence {sequence}")

    def test_groups_of_nibbles_that_are_nan(self):
        for architecture in ["sm_80", "sm_90a"]:
            with self.subTest(architecture=architecture):
                row = halves([0.5, 1] * 4) + bytes(D // 2)
                keys, values = [row] * (3 * self.TOKENS), [row] * (3 * self.TOKENS)
                keys[1] = row[:4] + 2 * HALF_NAN + row[8:]
                values[self.TOKENS + 2] = row[:8] + 2 * HALF_NAN + row[12:]
                out = self.attend("kv=int4_rows,groups=4", architecture, *(("U8", [3, self.TOKENS, 1, len(row)], b"".join(rows))
                                                                          for rows in (keys, values)), {}, 3)
                self.assert_same(sum(out[0], []), [math.nan] * (2 * D), "key")
                for head in out[1]:  # the NaN may spread to the other groups
                    self.assert_same(head[32:48], 16 * [math.nan], "value")
                    self.assertTrue(all(value == 1.0 or math.isnan(value) for value in head))
                self.assert_same(sum(out[2], []), [1.0] * (2 * D))


if __name__ == "__main__":
    program = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
