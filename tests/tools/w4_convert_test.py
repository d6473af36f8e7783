"""Tests cubit convert from file to file: w4_convert_test.py <cubit>. Needs only Python's standard library.

w4a16_files_test.py packs the files by the published layouts, without any code of cubit. Tests that need the CPU device
and NVRTC skip without them.
"""

import itertools
import math
import random
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import w4a16_files_test as files
from w4a16_files_test import GROUP, K, N, Layer

FORMATS = ["gptq", "gptq_v2", "awq", "symmetric"]
program = ""


def packed(layer, form):
    """Returns the layer's tensors in a format, without activations."""
    content = layer.awq() if form == "awq" else layer.gptq(stored_less=1 if form == "gptq" else 0)
    del content["activations"]
    if form == "symmetric":
        del content["qzeros"]
    return content


def model(form, zeros=range(1, 16), g_idx=None, bits=4):
    """Returns two layers between tensors of other kinds, in the order of a checkpoint."""
    content = {"model.embed_tokens.weight": ("BF16", [5, 3], bytes(range(30)))}
    for number in range(2):
        name = f"model.layers.{number}.mlp.down_proj."
        tensors = packed(Layer(20 + number, zeros=zeros, bits=bits), form)
        if g_idx is not None:
            tensors["g_idx"] = ("I32", [K], struct.pack(f"<{K}i", *g_idx))
        for key in ["qweight", "qzeros", "scales", "g_idx"]:
            if key in tensors:
                content[name + key] = tensors[key]
        content[name + "bias"] = ("F16", [N], files.halves([0.5] * N))
    content["empty"] = ("F32", [0, 4], b"")
    return content


def with_metadata(content):
    data = files.safetensors(content)
    length = struct.unpack("<Q", data[:8])[0]
    header = data[8:8 + length].rstrip()
    header = b'{"__metadata__":{"format":"pt","note":"a \\"b\\""},' + header[1:]
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + data[8 + length:]


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def convert(self, source, target, data, *more):
        """Converts and returns the bytes of the result."""
        (self.folder / "in.safetensors").write_bytes(data)
        done = self.run_program(source, target, *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return (self.folder / "out.safetensors").read_bytes()

    def run_program(self, source, target, *more):
        return subprocess.run([program, "convert", "--from", source, "--to", target, "--input",
                               str(self.folder / "in.safetensors"), "--output", str(self.folder / "out.safetensors"), *more],
                              capture_output=True, text=True)

    def refused(self, source, target, data, sentence, *more):
        (self.folder / "in.safetensors").write_bytes(data)
        done = self.run_program(source, target, *more)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(sentence, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["in.safetensors"])


def parse(data):
    header, start = files.json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]]), 8 + struct.unpack("<Q", data[:8])[0]
    metadata = header.pop("__metadata__", None)
    return metadata, {name: (tensor["dtype"], tensor["shape"], data[start + tensor["data_offsets"][0]:start + tensor["data_offsets"][1]])
                      for name, tensor in header.items()}


class Layouts(Folder):
    def test_every_pair_is_what_the_packing_rules_say(self):
        for source, target in itertools.permutations(FORMATS, 2):
            with self.subTest(source=source, target=target):
                zeros = [8] if "symmetric" in (source, target) else range(1, 16)
                data = with_metadata(model(source, zeros))
                metadata, result = parse(self.convert(source, target, data, "--threads", "3"))
                self.assertEqual(result, model(target, zeros))
                self.assertEqual(metadata, {"format": "pt", "note": 'a "b"'})

    def test_there_and_back_gives_the_same_bytes(self):
        for source, target in itertools.permutations(FORMATS, 2):
            with self.subTest(source=source, target=target):
                zeros = [8] if "symmetric" in (source, target) else range(1, 16)
                first = self.convert(source, target, files.safetensors(model(source, zeros)))
                second = self.convert(target, source, first)
                self.assertEqual(self.convert(source, target, second, "--threads", "1"), first)
                self.assertEqual(parse(second)[1], model(source, zeros))

    def test_a_layer_without_a_name(self):
        data = files.safetensors(packed(Layer(3), "gptq"))
        self.assertEqual(parse(self.convert("gptq", "awq", data))[1], packed(Layer(3), "awq"))

    def test_weights_of_bytes(self):
        forms = ["gptq", "gptq_v2", "symmetric"]
        for source, target in itertools.permutations(forms, 2):
            with self.subTest(source=source, target=target):
                zeros = [128] if "symmetric" in (source, target) else [1, 2, 100, 254, 255]
                data = files.safetensors(model(source, zeros, bits=8))
                self.assertEqual(parse(self.convert(source, target, data, "--bits", "8"))[1], model(target, zeros, bits=8))

    def test_tensors_of_types_that_nobody_knows_are_copied(self):
        content = model("gptq")
        content["model.scales"] = ("F8_E8M0", [3, 1, 1, 1, 1, 1, 1, 1, 1], b"abc")
        content["rotation"] = ("C64", [1], bytes(8))
        _, result = parse(self.convert("gptq", "awq", files.safetensors(content)))
        self.assertEqual({name: result[name] for name in ["model.scales", "rotation"]},
                         {name: content[name] for name in ["model.scales", "rotation"]})

    def test_json(self):
        (self.folder / "in.safetensors").write_bytes(files.safetensors(model("awq")))
        done = self.run_program("awq", "gptq", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(files.json.loads(done.stdout), {"from": "awq", "to": "gptq", "bits": 4, "layers": 2, "others": 4,
                                                         "output_file": str(self.folder / "out.safetensors")})

    def test_the_output_is_not_the_input(self):
        path, link = self.folder / "in.safetensors", self.folder / "link"
        data = files.safetensors(model("awq"))
        path.write_bytes(data)
        link.symlink_to(path)
        for output in [path, link]:
            done = subprocess.run([program, "convert", "--from", "awq", "--to", "gptq", "--input", str(path), "--output",
                                   str(output)], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"--output {output}: is the input", done.stderr)
            self.assertEqual(path.read_bytes(), data)


def pack_quantized(layer, zeros=True, g_idx=None, name=""):
    """The layer as compressed-tensors packs it: values of `bits` bits along rows of n, the lowest first."""
    size = 32 // layer.bits

    def along(rows):
        return files.words([[row[at:at + size] for at in range(0, len(row), size)] for row in rows], layer.bits)

    groups = len(layer.scales)
    content = {name + "weight_packed": ("I32", [N, K // size], along([[layer.numbers[k][n] for k in range(K)] for n in range(N)])),
               name + "weight_scale": ("F16", [N, groups], files.halves([layer.scales[g][n] for n in range(N) for g in range(groups)])),
               name + "weight_shape": ("I64", [2], struct.pack("<2q", N, K))}
    if zeros:
        by_group = [[[layer.zeros[g][size * i + j] for j in range(size)] for g in range(groups)] for i in range(N // size)]
        content[name + "weight_zero_point"] = ("I32", [N // size, groups], files.words(by_group, layer.bits))
    if g_idx is not None:
        content[name + "weight_g_idx"] = ("I32", [K], struct.pack(f"<{K}i", *g_idx))
    return content


class Packed(Folder):
    """pack-quantized of compressed-tensors."""

    SHUFFLED = [k // GROUP for k in range(K)]
    random.Random(9).shuffle(SHUFFLED)

    def test_to_and_from_it(self):
        for bits, g_idx in itertools.product([4, 8], [None, self.SHUFFLED]):
            middle = 1 << (bits - 1)
            for form, zeros in [("gptq", range(1, 2 * middle)), ("gptq_v2", range(2 * middle)), ("awq", range(16)),
                                ("symmetric", [middle])]:
                if form == "awq" and (bits == 8 or g_idx):
                    continue
                with self.subTest(bits=bits, form=form, g_idx=g_idx is not None):
                    layer = Layer(3, zeros=zeros, bits=bits)
                    plain = packed(layer, form)
                    if g_idx:
                        plain["g_idx"] = ("I32", [K], struct.pack(f"<{K}i", *g_idx))
                    made = pack_quantized(layer, form != "symmetric", g_idx)
                    options = ("--bits", str(bits))
                    self.assertEqual(parse(self.convert(form, "packed", files.safetensors(plain), *options))[1], made)
                    self.assertEqual(parse(self.convert("packed", form, files.safetensors(made)))[1], plain)

    def test_layers_with_and_without_zeros(self):
        first, second = Layer(1), Layer(2, zeros=[8])
        content = {**pack_quantized(first, name="a."), **pack_quantized(second, zeros=False, name="b."),
                   "norm.weight": ("BF16", [2], b"abcd")}
        expected = {**{"a." + name: tensor for name, tensor in packed(first, "gptq_v2").items()},
                    **{"b." + name: tensor for name, tensor in packed(second, "gptq_v2").items()},
                    "norm.weight": ("BF16", [2], b"abcd")}
        self.assertEqual(parse(self.convert("packed", "gptq_v2", files.safetensors(content)))[1], expected)

    def test_what_is_refused(self):
        good = pack_quantized(Layer(1))
        for name, tensor, sentence in [
                ("weight_shape", None, 'there is no "weight_shape"; a packed layer has NAME.weight_packed'),
                ("weight_scale", None, 'there is no "weight_scale"'),
                ("weight_shape", ("I64", [2], struct.pack("<2q", N, 3 * K)), "weights of [64, 288] have [64, 36] words of 4 bits, "
                 "or [64, 72] of 8"),
                ("weight_shape", ("I64", [2], struct.pack("<2q", N, -8)), "the weight has [64, -8]; accepted: multiples of 8"),
                ("weight_shape", ("I32", [2], struct.pack("<2i", N, K)), "it is not the shape of a weight"),
                ("weight_packed", ("I32", [N, K * 3 // 32], bytes(N * K * 3 // 8)), "it has weights of 3 bits; accepted: 4 and 8"),
                ("weight_scale", ("F16", [N, 5], bytes(10 * N)), "no group size gives k = 96 as many groups as 5"),
                ("weight_zero_point", ("I32", [N, 3], bytes(12 * N)), "4-bit zeros of n = 64 and 3 groups have [8, 3]"),
                ("weight_g_idx", ("I32", [K], struct.pack(f"<{K}i", *[7] * K)), "g_idx[0] = 7, but there are 3 groups")]:
            with self.subTest(name=name, sentence=sentence):
                content = dict(good)
                content.pop(name, None)
                if tensor:
                    content[name] = tensor
                self.refused("packed", "gptq_v2", files.safetensors(content), sentence)
        self.refused("packed", "gptq_v2", files.safetensors(packed(Layer(1), "gptq")), "has no packed layer")
        self.refused("gptq", "packed", files.safetensors(packed(Layer(1, zeros=[16]), "gptq")), "gptq_v2 cannot store it")
        self.refused("packed", "gptq_v2", files.safetensors(good), "it has weights of 4 bits, not --bits 8", "--bits", "8")


class SeveralFiles(Folder):
    INDEX = "model.safetensors.index.json"

    def write(self, content, files_of):
        """Writes a checkpoint of two files; files_of(number, name) gives the tensors of each file."""
        folder = self.folder / "in"
        folder.mkdir(exist_ok=True)
        parts = [{}, {}]
        for number, (name, tensor) in enumerate(content.items()):
            parts[files_of(number, name)][name] = tensor
        names = [f"model-0000{i + 1}-of-00002.safetensors" for i in range(2)]
        for name, part in zip(names, parts):
            (folder / name).write_bytes(with_metadata(part))
        index = {"metadata": {"total_size": 7, "by": "a tool"}, "weight_map": {name: names[files_of(number, name)]
                                                                            for number, name in enumerate(content)}}
        (folder / self.INDEX).write_text(files.json.dumps(index))
        return folder

    def run_several(self, source, target, folder, output):
        return subprocess.run([program, "convert", "--from", source, "--to", target, "--input", str(folder), "--output",
                               str(output)], capture_output=True, text=True)

    def read(self, folder):
        """Returns all tensors and the index. The index must name the file of each tensor."""
        index = files.json.loads((folder / self.INDEX).read_text())
        tensors = {}
        for path in sorted(folder.glob("*.safetensors")):
            metadata, part = parse(path.read_bytes())
            self.assertEqual(metadata, {"format": "pt", "note": 'a "b"'})
            self.assertEqual({name for name, file in index["weight_map"].items() if file == path.name}, set(part))
            tensors.update(part)
        self.assertEqual(set(tensors), set(index["weight_map"]))
        self.assertEqual(index["metadata"], {"total_size": sum(len(data) for _, _, data in tensors.values()), "by": "a tool"})
        return tensors

    def test_layers_that_lie_across_them(self):
        for source, target in [("gptq", "awq"), ("awq", "gptq_v2"), ("gptq_v2", "symmetric"), ("symmetric", "gptq")]:
            for files_of in [lambda number, name: number % 2, lambda number, name: int("qweight" in name)]:
                with self.subTest(source=source, target=target):
                    zeros = [8] if "symmetric" in (source, target) else range(1, 16)
                    folder = self.write(model(source, zeros), files_of)
                    there = self.folder / "there"
                    done = self.run_several(source, target, folder / self.INDEX, there)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(self.read(there), model(target, zeros))
                    done = self.run_several(target, source, there, self.folder / "back")
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(self.read(self.folder / "back"), model(source, zeros))

    def test_a_layer_runs_from_the_result(self):
        folder = self.write(model("gptq"), lambda number, name: number % 2)
        self.assertEqual(self.run_several("gptq", "awq", folder, self.folder / "there").returncode, 0)
        done = subprocess.run([program, "run", "w4a16_gemm:format=awq,group_size=%d,element=fp16,bias=true" % GROUP, "--weights",
                               str(self.folder / "there"), "--layer", "model.layers.1.mlp.down_proj"], capture_output=True, text=True)
        self.assertIn("activations", done.stderr)  # the list of all missing tensors

    def test_the_folder_is_not_the_inputs(self):
        folder = self.write(model("gptq"), lambda number, name: number % 2)
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        done = self.run_several("gptq", "awq", folder, folder)
        self.assertEqual(done.returncode, 2)
        self.assertIn("is the input", done.stderr)
        self.assertEqual({path.name: path.read_bytes() for path in folder.iterdir()}, before)

    def test_no_output_leads_to_an_input_of_another_name(self):
        folder = self.write(model("gptq"), lambda number, name: number % 2)
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        for name in ["model-00001-of-00002.safetensors", self.INDEX]:
            out = self.folder / ("out " + name)
            out.mkdir()
            (out / name).symlink_to(folder / "model-00002-of-00002.safetensors")
            done = self.run_several("gptq", "awq", folder, out)
            self.assertEqual(done.returncode, 2)
            self.assertIn("is the input", done.stderr)
            self.assertEqual([path.name for path in out.iterdir()], [name])
            self.assertEqual({path.name: path.read_bytes() for path in folder.iterdir()}, before)

    def test_files_that_do_not_belong_together(self):
        content = model("gptq")
        folder = self.write(content, lambda number, name: number % 2)
        index = files.json.loads((folder / self.INDEX).read_text())
        first, second = list(content)[:2]

        def refused(change, sentence):
            changed = files.json.loads(files.json.dumps(index))
            change(changed["weight_map"])
            (folder / self.INDEX).write_text(files.json.dumps(changed))
            done = self.run_several("gptq", "awq", folder / self.INDEX, self.folder / "out")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(sentence, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
            self.assertFalse((self.folder / "out").exists())

        refused(lambda names: names.pop(first), f'has tensor "{first}", which the index does not name')
        refused(lambda names: names.update({first: index["weight_map"][second]}), "which the index says is in")
        refused(lambda names: names.update({"other": index["weight_map"][second]}), 'has no tensor "other"')
        refused(lambda names: names.update({"other": "model-3.safetensors"}), "model-3.safetensors")
        refused(lambda names: names.clear(), "the index names no tensor")

    def test_an_index_that_nests_deep(self):
        folder = self.write(model("gptq"), lambda number, name: number % 2)
        index = folder / self.INDEX
        index.write_text(index.read_text()[:-1] + ', "deep": ' + "[" * 100000 + "]" * 100000 + "}")
        done = self.run_several("gptq", "awq", index, self.folder / "out")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("nests deeper than 100 levels", done.stderr)
        self.assertFalse((self.folder / "out").exists())

    def test_an_older_index_does_not_outlive_its_files(self):
        folder = self.write(model("gptq"), lambda number, name: number % 2)
        out = self.folder / "out"
        out.mkdir()
        (out / self.INDEX).write_text("of another model")
        (out / "model-00002-of-00002.safetensors").mkdir()  # the second file cannot be written
        done = self.run_several("gptq", "awq", folder, out)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("model-00002-of-00002.safetensors: exists and is not a regular file", done.stderr)
        self.assertFalse((out / self.INDEX).exists())
        (out / "model-00002-of-00002.safetensors").rmdir()
        (out / self.INDEX).mkdir()  # the folder is found before a file is written
        (out / "model-00001-of-00002.safetensors").write_text("older")
        done = self.run_several("gptq", "awq", folder, out)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(self.INDEX + ": exists and is not a regular file", done.stderr)
        self.assertEqual((out / "model-00001-of-00002.safetensors").read_text(), "older")
        (out / self.INDEX).rmdir()
        self.assertEqual(self.run_several("gptq", "awq", folder, out).returncode, 0)
        self.assertEqual(self.read(out), model("awq"))

    def test_a_folder_that_cannot_be_made(self):
        folder = self.write(model("gptq"), lambda number, name: number % 2)
        (self.folder / "file").write_text("")
        done = self.run_several("gptq", "awq", folder, self.folder / "file")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--output", done.stderr)


class ActivationOrder(Folder):
    def test_stays_where_the_format_has_it(self):
        groups = [k // GROUP for k in range(K)]
        random.Random(1).shuffle(groups)
        data = files.safetensors(model("gptq", g_idx=groups))
        self.assertEqual(parse(self.convert("gptq", "gptq_v2", data))[1], model("gptq_v2", g_idx=groups))

    def test_is_left_out_for_awq_where_it_says_nothing(self):
        groups = [k // GROUP for k in range(K)]
        data = files.safetensors(model("gptq", g_idx=groups))
        self.assertEqual(parse(self.convert("gptq", "awq", data))[1], model("awq"))

    def test_is_refused_by_awq(self):
        groups = [k // GROUP for k in range(K)]
        groups[0], groups[K - 1] = groups[K - 1], groups[0]
        self.refused("gptq", "awq", files.safetensors(model("gptq", g_idx=groups)),
                     "tensor \"model.layers.0.mlp.down_proj.g_idx\" I32 [96]: awq has no activation order, but this index is "
                     "not k / group size; accepted for such layers: gptq, gptq_v2, symmetric; or --sort-activation-order")

    def test_names_groups_that_there_are(self):
        for k, group in [(5, K // GROUP), (0, -1), (K - 1, 1 << 30)]:
            groups = [k // GROUP for k in range(K)]
            groups[k] = group
            for target in ["gptq_v2", "awq"]:
                self.refused("gptq", target, files.safetensors(model("gptq", g_idx=groups)),
                             f"g_idx[{k}] = {group}, but there are 3 groups; accepted: 0 to 2")


class SortedOrder(Folder):
    """Layers that sorting refuses. w4_random_test.py tests the layers that it sorts."""

    SHUFFLED = [k // GROUP for k in range(K)]
    random.Random(2).shuffle(SHUFFLED)

    def layers(self, g_idx=None, **more):
        """down_proj with activation order, and dense up_proj and gate_proj beside it."""
        tensors = dict(packed(Layer(3), "gptq"), g_idx=("I32", [K], struct.pack(f"<{K}i", *(g_idx or self.SHUFFLED))))
        content = {"mlp.down_proj." + name: tensor for name, tensor in tensors.items()}
        for name in ["up_proj", "gate_proj"]:
            content[f"mlp.{name}.weight"] = ("BF16", [K, 2], bytes(range(0, 2 * K)) * 2)
        return files.safetensors({**content, **{f"mlp.{name}": tensor for name, tensor in more.items()}})

    def test_refusals(self):
        fold = ("--sort-activation-order", "--fold-order")
        uneven = [0] * (GROUP + 1) + [1] * (GROUP - 1) + [2] * GROUP
        for data, sentence, options in [
                (self.layers(uneven[::-1]), '"mlp.down_proj", group 0 with 33 input features: a layer that is sorted by group needs 32 '
                 "in this group; give the whole layer, or keep its activation order", fold[:1]),
                (self.layers(**{"down_proj.permutation": ("I32", [K], bytes(4 * K))}), "its layer is sorted already", fold[:1]),
                (self.layers(), "only sorted layers have an order to fold; give --sort-activation-order too",
                 ("--fold-order", "down_proj=up_proj")),
                (self.layers(), "--fold-order down_proj: does not name a layer and the layers before it; give LAYER=PRODUCER",
                 (*fold, "down_proj")),
                (self.layers(), 'no quantised layer has the name "o_proj"', (*fold, "o_proj=v_proj")),
                (self.layers(), '"mlp.v_proj": there is no such layer', (*fold, "down_proj=v_proj")),
                (self.layers(), '"mlp.up_proj": another layer\'s order goes there too', (*fold, "down_proj=up_proj,up_proj")),
                (self.layers(**{"v_proj.weight": ("BF16", [2, K], bytes(4 * K))}), f"the tensor is BF16 [2, {K}], not F16, BF16 or "
                 f"F32 with {K} rows", (*fold, "down_proj=v_proj")),
                (self.layers(**{"v_proj.weight": ("F8_E4M3", [K, 2], bytes(2 * K))}), "the tensor is F8_E4M3 [96, 2]",
                 (*fold, "down_proj=v_proj")),
                (self.layers(**{f"v_proj.{name}": tensor for name, tensor in packed(Layer(4), "gptq").items()}),
                 "96 input features take 64 output features", (*fold, "down_proj=v_proj"))]:
            with self.subTest(sentence=sentence):
                self.refused("gptq", "gptq_v2", data, sentence, *options)

    def test_report(self):
        (self.folder / "in.safetensors").write_bytes(self.layers())
        options = ("--sort-activation-order", "--fold-order", "down_proj=up_proj,gate_proj")
        done = self.run_program("gptq", "gptq", *options)
        self.assertIn("1 layer of 4 bits from gptq to gptq, 2 other tensors copied\n1 layer is sorted by group\n", done.stdout)
        self.assertEqual(files.json.loads(self.run_program("gptq", "awq", *options, "--json").stdout)["sorted"], 1)

    def test_activations_of_a_slice_of_k(self):
        self.convert("gptq", "gptq", self.layers(), "--sort-activation-order")
        (self.folder / "x").write_bytes(files.safetensors({"activations": ("F16", [1, K // 3], bytes(2 * K // 3))}))
        command = [program, "run", "w4a16_gemm:group_size=32", "--weights", str(self.folder / "out.safetensors"), "--layer",
                   "mlp.down_proj", "--input", str(self.folder / "x"), "--device", "cpu", "--tensor-parallel", "0/3"]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("activations of k = 32: the layer is sorted by group, and its permutation has 96 input features; give the "
                      "activations of all of k, or convert the checkpoint with --fold-order", done.stderr)


class Refused(Folder):
    def test_zeros_that_the_other_cannot_store(self):
        sixteen = files.safetensors(model("gptq", zeros=[16]))
        self.refused("gptq", "awq", sixteen, "\"model.layers.0.mlp.down_proj\", the zero of group 0, column 0, which is 16: awq "
                     "cannot store it; accepted: 0 to 15")
        self.refused("gptq", "gptq_v2", sixteen, "which is 16: gptq_v2 cannot store it")
        self.refused("awq", "gptq", files.safetensors(model("awq", zeros=[0])),
                     "which is 0: gptq cannot store it; accepted: 1 to 16")
        self.refused("awq", "symmetric", files.safetensors(model("awq", zeros=[7])),
                     "which is 7: symmetric cannot store it; accepted: 8")

    def test_files_of_another_format(self):
        self.refused("gptq", "awq", files.safetensors(model("awq")),
                     "with n = 64 it looks like awq, not gptq; use --from awq")
        self.refused("awq", "gptq", files.safetensors(model("gptq")),
                     "with n = 64 it is packed along k, unlike awq; use --from gptq, gptq_v2 or symmetric, the format of the "
                     "packer")
        self.refused("symmetric", "awq", files.safetensors(model("gptq")),
                     "--from symmetric stores no zeros; use --from gptq, gptq_v2 or awq, the format of the packer")
        self.refused("gptq", "awq", files.safetensors(model("symmetric", zeros=[8])),
                     "which the format gptq requires; add the tensor, or use --from symmetric if every zero is 8")
        self.refused("awq", "gptq", files.safetensors(model("awq", g_idx=[0] * K)),
                     "awq has no activation order; use --from gptq or gptq_v2, the format of the packer")

    def test_eight_bits(self):
        content = packed(Layer(1), "gptq")
        content["qzeros"] = ("I32", [K // GROUP, N // 4], bytes(K // GROUP * N))
        self.refused("gptq", "awq", files.safetensors(content), "4-bit gptq of n = 64, k = 96 and 3 groups has [3, 8]",
                     "--bits", "4")
        data = files.safetensors(model("gptq", bits=8))
        self.refused("gptq", "awq", data, "--bits 8: awq has weights of 4 bits; accepted: 4, or 8 with gptq, gptq_v2, "
                     "symmetric and packed", "--bits", "8")
        self.refused("gptq", "gptq_v2", files.safetensors(model("gptq", zeros=[256], bits=8)), "the zero of group 0, column 0, "
                     "which is 256: gptq_v2 cannot store it; accepted: 0 to 255", "--bits", "8")
        ordered = packed(Layer(1, zeros=[128], bits=8), "symmetric")
        ordered["g_idx"] = ("I32", [K], struct.pack(f"<{K}i", *(k // GROUP for k in range(K))))
        self.refused("symmetric", "gptq", files.safetensors(ordered), "accepted: I32 [192], of 4 bits", "--bits", "4")

    def test_layers_that_are_none(self):
        self.refused("gptq", "awq", files.safetensors({"x": ("F16", [2], bytes(4))}), "has no quantised layer")
        for name, tensor, sentence in [
                ("scales", None, "there is no \"scales\"; a layer has the tensors NAME.qweight and NAME.scales"),
                ("scales", ("F32", [3, 64], bytes(768)), "scales have 16 bits and two dimensions; accepted: F16 or BF16 [groups, n]"),
                ("scales", ("F16", [192], bytes(384)), "scales have 16 bits and two dimensions; accepted: F16 or BF16 [groups, n]"),
                ("scales", ("F16", [5, 64], bytes(640)), "no group size gives k = 96 as many groups as 5; accepted: the groups of a group size that is a power of two, or a number that divides 96"),
                ("scales", ("F16", [3, 63], bytes(378)), "n = 63 and k = 96 must be multiples of 8; name the format of the file with --from"),
                ("scales", ("F16", [0, 1 << 62], b""), "it is empty; accepted: extents of 1 and more"),
                ("qweight", ("I32", [1 << 61, 0], b""), "it is empty; accepted: extents of 1 and more"),
                ("qweight", ("I32", [768], bytes(3072)), "words have 32 bits and two dimensions; accepted: I32 [k / 8, n]"),
                ("qweight", ("U8", [12, 64], bytes(768)), "words have 32 bits and two dimensions; accepted: I32 [k / 8, n]"),
                ("qweight", ("I32", [12, 32], bytes(1536)), "accepted: layers in the format of --from, with weights of --bits bits"),
                ("qzeros", ("F32", [3, 8], bytes(96)), "zeros have 32 bits; accepted: I32 [groups, n / 8]"),
                ("g_idx", ("I32", [95], bytes(380)), "a group index has a number for each k; accepted: I32 [96]")]:
            with self.subTest(name=name, tensor=tensor and tensor[:2]):
                content = packed(Layer(1), "gptq")
                content.pop(name, None)
                if tensor:
                    content[name] = tensor
                self.refused("gptq", "awq", files.safetensors(content), sentence)

    def test_files_that_are_cut_or_none(self):
        data = files.safetensors(model("gptq"))
        remedy = "; give a complete safetensors file: copy the file again, or write it again"
        for cut, sentence in [(0, "is empty; give a safetensors file"), (5, "5 bytes are too few"),
                              (100, "the file is truncated" + remedy),
                              (len(data) - 1, "the file is truncated or damaged" + remedy)]:
            self.refused("gptq", "awq", data[:cut], sentence)
        self.refused("gptq", "awq", b"\xff" * 64, "over the limit of 100000000; is this a safetensors file?")
        self.refused("gptq", "awq", data + b"x", "1 bytes follow the last tensor" + remedy)

    def test_inputs_that_are_not_there(self):
        done = self.run_program("gptq", "awq")
        self.assertEqual(done.returncode, 2)
        self.assertIn("in.safetensors: cannot be read: No such file or directory; give a file that can be read", done.stderr)

    def test_words_of_the_command_line(self):
        data = files.safetensors(model("gptq"))
        self.refused("gptq", "gptq", data, "--to gptq: is the format of --from already; accepted: another of gptq, gptq_v2, awq, "
                     "symmetric, packed")
        self.refused("marlin", "gptq", data, "--from marlin: is not a format; accepted: gptq, gptq_v2, awq, symmetric, packed")

    def test_outputs_that_cannot_be_written(self):
        (self.folder / "in.safetensors").write_bytes(files.safetensors(model("gptq")))
        done = subprocess.run([program, "convert", "--from", "gptq", "--to", "awq", "--input",
                               str(self.folder / "in.safetensors"), "--output", str(self.folder / "no" / "out.safetensors")],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("cannot be written: No such file or directory; give a path that can be written", done.stderr)


class FromDenseWeights(Folder):
    """Weights quantised by cubit, read by the packing rules, converted, and multiplied."""

    def setUp(self):
        files.program = program
        if files.trouble():
            self.skipTest(files.trouble())
        super().setUp()

    def run_operator(self, descriptor, source, target, *more):
        done = subprocess.run([program, "run", descriptor, "--input", str(self.folder / source), "--output",
                               str(self.folder / target), "--device", "cpu", "--check", "--cache-dir", "", *more],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_a_weight_that_is_no_number_shows_in_the_report(self):
        weights = [0.1] * (N * K)
        weights[5] = math.nan
        (self.folder / "dense").write_bytes(files.safetensors({"weights": ("F16", [N, K], files.halves(weights))}))
        command = [program, "run", "w4_quantize:group_size=32", "--input", str(self.folder / "dense"), "--device", "cpu",
                   "--cache-dir", ""]
        text = subprocess.run(command, capture_output=True, text=True).stdout
        self.assertRegex(text, r"rms_error F32 \[3,64\]: 1 element is NaN\n")
        report = files.json.loads(subprocess.run(command + ["--json"], capture_output=True, text=True).stdout)
        self.assertEqual(report["outputs"]["rms_error"], {"type": "F32", "shape": [3, 64], "largest": None, "mean": None,
                                                          "nan": 1})

    def test_the_product_is_within_the_reported_error(self):
        layer = Layer(9)
        weights = [[files.fp16(random.Random(n).gauss(0, 0.02)) for n in range(K * row, K * row + K)] for row in range(N)]
        (self.folder / "dense").write_bytes(files.safetensors({"weights": ("F16", [N, K], files.halves(sum(weights, [])))}))
        report = self.run_operator("w4_quantize:group_size=32", "dense", "in.safetensors")
        self.assertRegex(report, r"max_error F32 \[3,64\]: at most 0\.00\d+, mean 0\.00\d+\n")
        quantised = (self.folder / "in.safetensors").read_bytes()
        _, tensors = parse(quantised)

        codes = struct.unpack(f"<{K * N // 8}I", tensors["qweight"][2])
        zeros = struct.unpack(f"<{K // GROUP * N // 8}I", tensors["qzeros"][2])
        scales = struct.unpack(f"<{K // GROUP * N}e", tensors["scales"][2])
        errors = struct.unpack(f"<{K // GROUP * N}f", tensors["max_error"][2])
        for n, k in itertools.product(range(N), range(K)):
            group = k // GROUP
            code = codes[k // 8 * N + n] >> 4 * (k % 8) & 15
            zero = (zeros[group * N // 8 + n // 8] >> 4 * (n % 8) & 15) + 1
            off = abs((code - zero) * scales[group * N + n] - weights[n][k])
            self.assertLessEqual(off, errors[group * N + n] * (1 + 1e-6))
            self.assertLessEqual(off, 0.51 * scales[group * N + n])

        outputs = []
        self.convert("gptq", "awq", quantised)
        (self.folder / "case").write_bytes(files.safetensors({"activations": layer.common()["activations"]}))
        for form, name in [("gptq", "in.safetensors"), ("awq", "out.safetensors")]:  # the result includes errors, which no input has
            self.run_operator(f"w4a16_gemm:format={form},group_size=32", "case", "product", "--weights",
                              str(self.folder / name))
            outputs.append(files.read_output(self.folder / "product")[1])
        for row, products in zip(layer.activations, outputs[0]):
            for n, product in enumerate(products):
                expected = sum(x * weight for x, weight in zip(row, weights[n]))
                allowed = sum(abs(x) * errors[k // GROUP * N + n] for k, x in enumerate(row))
                self.assertLess(abs(product - expected), allowed + 1e-3)
        for first, second in zip(*outputs):
            self.assertLess(math.dist(first, second), 6e-4 * math.hypot(*first))


if __name__ == "__main__":
    program = sys.argv.pop(1)
    unittest.main()
