"""Converts and runs random checkpoints, against a reader of its own: w4_random_test.py <cubit> [checkpoints].

A checkpoint has one to three layers of random sizes, formats (gptq, gptq_v2, awq, symmetric, packed), bits, group sizes
(the last group of many layers is shorter), activation orders, fp16 or bf16 scales, and lies in one to three files. Every conversion must keep every weight, bit for
bit, also if it sorts activation orders and folds them into the layers before. Every 25th checkpoint is multiplied on the
CPU device, whole, as a tensor-parallel slice, or sorted. The reader below follows the published layouts and shares no code with cubit. Needs only Python's standard library.
"""

import json
import math
import random
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import w4a16_files_test as files
from w4_convert_test import parse

FORMATS = ["gptq", "gptq_v2", "awq", "symmetric", "packed"]
INDEX = "model.safetensors.index.json"
program, checkpoints = "", 200


class Layer:
    """A layer as plain numbers: numbers[k][n], zeros[group][n], raw 16-bit scales[group][n], groups[k]."""

    def __init__(self, source, bits, n, k, group_size, zeros, order, kind):
        self.bits, self.n, self.k, self.kind, self.group_size = bits, n, k, kind, group_size
        count = -(-k // group_size)
        self.numbers = [[source.randrange(1 << bits) for _ in range(n)] for _ in range(k)]
        self.zeros = [[source.choice(zeros) for _ in range(n)] for _ in range(count)]
        # Scales from 2^-8 to 2^-6: all bf16 numbers of this range are fp16 numbers too.
        base = 0x1c00 if kind == "F16" else 0x3b80
        self.scales = [[base + source.randrange(1 << (11 if kind == "F16" else 8)) for _ in range(n)] for _ in range(count)]
        self.groups = [i // group_size for i in range(k)]
        if order == "shuffled":
            source.shuffle(self.groups)
        self.order = order

    def facts(self):
        """What a conversion keeps: the weight less its zero, and the bits of its scale."""
        return [[(self.numbers[k][n] - self.zeros[g][n], self.scales[g][n]) for n in range(self.n)]
                for k, g in enumerate(self.groups)]

    def scale(self, group, n):
        bits = self.scales[group][n]
        return struct.unpack("<e", struct.pack("<H", bits))[0] if self.kind == "F16" else \
            struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def pack(values, bits):
    """Values of `bits` bits as 32-bit words, the first in the lowest bits."""
    number = sum(value << bits * i for i, value in enumerate(values))
    return number.to_bytes(len(values) * bits // 8, "little")


def unpack(data, bits):
    number = int.from_bytes(data, "little")
    return [number >> bits * i & ((1 << bits) - 1) for i in range(len(data) * 8 // bits)]


def write_layer(layer, form):
    """The tensors of the layer in a format."""
    n, k, bits, groups = layer.n, layer.k, layer.bits, len(layer.scales)
    size = 32 // bits
    content = {}

    def halfwords(rows):
        return b"".join(struct.pack("<H", value) for row in rows for value in row)

    def by_columns(rows):  # AWQ: words of eight neighbouring columns, in its own order
        return b"".join(pack([row[at + i] for i in files.AWQ_ORDER], 4) for row in rows for at in range(0, n, 8))

    if form == "packed":
        content["weight_packed"] = ("I32", [n, k // size], b"".join(pack([row[i] for row in layer.numbers], bits) for i in range(n)))
        content["weight_scale"] = (layer.kind, [n, groups], halfwords(zip(*layer.scales)))
        content["weight_shape"] = ("I64", [2], struct.pack("<2q", n, k))
        if any(zero != 1 << (bits - 1) for row in layer.zeros for zero in row):
            content["weight_zero_point"] = ("I32", [n // size, groups], b"".join(
                pack(row[at:at + size], bits) for at in range(0, n, size) for row in layer.zeros))
        name = "weight_g_idx"
    elif form == "awq":
        content["qweight"] = ("I32", [k, n // 8], by_columns(layer.numbers))
        content["qzeros"] = ("I32", [groups, n // 8], by_columns(layer.zeros))
        content["scales"] = (layer.kind, [groups, n], halfwords(layer.scales))
        name = "g_idx"
    else:
        content["qweight"] = ("I32", [k // size, n], b"".join(
            pack([layer.numbers[at + i][column] for i in range(size)], bits) for at in range(0, k, size) for column in range(n)))
        if form != "symmetric":
            less = 1 if form == "gptq" else 0
            content["qzeros"] = ("I32", [groups, n // size], b"".join(pack([zero - less for zero in row], bits) for row in layer.zeros))
        content["scales"] = (layer.kind, [groups, n], halfwords(layer.scales))
        name = "g_idx"
    if layer.order != "none":
        content[name] = ("I32", [k], struct.pack(f"<{k}i", *layer.groups))
    return content


def read_layer(content, form, bits, n, k, group_size):
    """The facts of a layer, read from its tensors by the rules of the format."""
    size = 32 // bits
    middle = 1 << (bits - 1)
    scales = content["weight_scale" if form == "packed" else "scales"][2]
    groups = len(scales) // 2 // n
    scales = struct.unpack(f"<{groups * n}H", scales)
    order = content.get("weight_g_idx" if form == "packed" else "g_idx")
    group_of = struct.unpack(f"<{k}i", order[2]) if order else [i // group_size for i in range(k)]
    words = unpack(content["weight_packed" if form == "packed" else "qweight"][2], bits)
    zeros = content.get("weight_zero_point" if form == "packed" else "qzeros")
    zeros = unpack(zeros[2], bits) if zeros else None
    where = [files.AWQ_ORDER.index(i) for i in range(8)]

    def number(i, column):
        if form == "packed":
            return words[column * k + i]
        if form == "awq":
            return words[i * n + column // 8 * 8 + where[column % 8]]
        return words[(i // size * n + column) * size + i % size]

    def zero(group, column):
        if zeros is None:
            return middle
        if form == "packed":
            return zeros[(column // size * groups + group) * size + column % size]
        if form == "awq":
            return zeros[group * n + column // 8 * 8 + where[column % 8]]
        return zeros[group * n + column] + (1 if form == "gptq" else 0)

    return [[(number(i, column) - zero(group_of[i], column), scales[column * groups + group_of[i] if form == "packed" else
                                                                  group_of[i] * n + column]) for column in range(n)]
            for i in range(k)]


class Random(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def make(self, source, sorts):
        """Random layers that both formats can store, and the two formats."""
        form, target = source.sample(FORMATS, 2)
        if sorts and source.random() < 0.3:
            target = form
        has_awq, layers = "awq" in (form, target), {}
        for name in source.sample(["model.layers.0.up", "model.layers.0.down", "head"], source.randint(1, 3)):
            bits = 4 if has_awq else source.choice([4, 8])
            group_size = source.choice([16, 32, 64])
            k = group_size * source.randint(1, 3) + source.choice([0, 8 * source.randrange(group_size // 8)])
            if source.random() < 0.2:
                group_size = k
            middle, least = 1 << (bits - 1), 1 if "gptq" in (form, target) else 0
            zeros = [middle] if "symmetric" in (form, target) else range(least, 2 * middle)
            order = source.choice(["none", "natural"] if "awq" == target and not sorts else ["none", "natural", "shuffled"])
            if form == "awq":
                order = "none"
            if form == "symmetric" and bits == 8 and order == "none":
                order = "natural"  # without zeros the group index tells the bits
            layers[name] = Layer(source, bits, 8 * source.randint(1, 4), k, group_size, zeros, order, source.choice(["F16", "BF16"]))
        return form, target, layers

    def write(self, source, content, folder):
        """Writes the tensors into one to three files. Returns the path to give."""
        folder.mkdir(exist_ok=True)
        names = list(content)
        source.shuffle(names)
        count = source.randint(1, 3)
        if count == 1:
            (folder / "model.safetensors").write_bytes(files.safetensors({name: content[name] for name in names}))
            return folder
        place = {name: f"model-{source.randint(1, count):05}-of-{count:05}.safetensors" for name in names}
        for shard in set(place.values()):
            (folder / shard).write_bytes(files.safetensors({name: content[name] for name in names if place[name] == shard}))
        (folder / INDEX).write_text(json.dumps({"weight_map": place}))
        return source.choice([folder, folder / INDEX])

    def read(self, path):
        paths = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
        return {name: tensor for one in paths for name, tensor in parse(one.read_bytes())[1].items()}

    def test_conversions_keep_every_weight(self):
        for seed in range(checkpoints):
            source = random.Random(seed)
            form, target, layers = self.make(source, False)
            content = {f"{name}.{part}": tensor for name, layer in layers.items() for part, tensor in write_layer(layer, form).items()}
            content["norm.weight"] = ("BF16", [3], bytes(source.randrange(256) for _ in range(6)))
            path, result = self.write(source, content, self.folder / f"in{seed}"), self.folder / f"out{seed}"
            done = subprocess.run([program, "convert", "--from", form, "--to", target, "--input", str(path), "--output", str(result)],
                                  capture_output=True, text=True)
            label = f"seed {seed}, {form} to {target}"
            self.assertEqual((done.returncode, done.stderr), (0, ""), label)
            made = self.read(result)
            self.assertEqual(made["norm.weight"], content["norm.weight"], label)
            for name, layer in layers.items():
                parts = {part[len(name) + 1:]: tensor for part, tensor in made.items() if part.startswith(name + ".")}
                self.assertEqual(read_layer(parts, target, layer.bits, layer.n, layer.k, layer.group_size), layer.facts(), label)

    def test_sorted_layers_keep_every_weight(self):
        """A sorted layer has the weights of its permutation, in groups that need no index."""
        for seed in range(checkpoints // 2):
            source = random.Random(2000000 + seed)
            form, target, layers = self.make(source, True)
            layers["model.layers.0.down"] = layers.get("model.layers.0.down") or next(iter(layers.values()))
            down = layers["model.layers.0.down"]
            folds = source.random() < 0.5
            content = {f"{name}.{part}": tensor for name, layer in layers.items() for part, tensor in write_layer(layer, form).items()}
            if folds:  # a quantised layer, or a dense one, makes the activations of down
                content["model.layers.0.up.bias"] = bias = ("F32", [down.k], bytes(source.randrange(256) for _ in range(4 * down.k)))
                if source.random() < 0.5:
                    zeros = [1 << (down.bits - 1)] if "symmetric" in (form, target) else range(1, 1 << down.bits)
                    order = "natural" if form == "symmetric" and down.bits == 8 else "none"
                    layers["model.layers.0.up"] = up = Layer(source, down.bits, down.k, 32, 16, zeros, order, "F16")
                    parts = write_layer(up, form)
                else:
                    layers.pop("model.layers.0.up", None)
                    up, parts = None, {"weight": ("BF16", [down.k, 3], bytes(source.randrange(256) for _ in range(6 * down.k)))}
                content = {name: tensor for name, tensor in content.items() if not name.startswith("model.layers.0.up.") or name.endswith("bias")}
                content |= {f"model.layers.0.up.{part}": tensor for part, tensor in parts.items()}
            path, result = self.write(source, content, self.folder / f"in{seed}"), self.folder / f"out{seed}"
            command = [program, "convert", "--from", form, "--to", target, "--input", str(path), "--output", str(result),
                       "--sort-activation-order", *(["--fold-order", "down=up"] if folds else [])]
            label = f"seed {seed}, {' '.join(command)}"
            if form == target and form == "awq":
                self.assertTrue(all(layer.order != "shuffled" for layer in layers.values()))
            done = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""), label)
            made = self.read(result)
            outputs = sorted(range(down.k), key=lambda i: down.groups[i])
            for name, layer in layers.items():
                parts = {part[len(name) + 1:]: tensor for part, tensor in made.items() if part.startswith(name + ".")}
                inputs = sorted(range(layer.k), key=lambda i: layer.groups[i])
                is_folded = folds and name.endswith("down")
                if inputs == list(range(layer.k)) or is_folded:
                    self.assertNotIn("permutation", parts, label)
                else:
                    self.assertEqual(parts["permutation"], ("I32", [layer.k], struct.pack(f"<{layer.k}i", *inputs)), label)
                for order in [parts.pop("g_idx", None), parts.pop("weight_g_idx", None)]:
                    if order:
                        self.assertEqual(order[2], struct.pack(f"<{layer.k}i", *sorted(layer.groups)), label)
                facts = [layer.facts()[i] for i in inputs]
                if folds and name.endswith("up"):
                    facts = [[row[i] for i in outputs] for row in facts]
                self.assertEqual(read_layer(parts, target, layer.bits, layer.n, layer.k, layer.group_size), facts, label)
            if folds:
                rows = {"bias": (bias, 4)} if up else {"bias": (bias, 4), "weight": (content["model.layers.0.up.weight"], 6)}
                for part, (tensor, size) in rows.items():
                    data = b"".join(tensor[2][size * i:size * (i + 1)] for i in outputs)
                    self.assertEqual(made[f"model.layers.0.up.{part}"], (*tensor[:2], data), label)

    def test_products(self):
        files.program = program
        if files.trouble():
            self.skipTest(files.trouble())
        with tempfile.TemporaryDirectory() as cache:
            for seed in range(0, checkpoints, 25):
                self.multiply(random.Random(1000000 + seed), cache, seed)

    def multiply(self, source, cache, seed):
        """Multiplies a layer, or a slice of its columns or of its rows, and compares with the product of plain numbers."""
        form = source.choice(FORMATS)
        bits = 4 if form == "awq" else source.choice([4, 8])
        ordered = form != "awq" and source.random() < 0.5
        group_size, n, m = 32, 64, 3
        k = group_size * source.choice([2, 4]) + source.choice([0, 0, 8, 24])
        zeros = [1 << (bits - 1)] if form == "symmetric" else range(1, 1 << bits)
        order = "none" if form == "awq" else "shuffled" if ordered else "natural"
        layer = Layer(source, bits, n, k, group_size, zeros, order, source.choice(["F16", "BF16"]))
        first, last = 0, k
        tensors = write_layer(layer, form if form != "packed" else "gptq_v2")
        if source.random() < 0.5 and form != "packed" and (ordered or k % group_size == 0):  # a row-parallel slice
            half = k // 16 * 8
            first, last = source.choice([(0, half), (half, k)])
            tensors = self.rows_of(tensors, layer, form, first, last, ordered)
        elif form == "packed":
            tensors = write_layer(layer, "packed")
        activations = [[files.fp16(source.gauss(0, 1)) for _ in range(last - first)] for _ in range(m)]
        folder = self.folder / f"run{seed}"
        model = folder / "model"
        model.mkdir(parents=True)
        (model / "model.safetensors").write_bytes(files.safetensors(tensors))
        (folder / "x.safetensors").write_bytes(files.safetensors({"activations": ("F16", [m, last - first],
                                                                                  files.halves(sum(activations, [])))}))
        if form == "packed":
            form = "gptq_v2" if "weight_zero_point" in tensors else "symmetric"
        if ordered and (first, last) == (0, k) and source.random() < 0.5:  # a sorted layer needs no activation order
            layout = "packed" if "weight_packed" in tensors else form
            subprocess.run([program, "convert", "--from", layout, "--to", layout, "--bits", str(bits), "--sort-activation-order",
                            "--input", str(model / "model.safetensors"), "--output", str(folder / "sorted.safetensors")],
                           capture_output=True, check=True)
            model, ordered = folder / "sorted.safetensors", False
        descriptor = f"w4a16_gemm:format={form},bits={bits},group_size={group_size},{files.TILES}"
        descriptor += ",activation_order=true" if ordered else ""
        done = subprocess.run([program, "run", descriptor, "--weights", str(model), "--input", str(folder / "x.safetensors"),
                               "--output", str(folder / "y.safetensors"), "--device", "cpu", "--cache-dir", cache],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, f"seed {seed}, {descriptor}: {done.stderr}")
        output = files.read_output(folder / "y.safetensors")[1]
        for x, got in zip(activations, output):
            wanted = [sum(x[i - first] * (layer.numbers[i][c] - layer.zeros[layer.groups[i]][c]) * layer.scale(layer.groups[i], c)
                          for i in range(first, last)) for c in range(n)]
            self.assertLess(math.dist(got, wanted), 6e-4 * math.hypot(*wanted), f"seed {seed}, {descriptor}")

    def rows_of(self, tensors, layer, form, first, last, ordered):
        """Input features first … last: with activation order scales and zeros stay whole."""
        made = dict(tensors)
        _, [rows, columns], data = tensors["qweight"]
        step = layer.k // rows
        made["qweight"] = ("I32", [(last - first) // step, columns], data[first // step * columns * 4:last // step * columns * 4])
        made["g_idx"] = ("I32", [last - first], struct.pack(f"<{last - first}i", *layer.groups[first:last]))
        if ordered:
            return made
        size = layer.group_size
        for name in ["scales", "qzeros"]:
            if name in made:
                kind, [count, columns], data = tensors[name]
                row = len(data) // count
                made[name] = (kind, [(last - first) // size, columns], data[first // size * row:last // size * row])
        del made["g_idx"]
        return made


if __name__ == "__main__":
    program = str(Path(sys.argv.pop(1)).resolve())
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        checkpoints = int(sys.argv.pop(1))
    unittest.main()
