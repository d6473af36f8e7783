"""quoted_numbers.py finds what it is there for: a digit, a row and a table that are not the file's."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def complaints(old: str, new: str) -> tuple[int, str]:
    """Of a tree whose README has `new` in the place of `old`."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        (tree / "docs").mkdir()
        (tree / "bench").mkdir()
        shutil.copytree(ROOT / "docs/performance", tree / "docs/performance")
        shutil.copytree(ROOT / "bench/results", tree / "bench/results")
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        assert old in text, old
        (tree / "README.md").write_text(text.replace(old, new, 1), encoding="utf-8")
        done = subprocess.run([sys.executable, "-B", HERE / "quoted_numbers.py", tree], capture_output=True, text=True,
                              check=False)
        return done.returncode, done.stdout


class QuotedNumbers(unittest.TestCase):
    def expect_complaint(self, old: str, new: str, complaint: str) -> None:
        code, text = complaints(old, new)
        self.assertEqual(code, 1)
        self.assertIn(complaint, text)

    def test_a_tree_as_it_is(self) -> None:
        self.assertEqual(complaints("", "")[0], 0)

    def test_a_digit(self) -> None:
        self.expect_complaint("| int4_rows, 4 groups | 8.9 (47%)", "| int4_rows, 4 groups | 6.0 (47%)",
                              "6.0 (47%) of int4_rows, 4 groups is 8.9 (47%) in gqa_decode_h200.json")

    def test_a_row(self) -> None:
        self.expect_complaint("| fp8_e4m3 | 11.1", "| fp8_e3m4 | 11.1", "has no row fp8_e4m3")

    def test_a_table(self) -> None:
        self.expect_complaint("| KV cache | B=8 |", "| Cache | B=8 |", "no table begins with | KV cache | B=8 |")


if __name__ == "__main__":
    unittest.main()
