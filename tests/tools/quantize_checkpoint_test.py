"""Runs cubit quantize-checkpoint, and cubit run w8a8_gemm on its output: quantize_checkpoint_test.py CUBIT.

NumPy computes the expected codes and products without any code of cubit. The products run on the CPU device and skip
where it, or NVRTC, is missing.
"""

import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

import w4a16_files_test as files

HIDDEN, INNER, M = 64, 96, 5
LAYERS = {"model.layers.0.self_attn.q_proj": (HIDDEN, HIDDEN), "model.layers.0.mlp.down_proj": (HIDDEN, INNER),
          "model.layers.0.mlp.up_proj": (INNER, HIDDEN)}
NUMPY = {"I32": np.int32, "F32": np.float32, "F16": np.float16, "BF16": np.uint16, "I8": np.int8, "F8_E4M3": np.uint8}
program = ""


def write(path: Path, tensors: dict[str, tuple[str, np.ndarray]], metadata: dict[str, str] | None = None) -> None:
    header, data = {} if metadata is None else {"__metadata__": metadata}, b""
    for name, (dtype, values) in tensors.items():
        assert values.dtype == NUMPY[dtype]
        header[name] = {"dtype": dtype, "shape": values.shape, "data_offsets": [len(data), len(data) + values.nbytes]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read(path: Path) -> dict[str, tuple[str, np.ndarray]]:
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    return {name: (one["dtype"], np.frombuffer(content[8 + length :][slice(*one["data_offsets"])],
                                               NUMPY[one["dtype"]]).reshape(one["shape"]))
            for name, one in header.items() if name != "__metadata__"}


def e4m3_values() -> np.ndarray:
    codes = np.arange(256)
    exponent, fraction = codes >> 3 & 15, codes & 7
    magnitude = np.where(exponent == 0, fraction * 2.0**-9, (8 + fraction) * 2.0 ** (exponent - 10.0))
    return np.where(codes >= 128, -magnitude, magnitude)


def bf16(values: np.ndarray) -> np.ndarray:
    """Cuts to bf16, without rounding."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


class Folder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.model, self.output = self.folder / "model", self.folder / "output"
        self.model.mkdir()
        self.random = np.random.default_rng(3)
        self.weights = {layer: self.random.normal(0, 0.1, shape).astype(np.float16) for layer, shape in LAYERS.items()}
        self.weights["model.layers.0.self_attn.q_proj"][3] = 0
        self.others = {"model.embed_tokens.weight": ("F16", self.random.normal(0, 1, (16, HIDDEN)).astype(np.float16)),
                       "model.norm.weight": ("F16", np.ones(HIDDEN, np.float16)),
                       "lm_head.weight": ("F16", self.random.normal(0, 1, (16, HIDDEN)).astype(np.float16)),
                       "odd.weight": ("F16", np.ones((7, HIDDEN), np.float16))}
        self.tensors = {f"{layer}.weight": ("F16", values) for layer, values in self.weights.items()} | self.others
        write(self.model / "model.safetensors", self.tensors)
        (self.model / "config.json").write_text('{"model_type": "llama"}')
        (self.model / "tokenizer.json").write_text("{}")

    def run_cubit(self, *arguments, code: int = 0) -> subprocess.CompletedProcess:
        done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def quantize(self, *arguments, code: int = 0) -> subprocess.CompletedProcess:
        return self.run_cubit("quantize-checkpoint", self.model, "--output", self.output, *arguments, code=code)

    def check_int8(self, found, layer: str, per_channel: bool = True):
        weight = self.weights[layer].astype(np.float32)
        magnitude = np.abs(weight).max(axis=1, keepdims=True) if per_channel else np.abs(weight).max(keepdims=True)
        scale = np.where(magnitude > 0, magnitude / np.float32(127), np.float32(1))
        dtype, codes = found[f"{layer}.weight"]
        self.assertEqual(dtype, "I8")
        self.assertTrue(np.array_equal(codes, np.rint(weight / scale).clip(-127, 127).astype(np.int8)))
        dtype, scales = found[f"{layer}.weight_scale"]
        self.assertEqual((dtype, scales.shape), ("F32", (weight.shape[0], 1) if per_channel else (1,)))
        self.assertTrue(np.array_equal(scales.reshape(scale.shape), scale))


class QuantizeCheckpoint(Folder):
    def test_int8_per_channel(self):
        report = self.folder / "report.json"
        done = self.quantize("--report", report)
        found = read(self.output / "model.safetensors")
        for layer in LAYERS:
            self.check_int8(found, layer)
        for name, (dtype, values) in self.others.items():
            self.assertEqual(found[name][0], dtype)
            self.assertTrue(np.array_equal(found[name][1], values))
        self.assertEqual(len(found), 2 * len(LAYERS) + len(self.others))
        result = json.loads(report.read_text())
        for one in result["layers"]:
            weight = self.weights[one["layer"]].astype(np.float64)
            codes, scales = (found[f"{one['layer']}.{name}"][1].astype(np.float64) for name in ("weight", "weight_scale"))
            error = np.sqrt(((codes * scales - weight) ** 2).sum() / (weight**2).sum())
            self.assertAlmostEqual(one["error"], error, delta=1e-6 * error)
            self.assertIn(one["layer"], done.stdout)
        reasons = {one["layer"]: one["reason"] for one in result["not_quantised"]}
        self.assertEqual(reasons, {"model.embed_tokens": "an embedding", "lm_head": "--ignore lm_head",
                                   "odd": "w8a8_gemm takes no weights [7, 64]"})
        config = json.loads((self.output / "config.json").read_text())
        self.assertEqual(config["model_type"], "llama")
        stated = config["quantization_config"]
        self.assertEqual((stated["quant_method"], stated["format"]), ("compressed-tensors", "int-quantized"))
        self.assertEqual(stated["ignore"], ["lm_head", "odd"])
        group = stated["config_groups"]["group_0"]
        self.assertEqual((group["weights"]["strategy"], group["input_activations"]["strategy"]), ("channel", "token"))
        self.assertEqual(sorted(path.name for path in self.output.iterdir()),
                         ["config.json", "model.safetensors", "tokenizer.json"])

    def test_e4m3_has_the_nearest_codes(self):
        self.quantize("--format", "e4m3")
        found = read(self.output / "model.safetensors")
        values = e4m3_values()
        finite = values[:0x7F]
        for layer, weight in self.weights.items():
            dtype, codes = found[f"{layer}.weight"]
            self.assertEqual(dtype, "F8_E4M3")
            scales = found[f"{layer}.weight_scale"][1]
            steps = np.abs(weight.astype(np.float32) / scales).astype(np.float64)
            nearest = np.abs(steps[..., None] - finite).min(axis=-1)
            self.assertTrue(np.array_equal(np.abs(np.abs(values[codes]) - steps), nearest))
            ties = np.abs(np.abs(values[codes]) - steps) * 2 == 2.0 ** (np.floor(np.log2(np.maximum(steps, 2**-6))) - 3)
            self.assertTrue((codes[ties] % 2 == 0).all())
            self.assertTrue((values[codes] * weight >= 0).all())
        config = json.loads((self.output / "config.json").read_text())["quantization_config"]
        self.assertEqual(config["format"], "float-quantized")

    def test_one_scale_for_a_tensor_and_static_activations(self):
        scales = self.folder / "scales.safetensors"
        write(scales, {f"{layer}.input_scale": ("F32", np.array([0.1 + i], np.float32)) for i, layer in enumerate(LAYERS)})
        self.quantize("--scale", "tensor", "--scales", scales)
        found = read(self.output / "model.safetensors")
        for i, layer in enumerate(LAYERS):
            self.check_int8(found, layer, per_channel=False)
            self.assertEqual(found[f"{layer}.input_scale"][1], np.float32(0.1 + i))
        group = json.loads((self.output / "config.json").read_text())["quantization_config"]["config_groups"]["group_0"]
        self.assertEqual(group["input_activations"]["dynamic"], False)

    def test_several_files(self):
        (self.model / "model.safetensors").unlink()
        names = list(self.tensors)
        parts = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
        for file, part in parts.items():
            write(self.model / file, {name: self.tensors[name] for name in part})
        index = {"weight_map": {name: file for file, part in parts.items() for name in part}}
        (self.model / "model.safetensors.index.json").write_text(json.dumps(index))
        self.quantize()
        written = json.loads((self.output / "model.safetensors.index.json").read_text())["weight_map"]
        found = {file: read(self.output / file) for file in parts}
        self.assertEqual(written, {name: file for file, tensors in found.items() for name in tensors})
        for layer in LAYERS:
            self.check_int8(found["a.safetensors"] | found["b.safetensors"], layer)

    def write_gpt2(self, config: str = '{"model_type": "gpt2"}') -> None:
        """A checkpoint of GPT-2: the weights of the block are [in, out], lm_head is [out, in]."""
        sizes = {"attn.c_attn": (HIDDEN, 3 * HIDDEN), "attn.c_proj": (HIDDEN, HIDDEN), "mlp.c_fc": (HIDDEN, INNER)}
        stored = {f"transformer.h.0.{layer}": self.random.normal(0, 0.1, shape).astype(np.float16)
                  for layer, shape in sizes.items()}
        self.weights = {layer: np.ascontiguousarray(values.T) for layer, values in stored.items()}
        biases = {f"{layer}.bias": ("F16", np.ones(values.shape[1], np.float16)) for layer, values in stored.items()}
        self.weights["lm_head"] = self.random.normal(0, 0.1, (16, HIDDEN)).astype(np.float16)
        self.tensors = {f"{layer}.weight": ("F16", values) for layer, values in
                        (stored | {"lm_head": self.weights["lm_head"]}).items()} | biases
        write(self.model / "model.safetensors", self.tensors)
        (self.model / "config.json").write_text(config)

    def check_gpt2(self, *arguments) -> None:
        done = self.quantize("--ignore", "nothing", "--json", *arguments)
        found = read(self.output / "model.safetensors")
        for layer in self.weights:
            self.check_int8(found, layer)
        sizes = {one["layer"]: (one["n"], one["k"]) for one in json.loads(done.stdout)["layers"]}
        self.assertEqual(sizes, {layer: values.shape for layer, values in self.weights.items()})

    def test_weights_of_gpt2_are_transposed(self):
        self.write_gpt2()
        self.check_gpt2()

    def test_a_mapping_gives_the_layout(self):
        self.write_gpt2("{}")
        mapping = self.folder / "mapping.json"
        named = [{"layer": layer, "reason": "none"} for layer in ("attn.c_attn", "attn.c_proj", "mlp.c_fc")]
        mapping.write_text(json.dumps({"norm": "weight", "layout": "in,out", "smoothed": [], "not_smoothed": named}))
        self.check_gpt2("--mapping", mapping)

    def test_a_bias_that_contradicts_the_layout_is_refused(self):
        self.write_gpt2('{"model_type": "unknown"}')
        message = self.quantize(code=2).stderr
        self.assertIn("layer transformer.h.0.attn.c_attn: has 64 output channels in the layout [out, in], but a bias for "
                      "192 output channels", message)
        self.assertFalse(self.output.exists())
        self.write_gpt2()
        write(self.model / "model.safetensors", self.tensors | {
            f"{layer}.weight": ("F16", values) for layer, values in self.weights.items()})  # transposed by the user
        self.assertIn("in the layout [in, out], but a bias", self.quantize(code=2).stderr)

    def write_two_files(self, rest: int) -> None:
        """The layers, and a second file with a tensor of `rest` bytes of zeros, which takes a while to copy."""
        os.rename(self.model / "model.safetensors", self.model / "a.safetensors")
        header = {"rest": {"dtype": "U8", "shape": [rest], "data_offsets": [0, rest]}}
        text = json.dumps(header).encode()
        (self.model / "b.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)
        os.truncate(self.model / "b.safetensors", 8 + len(text) + rest)
        index = {"weight_map": {**{name: "a.safetensors" for name in self.tensors}, "rest": "b.safetensors"}}
        (self.model / "model.safetensors.index.json").write_text(json.dumps(index))

    def kill_after_the_first_file(self) -> Path:
        """Returns the folder that the killed process leaves."""
        partial = Path(f"{self.output}.partial")
        command = [program, "quantize-checkpoint", self.model, "--output", self.output]
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL)
        while not (partial / "a.safetensors.note").exists():
            self.assertIsNone(process.poll())
        process.kill()
        process.wait()
        self.assertFalse(self.output.exists())
        return partial

    def test_a_killed_run_continues(self):
        """A complete file of the same request stays; what another request has left goes."""
        self.write_two_files(1 << 29)
        for same in (True, False):
            with self.subTest(same=same):
                self.output = self.folder / f"output{same}"
                path = self.kill_after_the_first_file() / "a.safetensors"
                marked = bytearray(path.read_bytes())
                marked[-1] ^= 1  # shows whether the file is written again
                path.write_bytes(marked)
                report = self.folder / "report.json"
                self.quantize("--report", report, *([] if same else ["--format", "e4m3"]))
                self.assertEqual((self.output / "a.safetensors").read_bytes() == marked, same)
                self.assertEqual(len(json.loads(report.read_text())["layers"]), len(LAYERS))
                self.assertEqual(sorted(path.name for path in self.output.iterdir()),
                                 ["a.safetensors", "b.safetensors", "config.json", "model.safetensors.index.json",
                                  "tokenizer.json"])
                self.assertFalse(Path(f"{self.output}.partial").exists())

    def test_bad_input_is_one_sentence_and_leaves_no_output(self):
        def refused(part: str, *arguments) -> None:
            done = self.quantize(*arguments, code=2)
            self.assertIn(part, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertEqual([path.name for path in self.folder.iterdir() if path.name.startswith("output")], [])

        refused("accepted: int8, e4m3", "--format", "int4")
        refused("accepted: channel, tensor", "--scale", "group")
        scales = self.folder / "scales.safetensors"
        write(scales, {"other.input_scale": ("F32", np.array([1], np.float32))})
        refused("has no model.layers.0.self_attn.q_proj.input_scale", "--scales", scales)
        write(scales, {"other.input_scale": ("F32", np.array([np.inf], np.float32))})
        refused("a scale is positive and finite", "--scales", scales)
        write(scales, {"other.input_zero_point": ("I8", np.array([3], np.int8))})
        refused("without a zero point", "--scales", scales)
        write(scales, {f"{layer}.input_scale": ("F32", np.array([1], np.float32)) for layer in LAYERS},
              {"input_format": "e4m3"})
        refused('has scales for "e4m3", not for int8; give --format e4m3, or calibrate with', "--scales", scales)
        refused("is the input, which the output would replace", "--format", "e4m3", "--scales", scales, "--report", scales)
        refused("is the input", "--report", self.model / "model.safetensors")
        refused("has no linear layer that can be quantised", "--ignore", "*")
        config = (self.model / "config.json").read_bytes()
        (self.model / "config.json").write_text('{"a": ' + "[" * 1000000 + "]" * 1000000 + "}")
        refused("config.json: is not a JSON object")
        (self.model / "config.json").write_bytes(config)
        whole = (self.model / "model.safetensors").read_bytes()
        (self.model / "model.safetensors").write_bytes(whole[:-1])
        refused("the file is truncated or damaged")
        tensors = {f"{layer}.weight": ("F16", values) for layer, values in self.weights.items()}
        write(self.model / "model.safetensors", tensors | {"model.layers.0.mlp.up_proj.weight_scale": ("F32", np.ones(1, np.float32))})
        refused("tensor model.layers.0.mlp.up_proj.weight_scale: has the name of a scale that this command writes")
        self.weights["model.layers.0.mlp.up_proj"][5, 6] = np.nan
        write(self.model / "model.safetensors",
              {f"{layer}.weight": ("F16", values) for layer, values in self.weights.items()})
        refused("layer model.layers.0.mlp.up_proj, a weight of output channel 5: is not finite")


class RunLayer(Folder):
    """cubit run w8a8_gemm reads the layers."""

    @classmethod
    def setUpClass(cls):
        files.program = program
        if files.trouble():
            raise unittest.SkipTest(files.trouble())

    def product(self, fields: str, activations: dict, code: int = 0) -> np.ndarray | str:
        """The outputs, or the message of a command that fails."""
        inputs, output = self.folder / "inputs.safetensors", self.folder / "products.safetensors"
        write(inputs, activations)
        done = self.run_cubit("run", f"w8a8_gemm:tile_m=16{fields}", "--weights", self.output, "--layer", self.layer,
                              "--input", inputs, "--output", output, "--device", "cpu", "--arch", "sm_89", "--check",
                              "--cache-dir", "", code=code)
        return done.stderr if code else read(output)["output"][1]

    def setUp(self):
        super().setUp()
        self.layer = "model.layers.0.mlp.down_proj"
        self.codes = self.random.integers(-128, 128, (M, INNER), np.int8)
        self.scales = self.random.uniform(0.01, 0.02, M).astype(np.float32)
        self.dynamic = {"activations": ("I8", self.codes), "activation_scales": ("F32", self.scales)}

    def expected(self, scales: np.ndarray) -> np.ndarray:
        found = read(self.output / "model.safetensors")
        weight = found[f"{self.layer}.weight"][1].astype(np.float64) * found[f"{self.layer}.weight_scale"][1]
        return self.codes.astype(np.float64) * scales @ weight.T

    def check(self, got: np.ndarray, expected: np.ndarray):
        self.assertLess(np.linalg.norm(got - expected), 4e-4 * np.linalg.norm(expected))

    def test_scales_per_channel_and_per_tensor(self):
        self.quantize()
        self.check(self.product("", self.dynamic), self.expected(self.scales[:, None]))
        self.assertIn("ask for weight_scale=channel", self.product(",weight_scale=tensor", self.dynamic, code=2))
        self.assertIn("ask for element=int8", self.product(",element=fp8_e4m3", self.dynamic, code=2))

    def test_static_activations_and_sums(self):
        scales = self.folder / "scales.safetensors"
        write(scales, {f"{layer}.input_scale": ("F32", np.array([0.25], np.float32)) for layer in LAYERS})
        self.quantize("--scale", "tensor", "--scales", scales)
        static = {"activations": ("I8", self.codes)}
        fields = ",activation_scale=tensor,weight_scale=tensor"
        self.check(self.product(fields, static), self.expected(np.array(0.25)))
        self.assertIn("ask for activation_scale=tensor", self.product(",weight_scale=tensor", self.dynamic, code=2))
        found = read(self.output / "model.safetensors")[f"{self.layer}.weight"][1]
        self.assertTrue(np.array_equal(self.product(",output=int32", static),
                                       self.codes.astype(np.int32) @ found.astype(np.int32).T))

    def test_zero_points_of_activations(self):
        self.quantize()
        zeros = self.random.integers(-128, 128, M).astype(np.int32)
        found = read(self.output / "model.safetensors")
        weight = found[f"{self.layer}.weight"][1].astype(np.float64) * found[f"{self.layer}.weight_scale"][1]
        got = self.product(",zero_points=true", self.dynamic | {"activation_zeros": ("I32", zeros)})
        self.check(got, (self.codes.astype(np.float64) - zeros[:, None]) * self.scales[:, None] @ weight.T)
        static = {f"{self.layer}.input_scale": ("F32", np.array([0.25], np.float32)),
                  f"{self.layer}.input_zero_point": ("I8", np.array([-7], np.int8))}
        write(self.output / "model.safetensors", found | static)
        fields = ",activation_scale=tensor"
        got = self.product(fields + ",zero_points=true", {"activations": ("I8", self.codes)})
        self.check(got, (self.codes.astype(np.float64) + 7) * 0.25 @ weight.T)
        self.assertIn("the layer's activations have the zero point -7; ask for zero_points=true",
                      self.product(fields, {"activations": ("I8", self.codes)}, code=2))

    def test_fp8(self):
        self.quantize("--format", "e4m3")
        values = e4m3_values()
        codes = self.random.integers(0, 0x7F, (M, INNER)).astype(np.uint8)
        activations = {"activations": ("F8_E4M3", codes), "activation_scales": ("F32", self.scales)}
        found = read(self.output / "model.safetensors")
        weight = values[found[f"{self.layer}.weight"][1]] * found[f"{self.layer}.weight_scale"][1]
        got = self.product(",element=fp8_e4m3", activations)
        expected = values[codes] * self.scales[:, None] @ weight.T
        self.assertLess(np.linalg.norm(got - expected), 1e-3 * np.linalg.norm(expected))
        self.assertIn("ask for element=fp8_e4m3", self.product("", activations, code=2))

    def test_bad_layers(self):
        self.quantize()
        good = read(self.output / "model.safetensors")
        for change, part in {
            "weight_scale": ("accepted: [64, 1] or [1]", ("F32", np.ones((3, 1), np.float32))),
            "weight_zero_point": ("w8a8_gemm has no zero points of weights", ("I8", np.ones((64, 1), np.int8))),
            "input_zero_point": ("a layer has one zero point of activations", ("I8", np.ones(64, np.int8))),
            "input_scale": ("a scale is positive and finite", ("F32", np.zeros(1, np.float32))),
        }.items():
            message, tensor = part
            write(self.output / "model.safetensors", good | {f"{self.layer}.{change}": tensor})
            self.assertIn(message, self.product("", self.dynamic, code=2))
        bf16_scales = good[f"{self.layer}.weight_scale"][1]
        rounded = bf16(bf16_scales)
        write(self.output / "model.safetensors", good | {f"{self.layer}.weight_scale": ("BF16", rounded)})
        got = self.product("", self.dynamic)
        wide = (rounded.astype(np.uint32) << 16).view(np.float32)
        weight = good[f"{self.layer}.weight"][1].astype(np.float64) * wide
        self.check(got, self.codes.astype(np.float64) * self.scales[:, None] @ weight.T)


if __name__ == "__main__":
    program = sys.argv.pop(1)
    unittest.main()
