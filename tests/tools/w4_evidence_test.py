"""Tests what cubit says about checkpoints that are not what was asked for: w4_evidence_test.py <cubit>.

Each case stands for a kind of file that people have: zeros of the other version of gptq, a config that contradicts the
request, weights of other bits or of awq, scales that were not sliced with their words, missing files. Needs only
Python's standard library. Cases that compute skip without the CPU device.
"""

import json
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import w4a16_files_test as files
from w4_convert_test import pack_quantized, parse
from w4a16_files_test import GROUP, K, N, TILES, Layer

GPTQ = f"w4a16_gemm:group_size=32,{TILES}"
program = ""


def layer_files(content, config=None, name="config.json"):
    """Splits tensors into the activations and a checkpoint's folder."""
    content = dict(content)
    made = {"in.safetensors": files.safetensors({"activations": content.pop("activations")}),
            "model/model.safetensors": files.safetensors(content)}
    if config is not None:
        text = config if isinstance(config, str) else json.dumps(config)
        made["model/" + name] = text.encode()
    return made


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, content):
        for name, data in content.items():
            path = self.folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)

    def call(self, *words):
        return subprocess.run([program, *words], capture_output=True, text=True, cwd=self.folder)

    def refused(self, sentence, *words):
        done = self.call(*words)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(sentence, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertLess(len(done.stderr), 3 * 120)
        return done.stderr


class Warnings(Folder):
    """What contradicts the request is one line, and the result is what was asked for."""

    @classmethod
    def setUpClass(cls):
        files.program = program
        if files.trouble():
            raise unittest.SkipTest(files.trouble())
        cls.cache = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.cache.cleanup)

    def run_layer(self, descriptor, content, config=None, name="config.json"):
        """Runs the layer from a folder. Returns the lines about the weights."""
        self.write(layer_files(content, config, name))
        done = self.call("run", descriptor, "--weights", "model", "--input", "in.safetensors", "--device", "cpu",
                         "--check", "--cache-dir", self.cache.name)
        self.assertEqual(done.returncode, 0, done.stderr)
        if config is not None:
            (self.folder / "model" / name).unlink()
        return done.stderr

    def test_zeros_and_statements_of_the_other_version(self):
        symmetric = Layer(1, zeros=[8]).gptq(stored_less=0)  # the words of a gptq_v2 file
        stated = {"quantization_config": {"bits": 4, "group_size": 32, "sym": True, "checkpoint_format": "gptq_v2"}}
        start = "cubit: the weights are read as gptq, but every stored zero is 8, as in a symmetric file of gptq_v2"
        end = "; if that is right, read them as gptq_v2\n"
        self.assertEqual(self.run_layer(GPTQ, symmetric), start + end)
        self.assertEqual(self.run_layer(GPTQ, symmetric, stated),
                         start + "; config.json says checkpoint_format=gptq_v2; config.json says sym=true, and every zero is "
                         "read as 9" + end)

    def test_no_warning_without_reason(self):
        symmetric, other = Layer(2, zeros=[8]).gptq(stored_less=1), Layer(3).gptq(stored_less=1)
        plain = {"bits": 4, "group_size": 32, "sym": True, "desc_act": False, "checkpoint_format": "gptq"}
        self.assertEqual(self.run_layer(GPTQ, symmetric, plain, "quantize_config.json"), "")
        self.assertEqual(self.run_layer(GPTQ, other, dict(plain, sym=False), "quantize_config.json"), "")
        for text in ["", "{", "[]", "7", '{"quantization_config": 3}', '{"quantization_config": {"bits": "four", "sym": 1}}',
                     '{"quantization_config": {"checkpoint_format": null, "group_size": 1e9}}', "[" * 100000]:
            with self.subTest(text=text[:60]):
                self.assertEqual(self.run_layer(GPTQ, other, text), "")
        self.assertEqual(self.run_layer(GPTQ, other, dict(plain, sym=False, bits=8, dynamic={"+:.*": {"bits": 4}})), "")

    def test_statements_of_the_config(self):
        content = Layer(4).gptq(stored_less=1)
        content["g_idx"] = ("I32", [K], struct.pack(f"<{K}i", *(k // GROUP for k in range(K))))
        for stated, sentence in [({"bits": 8}, "bits=8 and not 4"),
                                 ({"group_size": 16}, "group_size=16, and k = 96 has 3 groups"),
                                 ({"sym": True}, "sym=true, and the zeros differ"),
                                 ({"desc_act": True}, "desc_act=true, and activation_order is false")]:
            with self.subTest(stated=stated):
                self.assertEqual(self.run_layer(GPTQ, content, stated, "quantize_config.json"),
                                 f"cubit: the weights are read as gptq, but quantize_config.json says {sentence}; if that "
                                 "is right, ask for what the checkpoint has\n")

    def test_a_layer_that_was_sorted_by_group(self):
        content = Layer(4).gptq(stored_less=1)
        content["permutation"] = ("I32", [K], struct.pack(f"<{K}i", *reversed(range(K))))
        self.assertEqual(self.run_layer(GPTQ, content, {"desc_act": True}, "quantize_config.json"), "")


class Conversions(Folder):
    def convert(self, content, *words, config=None):
        self.write(layer_files(content, config))
        done = self.call("convert", "--input", "model", "--output", "out.safetensors", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_warnings(self):
        content = {"activations": ("F16", [0, K], b"")}
        for name, zeros in [("a", [8]), ("b", range(1, 15)), ("c", [8])]:
            tensors = Layer(1, zeros=zeros).gptq(stored_less=0)
            del tensors["activations"]
            content.update({f"{name}.{part}": tensor for part, tensor in tensors.items()})
        self.assertEqual(self.convert(content, "--from", "gptq_v2", "--to", "gptq").stderr, "")
        self.assertEqual(self.convert(content, "--from", "gptq", "--to", "awq").stderr,
                         "cubit: the weights are read as gptq, but every stored zero is 8, as in a symmetric file of gptq_v2 "
                         "(2 of 3 layers, first a); if that is right, read them as gptq_v2\n")
        self.assertIn("config.json says checkpoint_format=gptq_v2; config.json says bits=8",
                      self.convert(content, "--from", "gptq", "--to", "awq",
                                   config={"quantization_config": {"checkpoint_format": "gptq_v2", "bits": 8}}).stderr)

    def layer(self, form, zeros=range(1, 16)):
        made = getattr(Layer(1, zeros=zeros), form)(**({} if form == "awq" else {"stored_less": 1}))
        return {name if name == "activations" else "a." + name: tensor for name, tensor in made.items()}

    def warning(self, content, config, source="gptq", target="symmetric", name="config.json"):
        self.write(layer_files(content, config, name))
        done = self.call("convert", "--input", "model", "--output", "out.safetensors", "--from", source, "--to", target)
        self.assertEqual(done.returncode, 0, done.stderr)
        (self.folder / "model" / name).unlink()
        return done.stderr

    def test_configs_of_other_quantisers(self):
        awq, of_text = {"w_bit": 8, "q_group_size": 16}, {"text_config": {"quantization_config": {"bits": 8}}}
        for config, name in [(awq, "quant_config.json"), ({"quantization_config": awq}, "config.json")]:
            self.assertIn(f"{name} says bits=8 and not 4; {name} says group_size=16, and k = 96 has 3 groups",
                          self.warning(self.layer("awq"), config, "awq", "gptq", name))
        self.assertIn("config.json says bits=8 and not 4", self.warning(self.layer("awq"), of_text, "awq", "gptq"))

        def stated(*groups):
            weights = {f"group_{i}": {"targets": ["Linear"], "weights": group} for i, group in enumerate(groups)}
            return {"quantization_config": {"quant_method": "compressed-tensors", "config_groups": weights}}

        def read(*groups):
            content = {"activations": self.layer("awq")["activations"], **pack_quantized(Layer(1), name="a.")}
            return self.warning(content, stated(*groups), "packed", "gptq_v2")

        right = {"num_bits": 4, "group_size": GROUP, "symmetric": False}
        self.assertEqual(read(right, right), "")
        wrong = dict(num_bits=8, group_size=16, symmetric=True)
        text = read(wrong, wrong)
        self.assertTrue(text.startswith("cubit: the weights are read as packed, but config.json says bits=8"), text)
        for part in ["says group_size=16", "says sym=true"]:
            self.assertIn(part, text)
        self.assertEqual(read(right, wrong), "")
        self.assertEqual(read(wrong, None), "")
        self.assertIn("says bits=8", read(wrong, dict(right, num_bits=8)))

    def test_zeros_say_nothing_about_packed_layers(self):
        content = {"activations": self.layer("awq")["activations"], **pack_quantized(Layer(1, zeros=[7]), name="a.")}
        self.assertEqual(self.warning(content, {}, "packed", "gptq_v2"), "")

    def test_a_slice_of_activation_order(self):
        content = self.layer("gptq")  # the groups of k = 192, of which this rank has half the input features
        content["a.scales"] = ("F16", [6, N], 2 * content["a.scales"][2])
        content["a.qzeros"] = ("I32", [6, N // 8], 2 * content["a.qzeros"][2])
        content["a.g_idx"] = ("I32", [K], struct.pack(f"<{K}i", *(k * 7 % 6 for k in range(K))))
        plain = {"bits": 4, "group_size": GROUP, "desc_act": True}
        self.assertEqual(self.warning(content, plain, "gptq", "gptq_v2"), "")
        self.assertIn("says bits=8", self.warning(content, dict(plain, bits=8), "gptq", "gptq_v2"))

    def mixed(self):
        """Layers of 4 and 8 bits: one tells its bits by its zeros, the other by its group index."""
        content, expected = {"activations": ("F16", [0, K], b"")}, {}
        for name, bits in [("a", 8), ("b", 4), ("c", 8)]:
            layer = Layer(5, zeros=[1 << (bits - 1)], bits=bits)
            for made, less in [(content, 1), (expected, 0)]:
                tensors = layer.gptq(stored_less=less)
                del tensors["activations"]
                made.update({f"{name}.{part}": tensor for part, tensor in tensors.items()})
        return content, expected

    def test_layers_of_different_bits(self):
        content, expected = self.mixed()
        done = self.convert(content, "--from", "gptq", "--to", "gptq_v2")
        self.assertIn("3 layers of 4 and 8 bits from gptq to gptq_v2", done.stdout)
        data = (self.folder / "out.safetensors").read_bytes()
        self.assertEqual(parse(data)[1], expected)
        done = self.convert(content, "--from", "gptq", "--to", "gptq_v2", "--json")
        self.assertEqual(json.loads(done.stdout)["bits"], [4, 8])
        content["a.g_idx"] = content["c.g_idx"] = ("I32", [K], struct.pack(f"<{K}i", *(k // GROUP for k in range(K))))
        symmetric = {name: tensor for name, tensor in content.items() if "qzeros" not in name}
        self.convert(symmetric, "--from", "symmetric", "--to", "gptq")
        back = (self.folder / "out.safetensors").read_bytes()
        for name, tensor in content.items():
            if name != "activations":
                self.assertIn(tensor[2], back, name)

    def test_a_layer_that_the_other_format_cannot_store(self):
        self.write(layer_files(self.mixed()[0]))
        self.refused("awq has weights of 4 bits, and this layer has 8; accepted for such layers: gptq, gptq_v2, symmetric, packed",
                     "convert", "--from", "gptq", "--to", "awq", "--input", "model", "--output", "out.safetensors")
        self.refused("4-bit gptq of n = 64, k = 192 and 3 groups has [3, 8]", "convert", "--from", "gptq", "--to", "gptq_v2",
                     "--bits", "4", "--input", "model", "--output", "out.safetensors")

    def test_three_bits_are_named(self):
        content = Layer(6).gptq(stored_less=1)
        content["qweight"] = ("I32", [K * 3 // 32, N], bytes(K * 3 // 32 * N * 4))
        content["qzeros"] = ("I32", [K // GROUP, N * 3 // 32], bytes(K // GROUP * N * 3 // 32 * 4))
        self.write(layer_files(content))
        self.refused("its layer has weights of 3 bits; accepted: 4 and 8 bits", "convert", "--from", "gptq", "--to", "gptq_v2",
                     "--input", "model", "--output", "out.safetensors")


class Looks(Folder):
    """A file of another kind is called by its name, with the field that reads it."""

    def look(self, sentence, descriptor, content):
        (self.folder / "in.safetensors").write_bytes(files.safetensors(content))
        return self.refused(sentence, "run", descriptor, "--input", "in.safetensors", "--device", "cpu")

    def test_other_bits(self):
        plain, eight = "w4a16_gemm:group_size=32", Layer(1, bits=8).gptq(stored_less=1)
        self.look("tensor qweight [24, 64]: with n = 64 and k = 96 it looks like 8-bit weights packed along k, not gptq of 4 "
                  "bits; ask for bits=8", plain, eight)
        self.look("ask for bits=4", plain + ",bits=8", Layer(1).gptq(stored_less=1))
        for bits in [2, 3]:
            content = Layer(1).common()
            content["qweight"] = ("I32", [K * bits // 32, N], bytes(K * bits // 32 * N * 4))
            content["qzeros"] = ("I32", [K // GROUP, N * bits // 32], bytes(K // GROUP * N * bits // 32 * 4))
            self.look(f"it looks like {bits}-bit weights, not gptq of 4 bits; accepted: 4 bits, or 8", plain, content)

    def test_words_along_the_other_dimension(self):
        plain = "w4a16_gemm:group_size=32"
        self.look("it looks like awq, not gptq of 4 bits; ask for format=awq", plain, Layer(1).awq())
        self.look("it looks like awq, not gptq_v2 of 4 bits; ask for format=awq", plain + ",format=gptq_v2", Layer(1).awq())
        self.look("it looks like 4-bit weights packed along k, not awq of 4 bits; ask for format=gptq or gptq_v2, as the "
                  "packer did", plain + ",format=awq", Layer(1).gptq(stored_less=1))
        self.look("it looks like 8-bit weights packed along k, not awq of 4 bits; ask for format=gptq or gptq_v2, as the "
                  "packer did, and bits=8", plain + ",format=awq", Layer(1, bits=8).gptq(stored_less=1))

    def test_scales_of_a_whole_layer_beside_sliced_words(self):
        content = Layer(1).gptq(stored_less=1)
        content["scales"] = ("F16", [2 * K // GROUP, N], 2 * content["scales"][2])
        for descriptor in ["w4a16_gemm:group_size=32", "w4a16_gemm:group_size=32,format=gptq_v2"]:
            text = self.look("tensor scales [6, 64]: 6 groups of 32 are for k = 192, but the words and activations are for "
                             "k = 96; give all tensors for one k", descriptor, content)
            self.assertNotIn("ask for group_size", text)

    def test_a_group_size_that_the_config_states(self):
        content = Layer(1).gptq(stored_less=1)
        self.write(layer_files(content, {"quantization_config": {"group_size": 32}}))
        text = self.refused("3 groups of 128 are for k = 384, but the words and activations are for k = 96, and config.json "
                            "says group_size=32; give all tensors for one k, and the group_size that the checkpoint's "
                            "config states", "run", "w4a16_gemm", "--weights", "model", "--input", "in.safetensors")
        self.assertNotIn("ask for group_size", text)


class MissingFiles(Folder):
    def sharded(self):
        tensors = Layer(1).gptq(stored_less=1)
        self.write({"in.safetensors": files.safetensors({"activations": tensors.pop("activations")})})
        names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
        parts = [{"qweight": tensors["qweight"]}, {name: tensors[name] for name in ("qzeros", "scales")}]
        index = {"weight_map": {tensor: name for name, part in zip(names, parts) for tensor in part}}
        self.write({"model/" + name: files.safetensors(part) for name, part in zip(names, parts)})
        self.write({"model/model.safetensors.index.json": json.dumps(index).encode()})
        return names

    COMMANDS = [("run", "w4a16_gemm:group_size=32", "--input", "in.safetensors", "--weights", "model"),
                ("convert", "--from", "gptq", "--to", "awq", "--output", "out", "--input", "model")]

    def test_the_index_that_names_a_missing_file(self):
        (self.folder / "model").mkdir()
        second = self.sharded()[1]
        (self.folder / "model" / second).unlink()
        for command in self.COMMANDS:
            self.refused(f"model/{second}: does not exist, although the index model.safetensors.index.json names it; copy the "
                         "missing file into the folder of the index", *command)

    def test_git_lfs_pointers(self):
        pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 4000000000\n"
        second = self.sharded()[1]
        for name in [second, "model.safetensors.index.json"]:
            (self.folder / "model" / name).write_bytes(pointer)
            for command in self.COMMANDS:
                self.refused(f"model/{name}: is a git-LFS pointer, a short text in the place of the file itself; download the "
                             "file: git lfs pull", *command)


if __name__ == "__main__":
    program = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
