"""Kills cubit smooth and cubit quantize-checkpoint at several points, and starts them again: resume_test.py CUBIT.

A command that was killed leaves neither an output folder nor a report. The same command then makes the bytes of an
uninterrupted run.
"""

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
import unittest
from pathlib import Path
from typing import Callable

import numpy as np

from command_test import write

HIDDEN, INNER = 256, 512
REST = 1 << 28  # bytes of a tensor of zeros, which takes a while to read and write
LAYERS = {"self_attn.q_proj": HIDDEN, "self_attn.k_proj": HIDDEN, "self_attn.v_proj": HIDDEN, "mlp.gate_proj": INNER,
          "mlp.up_proj": INNER}
FIRST, SECOND = "model.layers.0.self_attn.q_proj", "model.layers.0.mlp.gate_proj"

# When to kill: what the temporary folder has by then.
COLLECTING = lambda partial: (partial / "request.note").exists()
SEARCHING = lambda partial: (partial / "inputs.note").exists()
ONE_GROUP = lambda partial: (partial / "group0.note").exists()
ONE_FILE = lambda partial: (partial / "a.safetensors").exists()
SECOND_FILE = lambda partial: any(partial.glob("b.safetensors.*.tmp"))


def write_zeros(path: Path, name: str, dtype: str, shape: list[int], bytes_: int) -> None:
    """A sparse file with one tensor of zeros."""
    text = json.dumps({name: {"dtype": dtype, "shape": shape, "data_offsets": [0, bytes_]}}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    os.truncate(path, 8 + len(text) + bytes_)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def terminal_output(command: list[str]) -> str:
    """What the command shows on a terminal of 500 columns."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 500, 0, 0))
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=its)
    os.close(its)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 1 << 16)
        except OSError:  # the process has closed the terminal
            break
    os.close(ours)
    assert process.wait() == 0
    return shown.decode()


class Resume(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = Path(temporary.name)
        cls.model, cls.activations = cls.folder / "model", cls.folder / "activations"
        random = np.random.default_rng(11)
        tensors = {f"model.layers.0.{norm}.weight": random.uniform(0.5, 20, HIDDEN).astype(np.float32)
                   for norm in ("input_layernorm", "post_attention_layernorm")}
        for layer, out in LAYERS.items():
            tensors[f"model.layers.0.{layer}.weight"] = random.normal(0, 0.1, (out, HIDDEN)).astype(np.float32)
        cls.model.mkdir()
        write(cls.model / "a.safetensors", tensors)
        write_zeros(cls.model / "b.safetensors", "rest", "U8", [REST], REST)
        index = {"weight_map": {**{name: "a.safetensors" for name in tensors}, "rest": "b.safetensors"}}
        (cls.model / "model.safetensors.index.json").write_text(json.dumps(index))
        (cls.model / "config.json").write_text('{"model_type": "llama"}')
        cls.activations.mkdir()
        for i in range(3):
            inputs = random.normal(0, 1, (100, HIDDEN)).astype(np.float32)
            inputs[:, 7] *= 40
            write(cls.activations / f"{i}.safetensors", {FIRST: inputs, SECOND: inputs[::2] / 3})
        write_zeros(cls.activations / "3.safetensors", FIRST, "F32", [REST // 4 // HIDDEN, HIDDEN], REST)
        cls.expected = {command: cls.outputs(command, f"expected_{command[0]}")
                        for command in (cls.smooth(), cls.quantize())}

    @classmethod
    def smooth(cls) -> tuple[str, ...]:
        return "smooth", str(cls.model), "--activations", str(cls.activations)

    @classmethod
    def quantize(cls) -> tuple[str, ...]:
        return "quantize-checkpoint", str(cls.model)

    @classmethod
    def command(cls, arguments: tuple[str, ...], name: str) -> list[str]:
        pictures = ["--pictures", str(cls.folder / f"{name}.pictures")] if arguments[0] == "smooth" else []
        return [PROGRAM, *arguments, "--output", str(cls.folder / name), "--report", str(cls.folder / f"{name}.json"),
                *pictures]

    @classmethod
    def outputs(cls, arguments: tuple[str, ...], name: str) -> tuple:
        """Everything that a run makes, which is then removed. Fails if the run leaves anything else."""
        before = {path.name for path in cls.folder.iterdir()} - {f"{name}.partial", f"{name}.pictures"}
        done = subprocess.run(cls.command(arguments, name), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        output, report, pictures = cls.folder / name, cls.folder / f"{name}.json", cls.folder / f"{name}.pictures"
        drawn = content(pictures) if pictures.exists() else {}
        made = done.stdout, report.read_bytes(), content(output), drawn
        after = {path.name for path in cls.folder.iterdir()}
        assert after - before == {output.name, report.name} | ({pictures.name} if drawn else set()), after
        subprocess.run(["rm", "-r", "-f", output, report, pictures], check=True)
        return made

    def kill(self, arguments: tuple[str, ...], name: str, is_due: Callable[[Path], bool]) -> Path:
        """Kills a process as soon as the temporary folder is as wanted. Returns the temporary folder."""
        partial = self.folder / f"{name}.partial"
        process = subprocess.Popen(self.command(arguments, name), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not is_due(partial):
            self.assertIsNone(process.poll(), "the process ended before it could be killed")
        process.kill()
        self.assertNotEqual(process.wait(), 0, "the process ended before it could be killed")
        self.assertTrue(partial.exists())
        for path in (self.folder / name, self.folder / f"{name}.json"):
            self.assertFalse(path.exists(), path)
        pictures = self.folder / f"{name}.pictures"
        self.assertEqual(list(pictures.iterdir()) if pictures.exists() else [], [])
        return partial

    def test_a_killed_smooth_gives_the_same_bytes(self):
        for i, point in enumerate((COLLECTING, SEARCHING, ONE_GROUP, ONE_FILE, SECOND_FILE)):
            with self.subTest(point=i):
                self.kill(self.smooth(), f"smooth{i}", point)
                self.assertEqual(self.outputs(self.smooth(), f"smooth{i}"), self.expected[self.smooth()])

    def test_a_smooth_that_is_killed_again_and_again_gives_the_same_bytes(self):
        for point in (COLLECTING, SEARCHING, ONE_GROUP, ONE_FILE, SECOND_FILE, SECOND_FILE):
            self.kill(self.smooth(), "often", point)
        self.assertEqual(self.outputs(self.smooth(), "often"), self.expected[self.smooth()])

    def test_a_killed_quantisation_gives_the_same_bytes(self):
        for i, point in enumerate((COLLECTING, ONE_FILE, SECOND_FILE)):
            with self.subTest(point=i):
                self.kill(self.quantize(), f"quantize{i}", point)
                self.assertEqual(self.outputs(self.quantize(), f"quantize{i}"), self.expected[self.quantize()])

    def test_a_search_is_not_repeated(self):
        """A marked note of the first group shows in the report, the other group is searched."""
        note = self.kill(self.smooth(), "marked", ONE_GROUP) / "group0.note"
        found = json.loads(note.read_text())
        note.write_text(json.dumps(found | {"alpha": 0.123}))
        expected = json.loads(self.expected[self.smooth()][1])
        self.assertEqual(found["inputs"], expected["groups"][0]["inputs"])
        expected["groups"][0]["alpha"] = 0.123
        self.assertEqual(json.loads(self.outputs(self.smooth(), "marked")[1]), expected)

    def test_another_request_begins_again(self):
        """Results for another alpha, or of activations that have changed, are not used."""
        note = self.kill(self.smooth(), "other", ONE_GROUP) / "group0.note"
        note.write_text(json.dumps(json.loads(note.read_text()) | {"alpha": 0.123}))
        groups = json.loads(self.outputs((*self.smooth(), "--alpha", "0.75"), "other")[1])["groups"]
        self.assertEqual([group["alpha"] for group in groups], [0.75, 0.75])
        partial = self.kill(self.smooth(), "other", ONE_GROUP)
        (partial / "group0.note").write_text("damaged")
        os.utime(self.activations / "1.safetensors", (0, 0))
        self.assertEqual(self.outputs(self.smooth(), "other"), self.expected[self.smooth()])

    def test_progress_shows_on_a_terminal(self):
        """Every phase has a bar, which names what is being read or written."""
        calibrate = "calibrate", str(self.activations)
        for arguments, words in ((self.smooth(), ("MiB, " + str(self.activations), "norms, model.layers.0", "MiB, rest")),
                                 (self.quantize(), ("MiB, rest",)), (calibrate, ("MiB, " + str(self.activations),))):
            output = ["--output", str(self.folder / "shown")]
            shown = terminal_output([PROGRAM, *arguments, *output])
            for word in words:
                self.assertIn(word, shown)
            subprocess.run(["rm", "-r", "-f", output[1]], check=True)

    def test_a_report_that_cannot_be_written_is_refused_first(self):
        for arguments in (self.smooth(), self.quantize()):
            command = [PROGRAM, *arguments, "--output", str(self.folder / "none"), "--report", "/absent/report.json"]
            done = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn("/absent/report.json: cannot be written", done.stderr)
            self.assertEqual(list(self.folder.glob("none*")), [])


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
