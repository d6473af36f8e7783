"""Tests 4-bit checkpoints with `cubit run w4a16_gemm`, from file to file: w4a16_files_test.py <cubit>.

This file packs the input and computes the expected output by the published layouts of GPTQ and AutoAWQ, without any
code of cubit. The tests run on the CPU device and skip if the CPU device or NVRTC is missing. They need only the
standard library.
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

M, N, K, GROUP = 5, 64, 96, 32
TILES = "tile_m=16,tile_n=256"  # one kernel instead of a set, which takes longer to compile
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]
program = ""


def fp16(value):
    return struct.unpack("<e", struct.pack("<e", value))[0]


def bf16(value):
    """Converts to bf16 by cutting, without rounding."""
    return struct.unpack("<f", b"\0\0" + struct.pack("<f", value)[2:])[0]


def words(rows, bits=4):
    """Packs rows of words as little-endian int32: eight nibbles or four bytes per word, the lowest first."""
    return b"".join(struct.pack("<I", sum(part << bits * i for i, part in enumerate(word))) for row in rows for word in row)


def halves(values):
    return struct.pack(f"<{len(values)}e", *values)


class Layer:
    """A quantised layer as plain numbers: [k][n] and [group][n]."""

    def __init__(self, seed, zeros=range(1, 16), bits=4):
        source = random.Random(seed)
        self.bits = bits
        self.numbers = [[source.randrange(1 << bits) for _ in range(N)] for _ in range(K)]
        self.zeros = [[source.choice(zeros) for _ in range(N)] for _ in range(K // GROUP)]
        self.scales = [[fp16(source.uniform(0.005, 0.02)) for _ in range(N)] for _ in range(K // GROUP)]
        self.groups = [k // GROUP for k in range(K)]
        self.activations = [[fp16(source.gauss(0, 1)) for _ in range(K)] for _ in range(M)]

    def product(self):
        weights = [[(self.numbers[k][n] - self.zeros[g][n]) * self.scales[g][n] for n in range(N)]
                   for k, g in enumerate(self.groups)]
        return [[sum(row[k] * weights[k][n] for k in range(K)) for n in range(N)] for row in self.activations]

    def gptq(self, stored_less):
        size = 32 // self.bits  # values per word
        by_k = [[[self.numbers[size * i + j][n] for j in range(size)] for n in range(N)] for i in range(K // size)]
        zeros = [[[row[size * i + j] - stored_less for j in range(size)] for i in range(N // size)] for row in self.zeros]
        return dict(self.common(), qweight=("I32", [K // size, N], words(by_k, self.bits)),
                    qzeros=("I32", [K // GROUP, N // size], words(zeros, self.bits)))

    def awq(self):
        def pack(rows):
            return words([[[row[8 * i + j] for j in AWQ_ORDER] for i in range(N // 8)] for row in rows])

        return dict(self.common(), qweight=("I32", [K, N // 8], pack(self.numbers)),
                    qzeros=("I32", [K // GROUP, N // 8], pack(self.zeros)))

    def common(self):
        return {"scales": ("F16", [K // GROUP, N], halves(sum(self.scales, []))),
                "activations": ("F16", [M, K], halves(sum(self.activations, [])))}


def safetensors(content):
    header, data = {}, b""
    for name, (kind, shape, payload) in content.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(payload)]}
        data += payload
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def read_output(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    tensor = json.loads(data[8:8 + length])["output"]
    rows, columns = tensor["shape"]
    values = struct.unpack(f"<{rows * columns}e", data[8 + length:])
    return tensor["dtype"], [list(values[row * columns:(row + 1) * columns]) for row in range(rows)]


def ask(*words):
    return json.loads(subprocess.run([program, *words, "--json"], capture_output=True, text=True, check=True).stdout)


def trouble():
    """The reason why nothing can be executed on this machine; empty if it can."""
    on_cpu = ask("devices")["cpu"]["trouble"]
    return on_cpu or ask("explain", "stream_read", "--arch", "sm_80", "--cache-dir", "").get("resources_unavailable", "")


class Files(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if trouble():
            raise unittest.SkipTest(trouble())

    def run_file(self, descriptor, content):
        return self.run_files(descriptor, {"in.safetensors": safetensors(content)})

    def run_files(self, descriptor, files, *options):
        """`files`: bytes by name; in.safetensors is the input. In options, "@" stands for the folder of the files."""
        with tempfile.TemporaryDirectory() as folder:
            for name, data in files.items():
                Path(folder, name).write_bytes(data)
            source, result = Path(folder, "in.safetensors"), Path(folder, "out.safetensors")
            command = [program, "run", descriptor, "--input", str(source), "--output", str(result), "--device", "cpu",
                       "--check", "--cache-dir", "", *(option.replace("@", folder) for option in options)]
            done = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            kind, output = read_output(result)
            self.assertEqual(kind, "F16")
            return output

    def expect(self, output, expected):
        self.assertEqual([len(row) for row in output], [len(row) for row in expected])
        for got, wanted in zip(output, expected):
            self.assertLess(math.dist(got, wanted), 6e-4 * math.hypot(*wanted))

    def test_gptq(self):
        layer = Layer(1, zeros=range(1, 17))  # 16 is stored as 15
        self.expect(self.run_file(f"w4a16_gemm:format=gptq,group_size=32,{TILES}", layer.gptq(stored_less=1)),
                    layer.product())

    def test_gptq_with_activation_order(self):
        layer = Layer(7)
        random.Random(8).shuffle(layer.groups)
        content = dict(layer.gptq(stored_less=1), g_idx=("I32", [K], struct.pack(f"<{K}i", *layer.groups)))
        self.expect(self.run_file(f"w4a16_gemm:group_size=32,{TILES},activation_order=true", content), layer.product())

    def checkpoint_of(self, layers):
        """The files of a run: activations, and a checkpoint with the layers, by name."""
        first = next(iter(layers.values()))
        content = {f"{name}.{part}": tensor for name, layer in layers.items()
                   for part, tensor in layer.items() if part != "activations"}
        return {"in.safetensors": safetensors({"activations": first["activations"]}),
                "model.safetensors": safetensors(content)}

    def test_three_layers_in_one_launch(self):
        layers = [Layer(seed) for seed in (31, 32, 33)]
        for layer in layers:
            layer.activations = layers[0].activations
        for form, pack in (("gptq", lambda layer: layer.gptq(stored_less=1)), ("awq", Layer.awq)):
            files = self.checkpoint_of({name: pack(layer) for name, layer in zip("qkv", layers)})
            output = self.run_files(f"w4a16_gemm:format={form},group_size=32,{TILES}", files, "--weights",
                                    "@/model.safetensors", "--layer", "q", "--layer", "k", "--layer", "v")
            self.expect(output, [sum(rows, []) for rows in zip(*(layer.product() for layer in layers))])

    def test_gate_and_up_projection_as_two_layers(self):
        gate, up = Layer(34), Layer(35)
        up.activations = gate.activations
        files = self.checkpoint_of({"gate": gate.gptq(stored_less=1), "up": up.gptq(stored_less=1)})
        output = self.run_files(f"w4a16_gemm:group_size=32,{TILES},function=silu_gate", files, "--weights",
                                "@/model.safetensors", "--layer", "gate", "--layer", "up")
        self.expect(output, [[g / (1 + math.exp(-g)) * u for g, u in zip(*rows)]
                             for rows in zip(gate.product(), up.product())])

    def test_layers_that_one_launch_does_not_take(self):
        one, other = Layer(36), Layer(37)
        random.Random(8).shuffle(other.groups)
        order = {layer: ("I32", [K], struct.pack(f"<{K}i", *layer.groups)) for layer in (one, other)}
        files = self.checkpoint_of({name: dict(layer.gptq(stored_less=1), g_idx=order[layer])
                                    for name, layer in (("a", one), ("b", other))})
        options = ("--weights", "@/model.safetensors", "--layer", "a", "--layer", "b")
        self.expect_refused(f"w4a16_gemm:group_size=32,{TILES},activation_order=true", files, options,
                            "--layer b: its g_idx differs from that of \"a\"")
        self.expect_refused(f"w4a16_gemm:group_size=32,{TILES},layers=3", files, options,
                            "has another number of layers; ask for layers=2, or leave layers out")
        self.expect_refused("w4_quantize", files, options, "2 options --layer: w4_quantize takes one layer")
        self.expect_refused(f"w4a16_gemm:group_size=32,{TILES}", files, options + ("--layer", "a", "--layer", "b"),
                            "4 options --layer: one launch takes at most 3 layers")

    def expect_refused(self, descriptor, files, options, sentence):
        with tempfile.TemporaryDirectory() as folder:
            for name, data in files.items():
                Path(folder, name).write_bytes(data)
            command = [program, "run", descriptor, "--input", str(Path(folder, "in.safetensors")), "--device", "cpu",
                       *(option.replace("@", folder) for option in options)]
            done = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(sentence, done.stderr)

    def test_a_packed_layer(self):
        for zeros, bits, form in [(range(16), 4, "gptq_v2"), ([8], 4, "symmetric"), (range(256), 8, "gptq_v2")]:
            layer, size = Layer(17, zeros=zeros, bits=bits), 32 // bits
            if bits == 4:
                random.Random(8).shuffle(layer.groups)
            rows = [[[by_n[n] for by_n in layer.numbers[at:at + size]] for at in range(0, K, size)] for n in range(N)]
            content = {"a.weight_packed": ("I32", [N, K // size], words(rows, bits)),
                       "a.weight_scale": ("F16", [N, K // GROUP], halves([row[n] for n in range(N) for row in layer.scales])),
                       "a.weight_shape": ("I64", [2], struct.pack("<2q", N, K)),
                       "a.weight_g_idx": ("I32", [K], struct.pack(f"<{K}i", *layer.groups))}
            if form == "gptq_v2":
                by_group = [[row[at:at + size] for row in layer.zeros] for at in range(0, N, size)]
                content["a.weight_zero_point"] = ("I32", [N // size, K // GROUP], words(by_group, bits))
            given = {"in.safetensors": safetensors({"activations": layer.common()["activations"]}),
                     "model.safetensors": safetensors(content)}
            options = ("--weights", "@/model.safetensors", "--layer", "a")
            fields = f"w4a16_gemm:group_size=32,bits={bits},{TILES}" + (",activation_order=true" if bits == 4 else "")
            with self.subTest(bits=bits, form=form):
                self.assertIn("compressed-tensors has packed this layer, with", self.refusal(given, *options, descriptor=fields))
                self.expect(self.run_files(f"{fields},format={form}", given, *options), layer.product())

    def test_tensor_parallelism(self):
        layer, bias = Layer(20), [fp16(0.01 * n) for n in range(N)]
        random.Random(21).shuffle(layer.groups)
        for order, form in [(True, "gptq"), (False, "gptq_v2"), (False, "awq")]:
            if not order:
                layer.groups = [k // GROUP for k in range(K)]
            content = layer.awq() if form == "awq" else layer.gptq(stored_less=1 if form == "gptq" else 0)
            del content["activations"]
            content["bias"] = ("F16", [N], halves(bias))
            if order:
                content["g_idx"] = ("I32", [K], struct.pack(f"<{K}i", *layer.groups))
            whole = [[x + bias[n] for n, x in enumerate(row)] for row in layer.product()]
            fields = f"w4a16_gemm:format={form},group_size=32,bias=true,{TILES}" + (",activation_order=true" if order else "")

            def run(rank, activations):
                given = {"model.safetensors": safetensors(content), "in.safetensors": safetensors({
                    "activations": ("F16", [M, len(activations[0])], halves(sum(activations, [])))})}
                return self.run_files(fields, given, "--weights", "@/model.safetensors", "--tensor-parallel", rank)

            with self.subTest(form=form):
                halves_of = [run(f"{rank}/2", layer.activations) for rank in range(2)]
                self.expect([first + second for first, second in zip(*halves_of)], whole)
                parts = [run(f"{rank}/3", [row[rank * 32:rank * 32 + 32] for row in layer.activations]) for rank in range(3)]
                summed = [[sum(values) for values in zip(*rows)] for rows in zip(*parts)]
                for got, wanted in zip(summed, whole):
                    self.assertLess(math.dist(got, wanted), 2e-3 * math.hypot(*wanted))
        files = {"model.safetensors": safetensors(content), "in.safetensors": safetensors({"activations": layer.common()["activations"]})}
        for rank, sentence in [("2/2", "is not a rank and a number of ranks; give RANK/SIZE"), ("1", "give RANK/SIZE"),
                               ("0/5", "rank 0 of 5: n = 64 has no slices of multiples of 8")]:
            self.assertIn(sentence, self.refusal(files, "--weights", "@/model.safetensors", "--tensor-parallel", rank,
                                                 descriptor=fields))

    def test_a_row_parallel_slice_with_activation_order(self):
        layer, first, last = Layer(18), 32, 64
        random.Random(19).shuffle(layer.groups)
        whole = layer.gptq(stored_less=1)
        content = {"scales": whole["scales"], "qzeros": whole["qzeros"],
                   "qweight": ("I32", [(last - first) // 8, N], whole["qweight"][2][first // 8 * N * 4:last // 8 * N * 4]),
                   "g_idx": ("I32", [last - first], struct.pack(f"<{last - first}i", *layer.groups[first:last])),
                   "activations": ("F16", [M, last - first], halves([x for row in layer.activations for x in row[first:last]]))}
        for row in layer.activations:
            row[:first], row[last:] = [0] * first, [0] * (K - last)
        for fields in [f"w4a16_gemm:group_size=32,{TILES},activation_order=true", "w4a16_gemm:group_size=32,activation_order=true"]:
            self.expect(self.run_file(fields, content), layer.product())

    def test_gptq_of_bytes(self):
        layer = Layer(14, zeros=[1, 100, 128, 256], bits=8)  # 256 is stored as 255
        self.expect(self.run_file(f"w4a16_gemm:bits=8,group_size=32,{TILES}", layer.gptq(stored_less=1)), layer.product())
        random.Random(15).shuffle(layer.groups)
        content = dict(layer.gptq(stored_less=1), g_idx=("I32", [K], struct.pack(f"<{K}i", *layer.groups)))
        self.expect(self.run_file(f"w4a16_gemm:bits=8,group_size=32,{TILES},activation_order=true", content), layer.product())

    def test_symmetric_bytes(self):
        layer = Layer(16, zeros=[128], bits=8)
        content = layer.gptq(stored_less=0)
        self.expect(self.run_file(f"w4a16_gemm:format=gptq_v2,bits=8,group_size=32,{TILES}", content), layer.product())
        del content["qzeros"]
        self.expect(self.run_file(f"w4a16_gemm:format=symmetric,bits=8,group_size=32,{TILES}", content), layer.product())

    def test_gptq_v2(self):
        layer = Layer(2)
        self.expect(self.run_file(f"w4a16_gemm:format=gptq_v2,group_size=32,{TILES}", layer.gptq(stored_less=0)),
                    layer.product())

    def test_awq(self):
        layer = Layer(3)
        self.expect(self.run_file(f"w4a16_gemm:format=awq,group_size=32,{TILES}", layer.awq()), layer.product())

    def test_symmetric(self):
        layer = Layer(4, zeros=[8])
        content = layer.gptq(stored_less=0)
        del content["qzeros"]
        self.expect(self.run_file(f"w4a16_gemm:format=symmetric,group_size=32,{TILES}", content), layer.product())

    def test_gate_and_up_with_bias(self):
        layer = Layer(5)
        bias = [fp16(0.01 * n) for n in range(N)]
        content = dict(layer.awq(), bias=("F16", [N], halves(bias)))
        sums = [[value + bias[n] for n, value in enumerate(row)] for row in layer.product()]
        expected = [[gate / (1 + math.exp(-gate)) * up for gate, up in zip(row[:N // 2], row[N // 2:])] for row in sums]
        descriptor = f"w4a16_gemm:format=awq,group_size=32,{TILES},function=silu_gate,bias=true"
        self.expect(self.run_file(descriptor, content), expected)

    def test_one_layer_of_a_checkpoint_in_one_file(self):
        layer, content, name = Layer(9), {}, "model.layers.7.mlp.down_proj"
        tensors = layer.gptq(stored_less=1)
        files = {"in.safetensors": safetensors({"activations": tensors.pop("activations")})}
        for i, other in enumerate([f"model.layers.{j}.mlp.down_proj" for j in (0, 70)] + [name]):
            source = tensors if other == name else Layer(20 + i).gptq(stored_less=1)
            content.update({f"{other}.{part}": value for part, value in source.items() if part != "activations"})
        content[name + ".g_idx"] = ("I32", [K], struct.pack(f"<{K}i", *layer.groups))  # the same as the default groups
        content["model.norm.weight"] = ("BF16", [2], b"abcd")
        files["model.safetensors"] = safetensors(content)
        self.expect(self.run_files("w4a16_gemm:group_size=32", files, "--weights", "@/model.safetensors", "--layer", name),
                    layer.product())

    def test_what_a_layer_has_beside_its_weights(self):
        layer, bias = Layer(12), [fp16(0.01 * n) for n in range(N)]
        tensors = layer.gptq(stored_less=1)
        files = {"in.safetensors": safetensors({"activations": tensors.pop("activations")})}
        content = {f"a.{part}": value for part, value in tensors.items()}
        content["a.output_scale"] = ("F32", [1], struct.pack("<f", 3))  # the operator ignores this tensor
        files["model.safetensors"] = safetensors(content)
        options = ("--weights", "@/model.safetensors", "--layer", "a")
        self.expect(self.run_files("w4a16_gemm:group_size=32", files, *options), layer.product())
        content["a.bias"] = ("F16", [N], halves(bias))
        files["model.safetensors"] = safetensors(content)
        self.assertIn("tensor a.bias: w4a16_gemm:group_size=32 adds no bias; add bias=true to the descriptor",
                      self.refusal(files, *options))
        self.expect(self.run_files("w4a16_gemm:group_size=32,bias=true", files, *options),
                    [[value + bias[n] for n, value in enumerate(row)] for row in layer.product()])

    def sharded(self, layer, name):
        """Writes the layer in three shards. One shard holds its scales and another layer of the same shapes."""
        tensors = layer.gptq(stored_less=1)
        random.Random(5).shuffle(layer.groups)
        activations = tensors.pop("activations")
        other = {f"model.layers.1.up.{part}": value for part, value in Layer(31).gptq(stored_less=1).items()}
        shards = {"model-00001-of-00003.safetensors": dict(other, **{name + ".scales": tensors["scales"]}),
                  "model-00002-of-00003.safetensors": {name + ".qweight": tensors["qweight"],
                                                       name + ".qzeros": tensors["qzeros"]},
                  "model-00003-of-00003.safetensors": {
                      name + ".g_idx": ("I32", [K], struct.pack(f"<{K}i", *layer.groups))}}
        index = {"metadata": {"total_size": 1},
                 "weight_map": {tensor: shard for shard, content in shards.items() for tensor in content}}
        files = {shard: safetensors(content) for shard, content in shards.items()}
        files["model.safetensors.index.json"] = json.dumps(index, indent=2).encode()
        files["in.safetensors"] = safetensors({"activations": activations})
        return files

    def test_one_layer_of_a_checkpoint_in_shards(self):
        layer, name = Layer(10), "model.layers.0.mlp.down_proj"
        files = self.sharded(layer, name)
        product = layer.product()
        descriptor = "w4a16_gemm:group_size=32,activation_order=true"
        self.expect(self.run_files(descriptor, files, "--weights", "@/model.safetensors.index.json", "--layer", name),
                    product)
        files["readme.md"] = b"a folder of a model has other files too"
        self.expect(self.run_files(descriptor, files, "--weights", "@/.", "--layer", name), product)

    def refusal(self, files, *options, descriptor="w4a16_gemm:group_size=32"):
        with tempfile.TemporaryDirectory() as folder:
            for name, data in files.items():
                Path(folder, name).write_bytes(data)
            command = [program, "run", descriptor, "--input", str(Path(folder, "in.safetensors")),
                       *(option.replace("@", folder) for option in options)]
            done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("\n"), 1)
        return done.stderr

    def test_a_dense_layer_is_quantised(self):
        source = random.Random(21)
        dense = ("F16", [N, K], halves([source.gauss(0, 1) for _ in range(N * K)]))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.safetensors")
            path.write_bytes(safetensors({"a.proj.weight": dense, "a.proj.bias": ("F16", [N], halves([0] * N))}))
            command = [program, "run", "w4_quantize:group_size=32", "--weights", str(path), "--layer", "a.proj",
                       "--output", str(Path(folder, "out.safetensors")), "--device", "cpu", "--check", "--cache-dir", ""]
            done = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(b"qweight", Path(folder, "out.safetensors").read_bytes())

    def test_a_dense_layer_is_multiplied(self):
        layer, source = Layer(22), random.Random(23)
        weights = [[fp16(source.gauss(0, 0.1)) for _ in range(K)] for _ in range(N)]
        bias = [fp16(0.01 * n) for n in range(N)]
        product = [[sum(x * w for x, w in zip(row, column)) for column in weights] for row in layer.activations]
        content = {"head.weight": ("F16", [N, K], halves(sum(weights, [])))}
        files = {"in.safetensors": safetensors({"activations": layer.common()["activations"]}),
                 "model.safetensors": safetensors(content)}
        options = ("--arch", "sm_90a", "--weights", "@/model.safetensors", "--layer", "head")
        dense = "w4a16_gemm:format=dense,tile_m=64"
        self.expect(self.run_files(dense, files, *options), product)
        content["head.bias"] = ("F16", [N], halves(bias))
        files["model.safetensors"] = safetensors(content)
        self.assertIn("tensor head.bias: w4a16_gemm:format=dense,tile_m=64 adds no bias; add bias=true to the descriptor",
                      self.refusal(files, *options, descriptor=dense))
        self.expect(self.run_files(dense + ",bias=true", files, *options),
                    [[value + bias[n] for n, value in enumerate(row)] for row in product])

    def test_what_is_no_layer_of_the_operator_is_one_sentence(self):
        def refusal(descriptor, content, *options):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "model.safetensors")
                path.write_bytes(safetensors(content))
                done = subprocess.run([program, "run", descriptor, "--weights", str(path), *options], capture_output=True,
                                      text=True)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
            return done.stderr

        layer = {f"a.{name}": tensor for name, tensor in Layer(1).gptq(stored_less=1).items() if name != "activations"}
        dense = {"a.weight": ("F16", [N, K], halves([0] * (N * K)))}
        named = ("--layer", "a")
        self.assertIn("--weights: a checkpoint has no activations; give the activations with --input",
                      refusal("w4a16_gemm:group_size=32", layer, *named))
        self.assertRegex(refusal("w4_quantize", layer, *named),
                         "tensor [a-z]+: w4_quantize has no such input; accepted: weights")
        self.assertIn("tensor weights: w4a16_gemm has no such input; quantise them first, by w4_quantize",
                      refusal("w4a16_gemm", dense, *named))
        self.assertIn('has no tensors without a layer name; accepted: "a"', refusal("w4a16_gemm", layer))

    def test_scales_and_bias_of_the_other_type(self):
        layer = Layer(13)
        layer.scales = [[bf16(scale) for scale in row] for row in layer.scales]
        content = layer.gptq(stored_less=1)
        content["scales"] = ("BF16", [K // GROUP, N], b"".join(struct.pack("<f", x)[2:] for x in sum(layer.scales, [])))
        content["bias"] = ("BF16", [N], b"".join(struct.pack("<f", bf16(0.1 * n))[2:] for n in range(N)))
        expected = [[value + bf16(0.1 * n) for n, value in enumerate(row)] for row in layer.product()]
        self.expect(self.run_file("w4a16_gemm:group_size=32,bias=true", content), expected)

    def test_what_a_sharded_checkpoint_lacks_is_one_sentence(self):
        name = "model.layers.0.mlp.down_proj"
        files = self.sharded(Layer(11), name)
        options = ("--weights", "@/model.safetensors.index.json", "--layer")
        self.assertIn('accepted: "model.layers.0.mlp.down_proj", "model.layers.1.up"',
                      self.refusal(files, *options, "model.layers.0.mlp"))
        self.assertIn("g_idx[0] = ", self.refusal(files, *options, name))  # an order that nobody asked for
        twice = dict(files, **{"in.safetensors": safetensors(Layer(11).common())})
        self.assertIn("tensor scales: is both in --input and", self.refusal(twice, *options, name))
        missing = {path: data for path, data in files.items() if "00002" not in path}
        self.assertIn("model-00002-of-00003.safetensors: does not exist, although the index", self.refusal(missing, *options, name))
        files["model-00002-of-00003.safetensors"] = files["model-00003-of-00003.safetensors"]
        self.assertIn(f'has no tensor "{name}.qweight", although the index names it',
                      self.refusal(files, *options, name))

    def test_a_missing_tensor_is_one_sentence(self):
        content = Layer(6).awq()
        del content["qzeros"]
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "in.safetensors")
            source.write_bytes(safetensors(content))
            command = [program, "run", "w4a16_gemm:format=awq,group_size=32", "--input", str(source), "--device", "cpu"]
            done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("tensors without qzeros: w4a16_gemm:format=awq,group_size=32 needs", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    program = sys.argv.pop(1)
    unittest.main()
