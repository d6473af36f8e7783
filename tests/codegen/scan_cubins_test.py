"""Proves that scan_cubins.py finds a comparison of a clamped number, and nothing else, in lines of nvdisasm."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/scan_cubins.py"
sys.path.insert(0, str(SCRIPT.parent))
import scan_cubins  # noqa: E402

WRONG = "        /*0090*/                   VIMNMX.RELU R7, P0, P0, R2, R11, PT ;"
WRONG_UNSIGNED = "        /*0090*/                   VIMNMX.U32.RELU R7, PT, P3, R2, R11, PT ;"
RIGHT = ("        /*0090*/                   VIMNMX.RELU R7, PT, PT, R2, R11, PT ;",
         "        /*0090*/                   VIMNMX.RELU R7, R2, R11, PT ;",
         "        /*00a0*/                   VIMNMX R7, P0, P0, R2, R11, PT ;",
         "        /*00b0*/                   ISETP.NE.AND P0, PT, R7, R11, PT ;")


def scan(content: str | None) -> subprocess.CompletedProcess:
    """Scans a folder with one cubin, or with none, whose disassembly is `content`: the disassembler is cat."""
    with tempfile.TemporaryDirectory() as folder:
        disassembler = Path(folder) / "disassembler"
        disassembler.write_text('#!/bin/sh\ncat "$2"\n', encoding="utf-8")
        disassembler.chmod(0o755)
        if content is not None:
            (Path(folder) / "kernel.cubin").write_text(content, encoding="utf-8")
        return subprocess.run([sys.executable, SCRIPT, disassembler, folder], capture_output=True, text=True, check=False)


class ScanCubins(unittest.TestCase):
    def test_finds_a_clamp_that_writes_a_predicate(self):
        for line in (WRONG, WRONG_UNSIGNED):
            self.assertEqual(scan_cubins.wrong_instructions("\n".join((*RIGHT, line))), [line.strip()])

    def test_passes_over_other_instructions(self):
        self.assertEqual(scan_cubins.wrong_instructions("\n".join(RIGHT)), [])

    def test_fails_with_the_name_of_the_kernel(self):
        done = scan(WRONG)
        self.assertEqual(done.returncode, 1)
        self.assertIn("kernel.cubin: ptxas compares a clamped number wrongly", done.stdout)

    def test_succeeds_without_such_code_and_fails_without_cubins(self):
        self.assertEqual(scan("\n".join(RIGHT)).returncode, 0)
        self.assertEqual(scan(None).returncode, 1)


if __name__ == "__main__":
    unittest.main()
