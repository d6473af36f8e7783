"""Proves that quoted_numbers.py finds a digit, a row and a table that differ from the results file."""

import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def complaints(old: str, new: str) -> tuple[int, str]:
    """The exit code and the output of quoted_numbers.py for a tree whose README has `new` in place of `old`."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        shutil.copytree(ROOT / "docs", tree / "docs")
        shutil.copytree(ROOT / "bench/results", tree / "bench/results")
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        assert old in text, old
        (tree / "README.md").write_text(text.replace(old, new, 1), encoding="utf-8")
        done = subprocess.run([sys.executable, "-B", HERE / "quoted_numbers.py", tree], capture_output=True, text=True,
                              check=False)
        return done.returncode, done.stdout


def first_cell(row: str) -> str:
    """The first number of the README's row that begins with `row`: 8.9 (47%)."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(rf"^\| {re.escape(row)} \| (\d+\.\d \(\d+%\)) ", text, re.MULTILINE)
    assert found, row
    return found[1]


class QuotedNumbers(unittest.TestCase):
    def expect_complaint(self, old: str, new: str, complaint: str) -> None:
        code, text = complaints(old, new)
        self.assertEqual(code, 1)
        self.assertIn(complaint, text)

    def test_a_tree_as_it_is(self) -> None:
        self.assertEqual(complaints("", "")[0], 0)

    def test_a_digit(self) -> None:
        row, cell = "| int4_rows, 4 groups | ", first_cell("int4_rows, 4 groups")
        self.expect_complaint(row + cell, row + "6.0 (47%)",
                              f"6.0 (47%) of int4_rows, 4 groups is {cell} in gqa_decode/gqa_decode_h200.json")

    def test_a_row(self) -> None:
        cell = first_cell("fp8_e4m3")
        self.expect_complaint(f"| fp8_e4m3 | {cell}", f"| fp8_e3m4 | {cell}", "has no row fp8_e4m3")

    def test_a_table(self) -> None:
        self.expect_complaint("| KV cache | B=8 |", "| Cache | B=8 |", "no table begins with | KV cache | B=8 |")


if __name__ == "__main__":
    unittest.main()
