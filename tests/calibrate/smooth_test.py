"""Runs cubit smooth on tiny checkpoints that Python writes: smooth_test.py CUBIT."""

import json
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

import numpy as np

from command_test import read, write

HIDDEN, INNER = 16, 32
NORMS = {"model.layers.0.input_layernorm": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
         "model.layers.0.post_attention_layernorm": ["mlp.gate_proj", "mlp.up_proj"]}


def checkpoint(random: np.random.Generator) -> dict[str, np.ndarray]:
    normal = lambda *shape: random.normal(0, 0.1, shape).astype(np.float32)
    tensors = {"model.embed_tokens.weight": normal(10, HIDDEN), "lm_head.weight": normal(10, HIDDEN)}
    for norm, layers in NORMS.items():
        tensors[f"{norm}.weight"] = 1 + normal(HIDDEN)
        tensors[f"{norm}.weight"][3] = 90
        for layer in layers:
            tensors[f"model.layers.0.{layer}.weight"] = normal(HIDDEN if "attn" in layer else INNER, HIDDEN)
    tensors["model.layers.0.self_attn.o_proj.weight"] = normal(HIDDEN, HIDDEN)
    tensors["model.layers.0.mlp.down_proj.weight"] = normal(HIDDEN, INNER)
    return tensors


def int8_error(inputs: np.ndarray, weights: list[np.ndarray], factors: np.ndarray) -> float:
    """Squared output error of INT8, one static scale of inputs and a scale per output channel, relative to the outputs."""
    def rounded(values, largest):
        scale = np.where(largest > 0, largest / 127, 1)
        return np.rint(values / scale).clip(-127, 127) * scale
    inputs = inputs.astype(np.float64)
    smoothed = inputs / factors
    codes, error, square = rounded(smoothed, np.abs(smoothed).max()), 0, 0
    for weight in weights:
        exact = inputs @ weight.T.astype(np.float64)
        changed = weight * factors
        error += ((codes @ rounded(changed, np.abs(changed).max(axis=1, keepdims=True)).T - exact) ** 2).sum()
        square += (exact**2).sum()
    return error / square


class Smooth(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.model, self.activations, self.output = (self.folder / name for name in ("model", "activations", "output"))
        self.model.mkdir()
        self.activations.mkdir()
        random = np.random.default_rng(5)
        self.tensors = checkpoint(random)
        write(self.model / "model.safetensors", self.tensors)
        (self.model / "config.json").write_text('{"model_type": "llama"}')
        self.normed = random.normal(0, 1, (40, HIDDEN)).astype(np.float32)
        inputs = {f"model.layers.0.{layers[0]}": self.normed * self.tensors[f"{norm}.weight"]
                  for norm, layers in NORMS.items()}
        for i in range(2):
            batch = {name: rows[20 * i : 20 * i + 20] for name, rows in inputs.items()}
            write(self.activations / f"{i}.safetensors", batch)

    def run_cubit(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess:
        command = [PROGRAM, "smooth", self.model, "--activations", self.activations, "--output", self.output]
        command += arguments
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def check_function(self, found: dict[str, np.ndarray]):
        """Each reader of a norm gives what it gave before."""
        for norm, layers in NORMS.items():
            changed = found[f"{norm}.weight"]
            self.assertFalse(np.array_equal(changed, self.tensors[f"{norm}.weight"]))
            for layer in layers:
                name = f"model.layers.0.{layer}.weight"
                before = self.tensors[name].astype(np.float64)
                expected = (self.normed * self.tensors[f"{norm}.weight"].astype(np.float64)) @ before.T
                weight = found[name].reshape(before.shape).astype(np.float64)
                got = (self.normed * changed.astype(np.float64)) @ weight.T
                self.assertLess(np.linalg.norm(got - expected), 1e-6 * np.linalg.norm(expected))

    def check_errors(self, group: dict, inputs: np.ndarray, weights: list[np.ndarray]):
        """The errors are those of all tokens and output channels, and the one of the chosen alpha is not above 0.5's."""
        half = np.sqrt(np.abs(inputs).max(axis=0) / np.abs(np.concatenate(weights)).max(axis=0))
        expected = {"error_before": np.ones(len(half)), "error_half": half, "error": np.array(group["factors"])}
        errors = {name: int8_error(inputs, weights, factors) for name, factors in expected.items()}
        self.assertLessEqual(errors["error"], errors["error_half"] * (1 + 1e-4))
        self.assertLessEqual(errors["error"], errors["error_before"] * (1 + 1e-4))
        for name, error in errors.items():
            self.assertLess(abs(group[name] - error), 1e-3 * error, name)

    def check_search(self, inputs: np.ndarray, weight: np.ndarray, name: str) -> dict:
        layers = [f"model.layers.0.self_attn.{layer}_proj" for layer in "qkv"]
        for layer in layers:
            self.tensors[f"{layer}.weight"] = weight
        write(self.model / "model.safetensors", self.tensors)
        write(self.activations / "0.safetensors", {layers[0]: inputs})
        (self.activations / "1.safetensors").unlink(missing_ok=True)
        self.output = self.folder / name
        group = json.loads(self.run_cubit("--json").stdout)["groups"][0]
        self.check_errors(group, inputs, [weight] * 3)
        return group

    def test_output_channels_that_differ_do_not_mislead_the_search(self):
        """Every second output channel needs another alpha."""
        random = np.random.default_rng(5)
        inputs = random.normal(size=(100, HIDDEN)).astype(np.float32)
        inputs[:, :2] *= 40
        weight = random.normal(0, 0.1, (1024, HIDDEN)).astype(np.float32)
        weight[::2, :2] /= 40
        weight[1::2] *= 3
        self.check_search(inputs, weight, "even")
        self.check_search(inputs, np.roll(weight, 1, axis=0), "odd")

    def test_tokens_outside_the_sample_do_not_mislead_the_search(self):
        """The tokens that the search takes are small, so they show only the rounding of inputs."""
        random = np.random.default_rng(0)
        inputs = random.normal(size=(256, HIDDEN)).astype(np.float32)
        inputs[::2] /= 100
        weight = random.normal(0, 0.1, (32, HIDDEN)).astype(np.float32)
        weight[:, :2] *= 40
        self.assertEqual(self.check_search(inputs, weight, "small")["alpha"], 0.5)

    def test_the_smoothed_checkpoint_computes_the_same(self):
        report, pictures = self.folder / "report.json", self.folder / "pictures"
        done = self.run_cubit("--report", report, "--pictures", pictures)
        found = read(self.output / "model.safetensors")
        self.assertEqual(list(found), list(self.tensors))
        self.check_function(found)
        layer = "model.layers.0"
        for name in ("lm_head", "model.embed_tokens", f"{layer}.self_attn.o_proj", f"{layer}.mlp.down_proj"):
            self.assertTrue(np.array_equal(found[f"{name}.weight"], self.tensors[f"{name}.weight"].ravel()))
            self.assertIn(name, done.stdout)
        self.assertIn("its input is the output of attention, not of a norm", done.stdout)
        self.assertEqual((self.output / "config.json").read_text(), '{"model_type": "llama"}')
        result = json.loads(report.read_text())
        self.assertEqual([group["norm"] for group in result["groups"]], list(NORMS))
        self.assertEqual(result["errors_of"], "all recorded tokens and output channels")
        for group, (norm, layers) in zip(result["groups"], NORMS.items()):
            weights = [self.tensors[f"model.layers.0.{layer}.weight"] for layer in layers]
            self.check_errors(group, self.normed * self.tensors[f"{norm}.weight"], weights)
            self.assertLess(group["error"], group["error_before"] / 4)
            root = xml.etree.ElementTree.parse(pictures / f"{group['norm']}.svg").getroot()
            self.assertEqual([one.get("class") for one in root.iter()].count("channel"), 4 * HIDDEN)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()),
                         ["activations", "model", "output", "pictures", "report.json"])

    def test_a_given_alpha_has_the_factors_of_the_formula(self):
        group = json.loads(self.run_cubit("--alpha", "0.75", "--json").stdout)["groups"][0]
        norm, layers = next(iter(NORMS.items()))
        inputs = np.abs(self.normed * self.tensors[f"{norm}.weight"]).max(axis=0)
        stacked = np.concatenate([self.tensors[f"model.layers.0.{layer}.weight"] for layer in layers])
        weights = np.abs(stacked).max(axis=0)
        expected = inputs.astype(np.float64) ** 0.75 / weights.astype(np.float64) ** 0.25
        self.assertTrue(np.allclose(group["factors"], expected, rtol=1e-5))
        self.assertEqual(group["alpha"], 0.75)

    def test_a_channel_of_zeros_keeps_its_weights(self):
        channel = 7
        self.normed[:, channel] = 0
        rows = {f"model.layers.0.{layers[0]}": self.normed * self.tensors[f"{norm}.weight"]
                for norm, layers in NORMS.items()}
        for i in range(2):
            write(self.activations / f"{i}.safetensors", rows)
        self.run_cubit("--alpha", "0.5")
        found = read(self.output / "model.safetensors")
        self.check_function(found)
        for norm, layers in NORMS.items():
            self.assertEqual(found[f"{norm}.weight"][channel], self.tensors[f"{norm}.weight"][channel])
            for layer in layers:
                name = f"model.layers.0.{layer}.weight"
                before = self.tensors[name]
                self.assertTrue(np.array_equal(found[name].reshape(before.shape)[:, channel], before[:, channel]))

    def test_a_checkpoint_of_several_files(self):
        (self.model / "model.safetensors").unlink()
        names = list(self.tensors)
        parts = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
        for file, part in parts.items():
            write(self.model / file, {name: self.tensors[name] for name in part})
        index = {"weight_map": {name: file for file, part in parts.items() for name in part}}
        (self.model / "model.safetensors.index.json").write_text(json.dumps(index))
        self.run_cubit()
        self.check_function({**read(self.output / "a.safetensors"), **read(self.output / "b.safetensors")})
        written = json.loads((self.output / "model.safetensors.index.json").read_text())
        self.assertEqual(written["weight_map"], index["weight_map"])

    def test_a_mapping_of_the_user_and_a_layer_without_activations(self):
        mapping = self.folder / "mapping.json"
        norms = {"layers.{}.input_layernorm": ["layers.{}.self_attn.q_proj", "layers.{}.self_attn.k_proj",
                                               "layers.{}.self_attn.v_proj"]}
        mapping.write_text(json.dumps({"norm": "weight", "layout": "out,in", "smoothed": [
            {"norm": norm, "layers": layers} for norm, layers in norms.items()]}))
        result = json.loads(self.run_cubit("--mapping", mapping, "--json").stdout)
        self.assertEqual(len(result["groups"]), 1)
        reasons = {one["layer"]: one["reason"] for one in result["not_smoothed"]}
        self.assertEqual(reasons["model.layers.0.mlp.up_proj"], "the mapping names no norm before it")
        for i in range(2):
            write(self.activations / f"{i}.safetensors", {"other": self.normed})
        self.output = self.folder / "second"
        result = json.loads(self.run_cubit("--json").stdout)
        self.assertEqual(result["groups"], [])
        reasons = {one["layer"]: one["reason"] for one in result["not_smoothed"]}
        self.assertEqual(reasons["model.layers.0.mlp.up_proj"], "its activations were not recorded")

    def test_bad_input_is_one_sentence_and_leaves_no_output(self):
        def refused(part: str, *arguments: str) -> None:
            done = self.run_cubit(*arguments, code=2)
            self.assertIn(part, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertEqual([path.name for path in self.folder.iterdir() if path.name.startswith("output")], [])

        refused("--alpha 2: is not a share; accepted: search, or a number from 0 to 1", "--alpha", "2")
        refused("--alpha half: is not a share", "--alpha", "half")
        refused("model type t5: has no mapping of norms to layers; known types: ", "--architecture", "t5")
        q_proj = "model.layers.0.self_attn.q_proj"
        bad = self.activations / "2.safetensors"
        write(bad, {q_proj: np.full((1, HIDDEN), np.inf, np.float32)})
        refused(f"layer {q_proj}, 16 values: are not finite; record activations again")
        write(bad, {q_proj: np.ones((1, HIDDEN + 1), np.float32)})
        refused("has 17 channels, but earlier batches have 16")
        bad.write_bytes(b"short")
        refused("2.safetensors")
        bad.unlink()
        for i in range(2):
            write(self.activations / f"{i}.safetensors", {q_proj: np.ones((1, 8), np.float32)})
        refused("norm model.layers.0.input_layernorm, a layer's weight: does not have 8 input channels")
        whole = (self.model / "model.safetensors").read_bytes()
        (self.model / "model.safetensors").write_bytes(whole[:-1])
        refused("the file is truncated or damaged")
        del self.tensors["model.layers.0.self_attn.k_proj.weight"]
        write(self.model / "model.safetensors", self.tensors)
        refused("feeds the layer model.layers.0.self_attn.k_proj, whose weight the checkpoint does not have")
        (self.model / "config.json").unlink()
        refused("does not exist, so the architecture is unknown; give --architecture or --mapping")

    def test_a_report_never_replaces_an_input(self):
        mapping = self.folder / "mapping.json"
        mapping.write_text('{"norm": "weight", "layout": "out,in", "smoothed": []}')
        for path in (self.model / "model.safetensors", self.activations / "1.safetensors", mapping):
            before = path.read_bytes()
            self.assertIn("is the input", self.run_cubit("--mapping", mapping, "--report", path, code=2).stderr)
            self.assertEqual(path.read_bytes(), before)
            self.assertFalse(self.output.exists())

    def test_a_deep_config_is_refused(self):
        (self.model / "config.json").write_text('{"model_type": "llama", "a": ' + "[" * 1000000 + "]" * 1000000 + "}")
        self.assertIn("does not name a model_type", self.run_cubit(code=2).stderr)

    def test_an_output_folder_with_files_is_kept(self):
        self.output.mkdir()
        (self.output / "mine").write_text("text")
        self.assertIn("is not a new or empty folder", self.run_cubit(code=2).stderr)
        self.assertEqual([path.name for path in self.output.iterdir()], ["mine"])


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
