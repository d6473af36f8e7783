"""Runs cubit calibrate on much data: memory, files larger than memory, and a kill in between. large_test.py CUBIT [TEST].

The files are sparse, or names of the same file, so they take little space on the disk.
"""

import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import numpy as np

from command_test import write

GIB = 1 << 30
HIDDEN, INNER, BLOCKS, BATCHES = 8192, 28672, 80, 512  # of a Llama model with 70 billion parameters
LAYERS = {"self_attn.q_proj": HIDDEN, "self_attn.k_proj": HIDDEN, "self_attn.v_proj": HIDDEN,
          "self_attn.o_proj": HIDDEN, "mlp.gate_proj": HIDDEN, "mlp.up_proj": HIDDEN, "mlp.down_proj": INNER}


def write_zeros(path: Path, bytes_: int) -> None:
    """A sparse file with one tensor of zeros, [tokens, HIDDEN] in F16."""
    tensor = {"dtype": "F16", "shape": [bytes_ // 2 // HIDDEN, HIDDEN], "data_offsets": [0, bytes_]}
    text = json.dumps({"layer": tensor}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    os.truncate(path, 8 + len(text) + bytes_)


class Large(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.activations = self.folder / "activations"
        self.activations.mkdir()

    def run_cubit(self, *arguments, limit: int | None = None) -> dict:
        """The report. The process has `limit` bytes of address space."""
        set_limit = (lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))) if limit else None
        command = [PROGRAM, "calibrate", *map(str, arguments), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, preexec_fn=set_limit)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def link(self, source: Path, count: int) -> None:
        """Gives a file `count` names among the activations."""
        for i in range(count):
            os.link(source, self.activations / f"{i:03}.safetensors")

    def test_all_layers_of_a_large_model_take_less_than_two_gib(self):
        random = np.random.default_rng(1)
        batch = self.folder / "batch.safetensors"
        write(batch, {f"model.layers.{block}.{name}": random.normal(0, 1, (1, width)).astype(np.float16)
                      for block in range(BLOCKS) for name, width in LAYERS.items()})
        self.link(batch, BATCHES)
        report = self.run_cubit(self.activations, "--statistics", self.folder / "statistics", "--method", "minmax")
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
        print(f"{BATCHES} batches of {len(report['layers'])} layers: at most {most / GIB:.2f} GiB")
        self.assertEqual((report["files"], len(report["layers"])), (BATCHES, BLOCKS * len(LAYERS)))
        self.assertLess(most, 2 * GIB)

    def test_a_file_may_be_larger_than_memory(self):
        write_zeros(self.activations / "0.safetensors", 3 * GIB // 2)
        report = self.run_cubit(self.activations, limit=GIB // 2)
        self.assertEqual(report["layers"]["layer"]["tokens"], 3 * GIB // 4 // HIDDEN)

    def test_a_killed_run_continues(self):
        """The statistics are saved after ten seconds, and the process is killed once the file appears."""
        write_zeros(self.folder / "source", GIB // 2)
        self.link(self.folder / "source", 200)
        statistics, scales = self.folder / "statistics", self.folder / "scales.safetensors"
        arguments = self.activations, "--statistics", statistics, "--output", scales
        process = subprocess.Popen([PROGRAM, "calibrate", *map(str, arguments)], stdout=subprocess.DEVNULL)
        while not statistics.exists():
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        process.kill()
        process.wait()
        self.assertFalse(scales.exists())
        known = self.run_cubit("--statistics", statistics)["files"]
        self.assertGreater(known, 0)
        for path in sorted(self.activations.iterdir())[known + 2:]:
            path.unlink()
        self.assertEqual(self.run_cubit(*arguments), self.run_cubit(self.activations))
        self.assertTrue(scales.exists())


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
