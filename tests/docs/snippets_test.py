"""snippets.py finds what it is there for: a planted mistake of each kind fails, and its correct neighbour passes.

  snippets_test.py [CXX [CC]]

The tool is a script that accepts one command, so that the test needs no build.
"""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import snippets

ROOT = Path(__file__).resolve().parent.parent.parent
TOOL = """#!/bin/sh
[ "$1" = good ] && [ -e examples ] && [ -n "$CUBIT_CACHE_DIR" ] && exit 0
echo "$1: not a command" >&2
exit 2
"""
COMPILERS = ["c++", "cc"]

# (the block, part of the complaint); no complaint: the block is good.
BLOCKS = [
    ("```sh\ncubit good\n```", ""),
    ("```sh\n# a comment\ncubit good \\\n  --option\ncubit good\n```", ""),
    ("```sh\ncubit bad\n```", "bad: not a command"),
    ("```sh\ncubit good\ncubit bad\n```", "exit code 2"),
    ("```sh\ncubit bad | cat\n```", "exit code 2"),
    ("```sh\nCUBIT_A=b CUBIT_B= \\\n  cubit good\n```", ""),
    ("```sh\nCUBIT_A=b cubit bad\n```", "exit code 2"),
    ("```sh\nHOME=/ cubit good\n```", "does not begin with \"cubit \""),
    ("```sh\nrm -r build\n```", "does not begin with \"cubit \""),
    ("```sh no-run\nmake install && apt install x\n```", ""),
    ("```sh no-run\nmake install &&\n```", "syntax error"),
    ("```sh no-run\nif make; then\n```", "syntax error"),
    ("```sh norun\ncubit good\n```", "\"norun\" says nothing about a sh block"),
    ("```\ncubit good\n```", "is not a language"),
    ("```console\ncubit good\n```", "is not a language"),
    ("```text\nanything at all\n```", ""),
    ("```text file=made.txt\nx\n```\n```sh\ncubit good < made.txt\n```", ""),
    ("```sh\ncubit good < made.txt\n```", "made.txt"),
    ("```cpp\nengine.get(\"gqa_decode\", \"sm_80\");\n```", ""),
    ("```cpp\nengine.got(\"gqa_decode\", \"sm_80\");\n```", "got"),
    ("```cpp\nengine.get(\"gqa_decode\", \"sm_80\")\n```", "expected"),
    ("```c\ncubit_kernel_retain(kernel);\n```", ""),
    ("```c\ncubit_kernel_keep(kernel);\n```", "cubit_kernel_keep"),
    ("```c program\n#include <stddef.h>\nint main(void) { return 0; }\n```", ""),
    ("```c program\nint main(void) { return 3; }\n```", "exit code 3"),
    ("```c program\nint absent(void);\nint main(void) { return absent(); }\n```", "absent"),
    ("```cpp program\nint main() { return zero; }\n```", "zero"),
    ("```python\nopen('made.txt', 'w').close()\n```\n```sh\ncubit good < made.txt\n```", ""),
    ("```python\nraise ValueError('planted')\n```", "planted"),
]


def complaints(page: str) -> tuple[int, str]:
    """The exit code and the words of snippets.py about a tree whose README is `page`."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in ("docs", "examples"):
            (tree / name).mkdir()
        (tree / "README.md").write_text(page + "\n", encoding="utf-8")
        (tree / "empty.c").write_text("", encoding="utf-8")  # in place of the library
        (tree / "cubit").write_text(TOOL, encoding="utf-8")
        (tree / "cubit").chmod(0o755)
        includes = [str(ROOT / "include"), *map(str, sorted(ROOT.glob("ops/*/include")))]
        arguments = ["snippets.py", str(tree), "--tool", str(tree / "cubit"), "--library", str(tree / "empty.c"),
                     "--cxx", COMPILERS[0], "--cc", COMPILERS[1], "--include", *includes]
        said = io.StringIO()
        with mock.patch.object(sys, "argv", arguments), contextlib.redirect_stdout(said):
            code = snippets.main()
        return code, said.getvalue()


class Snippets(unittest.TestCase):
    def test_each_planted_mistake_is_found_and_each_good_block_passes(self) -> None:
        for block, complaint in BLOCKS:
            with self.subTest(block=block):
                code, said = complaints(block)
                self.assertEqual(code, 1 if complaint else 0, said)
                self.assertIn(complaint, said)

    def test_a_complaint_names_page_and_line(self) -> None:
        self.assertIn("README.md:3: ", complaints("# A page\n\n```sh\ncubit bad\n```")[1])

    def test_a_block_that_is_never_closed_is_checked(self) -> None:
        self.assertEqual(complaints("```sh\ncubit bad")[0], 1)

    def test_pages_of_folders_are_found(self) -> None:
        pages = {page.relative_to(ROOT).as_posix() for page in snippets.pages_of(ROOT)}
        self.assertLessEqual({"README.md", "docs/concepts.md", "docs/operators/merge.md"}, pages)


if __name__ == "__main__":
    COMPILERS[:len(sys.argv) - 1] = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
