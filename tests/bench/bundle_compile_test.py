"""Tests bench/bundle_compile.py with the real program: bundle_compile_test.py <source root> <cubit> <libnvrtc_timer.so>.

The numbers of a run must agree with each other and with the bundle that the run makes.
"""

import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT, PROGRAM, TIMER = sys.argv[1:4]
SCRIPT = f"{ROOT}/bench/bundle_compile.py"


def find_nvrtc():
    """The newest NVRTC in the folder that the environment names, or None."""
    if os.environ.get("CUBIT_NVRTC"):
        return os.environ["CUBIT_NVRTC"]
    folders = [os.environ[name] for name in ("CUBIT_NVRTC_DIR", "CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    for folder in folders + ["/usr/local/cuda"]:
        found = [file for below in ("", "/lib64", "/lib") for file in glob.glob(f"{folder}{below}/libnvrtc.so.[0-9]*")]
        if found:
            return max(found)
    return None


class BundleCompile(unittest.TestCase):
    def setUp(self):
        self.nvrtc = find_nvrtc()
        if self.nvrtc is None:
            self.assertFalse(os.environ.get("CUBIT_EXPECT_NVRTC"), "set-up has provided NVRTC, but there is none")
            self.skipTest("no NVRTC on this machine")

    def measure(self, *options, program=PROGRAM):
        with tempfile.TemporaryDirectory() as folder:
            kernels = Path(folder) / "kernels.txt"
            kernels.write_text("stream_read\nstream_copy\n")
            command = [sys.executable, "-B", SCRIPT, program, TIMER, self.nvrtc, "--list", str(kernels), "--arch", "sm_80"]
            return subprocess.run([*command, *options], capture_output=True, text=True)

    def test_the_numbers_of_a_run_agree(self):
        done = self.measure("--jobs", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual(result["kernels"], 2)
        self.assertGreaterEqual(result["nvrtc_compiles"], 2)
        self.assertGreater(result["nvrtc_cpu_seconds"], 0.02)
        self.assertLess(result["nvrtc_cpu_seconds"], result["cpu_seconds"])
        self.assertAlmostEqual(result["cpu_share_outside_nvrtc"],
                               1 - result["nvrtc_cpu_seconds"] / result["cpu_seconds"])
        self.assertGreaterEqual(result["cores_wanted"], result["cores_busy"])
        self.assertLess(result["cores_busy"], 1.05)
        self.assertAlmostEqual(result["kernels_per_second"], 2 / result["wall_seconds"])
        self.assertGreater(result["bundle_bytes"], 4096)
        self.assertEqual(result["ptx_bytes"], 0)

    def test_ptx_is_measured_by_itself(self):
        result = json.loads(self.measure("--jobs", "2", "--ptx").stdout)
        self.assertEqual(result["kernels"], 4)
        self.assertGreater(result["ptx_bytes"], 100)
        self.assertLess(result["ptx_bytes"], result["bundle_bytes"])

    def test_a_failure_gives_no_result(self):
        done = self.measure(program="false")
        self.assertEqual(done.stdout, "")
        self.assertIn("exit code 1", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
