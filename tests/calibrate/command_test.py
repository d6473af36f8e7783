"""Runs cubit calibrate on files that Python writes: command_test.py CUBIT."""

import fcntl
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

import numpy as np

LAYER = "model.layers.0.mlp.down_proj"
LIMIT = 9000  # bytes of a file
TYPES = {np.dtype(np.float64): "F64", np.dtype(np.float32): "F32", np.dtype(np.float16): "F16", np.dtype(np.int32): "I32", np.dtype(np.int8): "I8"}


def write(path: Path, tensors: dict[str, np.ndarray]) -> None:
    header, data = {}, b""
    for name, values in tensors.items():
        header[name] = {"dtype": TYPES[values.dtype], "shape": values.shape,
                        "data_offsets": [len(data), len(data) + values.nbytes]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read(path: Path) -> dict[str, np.ndarray]:
    bytes_ = path.read_bytes()
    length = struct.unpack("<Q", bytes_[:8])[0]
    header = json.loads(bytes_[8 : 8 + length])
    types = {name: dtype for dtype, name in TYPES.items()}
    return {name: np.frombuffer(bytes_[8 + length :][slice(*one["data_offsets"])], types[one["dtype"]])
            for name, one in header.items() if name != "__metadata__"}


class Command(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.activations = self.folder / "activations"
        self.activations.mkdir()
        random = np.random.default_rng(1)
        self.batches = [random.normal(0, 1, (20, 32)).astype(np.float32) for _ in range(3)]
        for i, batch in enumerate(self.batches):
            write(self.activations / f"{i}.safetensors", {LAYER: batch, "other": batch[:, :8].astype(np.float16)})

    def run_cubit(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess:
        done = subprocess.run([PROGRAM, "calibrate", *map(str, arguments)], capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def test_scales_report_and_pictures(self):
        scales, report, pictures = (self.folder / name for name in ("scales.safetensors", "report.json", "pictures"))
        done = self.run_cubit(self.activations, "--method", "minmax", "--output", scales, "--report", report,
                              "--pictures", pictures)
        self.assertIn(LAYER, done.stdout)
        self.assertIn("entropy error", done.stdout)
        found = read(scales)
        self.assertEqual(set(found), {f"{LAYER}.input_scale", "other.input_scale"})
        self.assertIn(b'{"__metadata__":{"input_format":"int8"},', scales.read_bytes())
        largest = max(np.abs(batch).max() for batch in self.batches)
        self.assertEqual(found[f"{LAYER}.input_scale"], np.float32(np.float64(largest) / 127))
        layer = json.loads(report.read_text())["layers"][LAYER]
        self.assertEqual((layer["tokens"], layer["batches"], layer["channels"]), (60, 3, 32))
        self.assertEqual(layer["methods"]["minmax"]["high"], largest)
        self.assertLessEqual(layer["methods"]["mse"]["error"], layer["methods"]["percentile"]["error"])
        names = sorted(file.name for file in pictures.iterdir())
        self.assertEqual(names, [f"{LAYER}.svg", "other.svg"])
        root = xml.etree.ElementTree.parse(pictures / names[0]).getroot()
        kinds = [element.get("class") for element in root.iter()]
        self.assertEqual(kinds.count("range"), 12)  # two ends and a bar for each method
        self.assertGreater(kinds.count("bar"), 50)

    def test_minmax_collects_ranges_only(self):
        report = self.folder / "report.json"
        done = self.run_cubit(self.activations, "--method", "minmax", "--report", report)
        self.assertNotIn("error", done.stdout)
        alone = json.loads(report.read_text())["layers"][LAYER]
        self.assertEqual(list(alone["methods"]), ["minmax"])
        whole = json.loads(self.run_cubit(self.activations, "--json").stdout)["layers"][LAYER]
        for name in ("low", "high", "scale", "zero_point"):
            self.assertEqual(alone["methods"]["minmax"].pop(name), whole["methods"]["minmax"][name])
        self.assertEqual(alone["methods"]["minmax"], {})
        self.assertFalse({"mean", "variance"} & set(alone))
        for more in (("--statistics", self.folder / "statistics"), ("--pictures", self.folder / "pictures")):
            full = json.loads(self.run_cubit(self.activations, "--method", "minmax", "--json", *more).stdout)
            self.assertEqual(full["layers"][LAYER]["methods"], whole["methods"])

    def test_the_report_has_channels_and_tokens(self):
        values = np.concatenate(self.batches).astype(np.float64)
        of_channels, of_tokens = (np.sort(np.abs(values).max(axis=axis)) for axis in (0, 1))
        at = lambda sorted_, share: sorted_[int(np.ceil(share * len(sorted_))) - 1]
        for arguments in ((), ("--method", "minmax")):
            layer = json.loads(self.run_cubit(self.activations, "--json", *arguments).stdout)["layers"][LAYER]
            channels, tokens = layer["channel_magnitudes"], layer["token_magnitudes"]
            self.assertEqual((channels["largest"], tokens["largest"]), (of_channels[-1], of_tokens[-1]))
            for name, share in (("median", 0.5), ("90%", 0.9), ("99%", 0.99)):
                self.assertEqual(channels[name], at(of_channels, share))
                self.assertLessEqual(at(of_tokens, share), tokens[name])
                self.assertLess(tokens[name] - at(of_tokens, share), of_tokens[-1] / 1024)  # a bin
            largest = np.argsort(-np.abs(values).max(axis=0), kind="stable")[:8]
            self.assertEqual([one["channel"] for one in channels["largest_channels"]], largest.tolist())
            for one in channels["largest_channels"]:
                column = values[:, one["channel"]]
                self.assertEqual((one["minimum"], one["maximum"]), (column.min(), column.max()))
                self.assertEqual("mean" in one, not arguments)
                if "mean" in one:
                    self.assertAlmostEqual(one["mean"], column.mean(), delta=1e-12)
                    self.assertAlmostEqual(one["variance"], column.var(), delta=1e-12)

    def test_asymmetric_zero_points(self):
        scales = self.folder / "scales.safetensors"
        self.run_cubit(self.activations, "--format", "int8_asymmetric", "--method", "minmax", "--layers", "other",
                       "--output", scales)
        found = read(scales)
        values = np.concatenate(self.batches)[:, :8].astype(np.float16).astype(np.float64)
        scale = (values.max() - values.min()) / 255
        self.assertEqual(found["other.input_zero_point"], round(-128 - values.min() / scale))
        self.assertEqual(set(found), {"other.input_scale", "other.input_zero_point"})

    def test_a_run_continues_and_machines_merge(self):
        whole, parts = self.folder / "whole", [self.folder / "a", self.folder / "b"]
        expected = self.run_cubit(self.activations, "--statistics", whole, "--json").stdout
        again = self.run_cubit(self.activations, "--statistics", whole, "--json")
        self.assertEqual(again.stdout, expected)
        self.assertIn("continues after 3 files", again.stderr)
        one_file = self.activations / "0.safetensors"
        self.run_cubit(one_file, "--statistics", parts[0])
        one_file.rename(self.folder / "moved")
        self.run_cubit(self.activations, "--statistics", parts[1], "--threads", 1)
        merged = self.run_cubit("--merge", parts[0], "--merge", parts[1], "--json")
        self.assertEqual(merged.stdout, expected)
        twice = self.run_cubit("--merge", parts[0], "--merge", parts[0], code=2)
        self.assertIn("has been added already", twice.stderr)
        resumed = self.run_cubit(self.activations, "--statistics", parts[0], "--json")
        self.assertEqual(resumed.stdout, expected)

    def test_statistics_of_other_activations_are_refused(self):
        """Another folder with the same file names, and a file that has changed."""
        statistics, scales, other = (self.folder / name for name in ("statistics", "scales.safetensors", "other"))
        self.run_cubit(self.activations, "--statistics", statistics)
        before = statistics.read_bytes()
        other.mkdir()
        for i, batch in enumerate(self.batches):
            write(other / f"{i}.safetensors", {LAYER: batch / 10, "other": batch[:, :8].astype(np.float16)})
            stamp = (self.activations / f"{i}.safetensors").stat()
            os.utime(other / f"{i}.safetensors", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        changed = self.activations / "1.safetensors"
        for activations, name in ((other, other / "0.safetensors"), (self.activations, changed)):
            done = self.run_cubit(activations, "--statistics", statistics, "--output", scales, code=2)
            self.assertIn(f"{name}: has the name of a file that has been added, but another folder, size or time",
                          done.stderr)
            self.assertFalse(scales.exists())
            self.assertEqual(statistics.read_bytes(), before)
            write(changed, {LAYER: self.batches[1] * 3, "other": self.batches[1][:, :8].astype(np.float16)})

    def test_one_command_at_a_time_updates_statistics(self):
        statistics = self.folder / "statistics"
        with open(f"{statistics}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            done = self.run_cubit(self.activations, "--statistics", statistics, code=2)
            self.assertIn(f"--statistics {statistics}: another process is updating this file", done.stderr)
            self.assertFalse(statistics.exists())
        files = sorted(self.activations.iterdir())
        together = [subprocess.Popen([PROGRAM, "calibrate", str(file), "--statistics", str(statistics)],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for file in files]
        succeeded = [process.wait() for process in together].count(0)
        self.assertGreater(succeeded, 0)
        kept = json.loads(self.run_cubit("--statistics", statistics, "--json").stdout)
        self.assertEqual(kept["files"], succeeded)  # nothing that a command reported as done is lost
        self.assertFalse(Path(f"{statistics}.lock").exists())

    def test_statistics_are_of_the_layers_that_were_asked_for(self):
        statistics = self.folder / "statistics"
        self.run_cubit(self.activations, "--statistics", statistics, "--layers", "other")
        refused = self.run_cubit(self.activations, "--statistics", statistics, code=2)
        self.assertIn('was collected with the patterns ["other"], not ["*"]', refused.stderr)
        everything = self.folder / "everything"
        self.run_cubit(self.activations, "--statistics", everything)
        merged = self.run_cubit("--merge", everything, "--layers", "other", "--json")
        self.assertEqual(list(json.loads(merged.stdout)["layers"]), ["other"])
        absent = self.run_cubit("--merge", everything, "--layers", "absent", code=2)
        self.assertIn('has no layer that matches the patterns ["absent"]', absent.stderr)

    def test_files_of_the_command_may_lie_beside_the_activations(self):
        other = self.folder / "other.safetensors"
        write(other, {LAYER: self.batches[0]})
        beside = f"{self.activations}/../activations/"
        self.run_cubit(other, "--statistics", beside + "merged.safetensors")
        arguments = (self.activations, "--merge", beside + "merged.safetensors", "--output", beside + "scales.safetensors",
                     "--json")
        for _ in range(2):
            self.assertEqual(json.loads(self.run_cubit(*arguments).stdout)["files"], 4)
        (self.activations / "merged.safetensors").unlink()
        (self.activations / "scales.safetensors").unlink()
        for _ in range(2):
            done = self.run_cubit(self.activations, "--statistics", beside + "kept.safetensors", "--json")
            self.assertEqual(json.loads(done.stdout)["files"], 3)

    def test_a_layer_without_values_is_left_out(self):
        for path in self.activations.iterdir():
            write(path, {LAYER: self.batches[0], "expert": np.zeros((0, 32), np.float32)})
        scales = self.folder / "scales.safetensors"
        done = self.run_cubit(self.activations, "--output", scales, "--json")
        self.assertIn("layer expert: has no values and is left out\n", done.stderr)
        self.assertEqual(list(json.loads(done.stdout)["layers"]), [LAYER])
        self.assertEqual(list(read(scales)), [f"{LAYER}.input_scale"])
        empty = self.run_cubit(self.activations, "--layers", "expert", code=2)
        self.assertIn("the activations: have no values", empty.stderr)

    def test_threads_are_not_negative(self):
        self.assertIn("--threads", self.run_cubit(self.activations, "--threads", "-3", code=2).stderr)

    def test_bad_input_is_one_sentence_and_leaves_no_output(self):
        scales, pictures = self.folder / "scales.safetensors", self.folder / "pictures"
        bad = self.activations / "3.safetensors"

        def refused(part: str, *arguments: str) -> None:
            done = self.run_cubit(*arguments, code=2)
            self.assertIn(part, done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertFalse(scales.exists())
            self.assertFalse(pictures.exists())

        output = (self.activations, "--output", scales, "--pictures", pictures)
        write(bad, {LAYER: np.array([[np.nan] + [1] * 31], np.float32)})
        refused(f"layer {LAYER}, 1 of 1952 values: are not finite", *output)
        write(bad, {LAYER: np.zeros((2, 16), np.float32)})
        refused("has 16 channels, but earlier batches have 32", *output)
        write(bad, {"ids": np.zeros((2, 16), np.int32)})
        refused("tensor ids: has the type I32, which is not a floating-point type", *output)
        bad.write_bytes((self.activations / "0.safetensors").read_bytes()[:-1])
        refused("3.safetensors", *output)
        bad.unlink()
        refused("method kl: is unknown; accepted: minmax, percentile, entropy, mse", *output, "--method", "kl")
        refused("have no layers", *output, "--layers", "absent*")
        refused("percentile 0", *output, "--percentile", "0")
        refused("names no activations", "--output", scales)
        refused("cannot be read", self.folder / "absent", "--output", scales)

    def test_an_output_that_cannot_be_written_is_refused_first(self):
        report, absent, file = self.folder / "report.json", self.folder / "absent" / "scales", self.folder / "file"
        file.write_text("mine")
        for arguments in (("--output", absent, "--report", report), ("--report", absent), ("--pictures", file)):
            statistics = self.folder / "statistics"
            self.run_cubit(self.activations, "--statistics", statistics, *arguments, code=2)
            self.assertFalse(statistics.exists(), "the activations were read before")
            self.assertFalse(report.exists())
        self.assertEqual(file.read_text(), "mine")

    def test_an_output_never_replaces_an_input_or_another_output(self):
        batch, kept, other = self.activations / "1.safetensors", self.folder / "kept", self.folder / "other"
        self.run_cubit(self.activations, "--statistics", kept)
        other.symlink_to("kept")
        before = {path: path.read_bytes() for path in (batch, kept)}
        for path, arguments in ((batch, ("--output", batch)), (batch, ("--report", batch)),
                                (kept, ("--statistics", kept, "--output", other)),
                                (kept, ("--statistics", kept, "--report", other)), (kept, ("--merge", kept, "--output", other))):
            activations = [] if "--merge" in arguments else [self.activations]
            self.run_cubit(*activations, *arguments, code=2)
            self.assertEqual(path.read_bytes(), before[path], arguments)
        both = self.folder / "both"
        self.assertIn("is also the file of --output",
                      self.run_cubit(self.activations, "--output", both, "--report", f"{self.activations}/../both", code=2).stderr)
        self.assertIn("is also the file of --statistics",
                      self.run_cubit(self.activations, "--output", both, "--statistics", both, code=2).stderr)
        self.assertFalse(both.exists())

    def test_a_refused_scale_leaves_no_output(self):
        write(self.activations / "3.safetensors", {"large": np.array([[1e300, 1]])})
        outputs = [self.folder / name for name in ("scales.safetensors", "report.json")]
        done = self.run_cubit(self.activations, "--method", "minmax", "--output", outputs[0],
                              "--report", outputs[1], code=2)
        self.assertIn("exceeds the largest F32 number", done.stderr)
        self.assertEqual([path for path in outputs if path.exists()], [])

    def test_outputs_that_do_not_fit_leave_nothing(self):
        """A picture exceeds the largest file size; scales and report do not."""
        scales, report, pictures = (self.folder / name for name in ("scales.safetensors", "report.json", "pictures"))
        before = sorted(self.folder.rglob("*"))
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))
        done = subprocess.run([PROGRAM, "calibrate", self.activations, "--output", scales, "--report", report,
                               "--pictures", pictures], capture_output=True, text=True, preexec_fn=limit,
                              restore_signals=False)  # Python ignores SIGXFSZ, so a write fails instead
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("cannot be written: File too large", done.stderr)
        self.assertEqual(sorted(self.folder.rglob("*")), before)
        self.run_cubit(self.activations, "--output", scales, "--report", report, "--pictures", pictures)
        sizes = [path.stat().st_size for path in (scales, report, *pictures.iterdir())]
        self.assertLess(max(sizes[:2]), LIMIT)
        self.assertGreater(min(sizes[2:]), LIMIT)

    def test_every_layer_has_a_picture(self):
        """Names that differ only in a slash, and names that no file can have."""
        names = ["a/b", "a_b", "é" * 2000, "é" * 2000 + "x", "x\ty\x7f"]
        write(self.activations / "3.safetensors", {name: self.batches[0] for name in names})
        pictures = self.folder / "pictures"
        self.run_cubit(self.activations, "--pictures", pictures)
        self.assertEqual([path.name for path in pictures.iterdir() if not path.name.isprintable()], [])
        titles = {"".join(next(xml.etree.ElementTree.parse(path).getroot().iter("{http://www.w3.org/2000/svg}title")).itertext())
                  for path in pictures.iterdir()}
        self.assertEqual(titles, {f"{name}: values and ranges".replace("\t", "�") for name in (LAYER, "other", *names)})

    def test_a_tensor_without_tokens_may_claim_any_width(self):
        write(self.activations / "3.safetensors", {"empty": np.zeros((0, 1 << 61), np.float16)})
        done = self.run_cubit(self.activations)
        self.assertIn("layer empty: has no values and is left out\n", done.stderr)

    def test_a_layer_that_a_batch_lacks_is_named(self):
        write(self.activations / "3.safetensors", {"other": np.ones((1, 8), np.float32)})
        self.assertIn(f"layer {LAYER}: is in 3 of 4 files", self.run_cubit(self.activations).stderr)

    def test_a_failed_run_loses_nothing_and_continues(self):
        scales, statistics, report = (self.folder / name for name in ("scales.safetensors", "statistics", "report.json"))
        arguments = (self.activations, "--statistics", statistics, "--output", scales, "--report", report)
        self.run_cubit(*arguments)
        before = {path: path.read_bytes() for path in (scales, statistics, report)}
        names = sorted(path.name for path in self.folder.iterdir())
        whole = (self.activations / "0.safetensors").read_bytes()
        bad = self.activations / "3.safetensors"
        header = 8 + struct.unpack("<Q", whole[:8])[0]
        for length in (0, 7, 8, header - 1, header, len(whole) // 2, len(whole) - 1):
            bad.write_bytes(whole[:length])
            done = self.run_cubit(*arguments, code=2)
            self.assertIn("3.safetensors", done.stderr.splitlines()[-1])
            self.assertEqual({path: path.read_bytes() for path in before}, before, f"{length} bytes")
            self.assertEqual(sorted(path.name for path in self.folder.iterdir()), names)
        bad.write_bytes(whole)
        self.run_cubit(*arguments)
        continued = json.loads(report.read_text())["layers"]
        self.assertEqual(continued, json.loads(self.run_cubit(self.activations, "--json").stdout)["layers"])
        self.assertEqual(continued[LAYER]["tokens"], 80)

    def test_batches_of_any_shape_are_the_same_tokens(self):
        values = np.concatenate(self.batches)
        whole = self.folder / "whole"
        whole.mkdir()
        write(whole / "0.safetensors", {LAYER: values})
        expected = json.loads(self.run_cubit(whole, "--json").stdout)["layers"][LAYER]
        shapes = self.folder / "shapes"
        shapes.mkdir()
        parts = [values[:1], values[1], values[2:22].reshape(2, 10, 32), values[22:23].reshape(1, 1, 1, 32), values[23:]]
        for i, part in enumerate(parts):
            write(shapes / f"{i}.safetensors", {LAYER: part})
        found = json.loads(self.run_cubit(shapes, "--json").stdout)["layers"][LAYER]
        self.assertEqual(found.pop("batches"), 5)
        self.assertEqual(expected.pop("batches"), 1)
        self.assertEqual(found, expected)

    def test_channels_of_zeros_change_no_range(self):
        folder = self.folder / "zeros"
        folder.mkdir()
        values = self.batches[0].copy()
        values[:, 5] = 0
        write(folder / "0.safetensors", {LAYER: values})
        layers = json.loads(self.run_cubit(folder, "--json", "--method", "minmax").stdout)["layers"]
        self.assertAlmostEqual(layers[LAYER]["scale"], np.abs(values).max() / 127, delta=1e-9)

    def test_special_tensors(self):
        folder = self.folder / "special"
        folder.mkdir()
        write(folder / "0.safetensors", {"constant": np.full((3, 4), 2, np.float32), "zero": np.zeros((3, 4), np.float32),
                                         "one": np.array([[-1]], np.float32)})
        layers = json.loads(self.run_cubit(folder, "--json", "--pictures", self.folder / "pictures").stdout)["layers"]
        self.assertEqual(layers["zero"]["scale"], 1)
        self.assertEqual(layers["constant"]["methods"]["entropy"]["high"], 2)
        self.assertEqual(layers["one"]["methods"]["mse"]["low"], -1)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
