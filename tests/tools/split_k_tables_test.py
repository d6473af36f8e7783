"""Proves that bench/split_k_tables.py writes what the results say, and that docs/split_k.md has the tables of the files
bench/results/split_k_*.json.

  split_k_tables_test.py ROOT
"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(sys.argv[1])
SCRIPT = ROOT / "bench/split_k_tables.py"
MARKS = ["<!-- Tables by bench/split_k_tables.py: begin -->", "<!-- Tables by bench/split_k_tables.py: end -->"]


def entry(rows, decomposition, splits, microseconds):
    return {"sizes": {"m": rows, "n": 4096, "k": 4096}, "decomposition": decomposition, "splits": splits,
            "device": "a GPU", "commit": "abc", "arch": "sm_90a", "driver": 13000, "microseconds": microseconds,
            "teraflops": 2 * rows * 4096 * 4096 / microseconds / 1e6, "speedup": 40 / microseconds, "registers": 168,
            "shared_memory": 66560, "blocks": 64, "blocks_per_sm": 3, "occupancy": 0.1875}


RESULTS = [entry(rows, *one) for rows in (1, 16)
           for one in (("data_parallel", None, 40), ("split_k", 4, 20), ("split_k_atomic", 4, 16))]
RESULTS += [{"sizes": {"m": 16, "n": 4096, "k": 4096}, "decomposition": "stream_k", "splits": None, "skipped": "why"}]
PUBLISHED = {"source": "A. N. Author", "averages": [{"device": "A100", "average_percent": 65}],
             "cells": [{"device": "A100", "m": 16, "size": 4096, "data_parallel_teraflops": 9.5,
                        "split_k_teraflops": 19.25}]}


def run(*arguments):
    return subprocess.run([sys.executable, "-B", str(SCRIPT), *map(str, arguments)], capture_output=True, text=True,
                          check=False)


class Tables(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.results = Path(folder.name) / "split_k_x.json"
        self.results.write_text(json.dumps(RESULTS), encoding="utf-8")
        self.published = Path(folder.name) / "published.json"
        self.published.write_text(json.dumps(PUBLISHED), encoding="utf-8")
        self.page = Path(folder.name) / "page.md"
        self.page.write_text("\n".join(["before", *MARKS, "after", ""]), encoding="utf-8")

    def test_tables_quote_the_results(self):
        text = run(self.results, "--published", self.published).stdout
        for line in ("| Triton split-K, A100 (A. N. Author) | 65% |  |", "| cubit split_k 4 | 100% | 100% |",
                     "| cubit split_k_atomic 4 | 150% | 150% |",
                     "| 16 | 4096 | A100 | 9.50 | 19.25 | 13.42 | 33.55 |",
                     "| M=16, n = k = 4096 | registers | shared KiB | blocks | blocks/SM | occupancy |",
                     "| split_k 4 | 168 | 65.0 | 64 | 3 | 19% |", "| n = k = 4096 | M=1 | M=16 |",
                     "| split_k 4 | 20.00 (1.68) | 20.00 (26.84) |"):
            self.assertIn(line, text.splitlines())
        self.assertNotIn("stream_k", text)

    def test_a_page_is_written_and_checked(self):
        arguments = [self.results, "--page", self.page]
        self.assertEqual(run(*arguments, "--check").returncode, 1)
        self.assertEqual(run(*arguments).returncode, 0)
        self.assertEqual(run(*arguments, "--check").returncode, 0)
        written = self.page.read_text(encoding="utf-8")
        self.assertTrue(written.startswith("before\n") and written.endswith("\nafter\n"))
        self.page.write_text(written.replace("20.00", "19.00"), encoding="utf-8")
        self.assertEqual(run(*arguments, "--check").returncode, 1)

    def test_the_page_of_the_tree_has_the_tables_of_its_results(self):
        results = sorted((ROOT / "bench/results").glob("split_k_*.json"))
        checked = run(*results, "--page", ROOT / "docs/split_k.md", "--check")
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
