"""pages.py finds what it is there for: each rule about pages is broken once in a small tree."""

import tempfile
import unittest
from pathlib import Path

import argument_page
import pages

GOOD = {
    "README.md": "# A tree\n\n[a\npage](docs/page.md#a-heading-it-is)\n[versions](docs/compatibility.md)\n",
    "docs/page.md": "# A page\n\n## A heading, it is\n\n`cmake/install.cmake`, `capi/`, `ops/<name>/x.cpp`, `ops/*`\n\n[an operator](operators/x.md)\n[arguments](operators/arguments.md)\n\n```text\n[no link](absent.md)\n```\n",
    "docs/operators/x.md": f"# x\n\n{pages.FIELDS}\n|---|---|---|---|\n| `size` | 1 | 1, 2 | how many |\n\n{pages.TENSORS}\n|---|---|---|\n| `key`, `value` | [size] | |\n",
    "docs/compatibility.md": "`find_package(cubit 0.1)` `libcubit.so.0` SameMinorVersion\n",
    "CMakeLists.txt": "project(cubit VERSION 0.1.0 LANGUAGES C CXX)\n",
    "cmake/install.cmake": "write_basic_package_version_file(x COMPATIBILITY SameMinorVersion)\n",
    "tests/docs/argument_page.py": "",
    "pyproject.toml": 'version = "0.1.0"\ncpu = ["cubit-kernels-cpu==0.1.0"]\n',
    "python/cpu/pyproject.toml": 'version = "0.1.0"\n',
    "capi/CMakeLists.txt": "set_target_properties(x PROPERTIES SOVERSION ${PROJECT_VERSION_MAJOR})\n",
}


def argument(name: str, kind: str) -> dict:
    return {"name": name, "kind": kind, "types": "F16", "shapes": [{"when": "size=1", "shape": "[size]"}], "when": "",
            "optional": False, "default": "", "meaning": f"the {name}"}


OPERATORS = [{"name": "x", "summary": "do it", "struct": {"name": "cubit_x_arguments"},
              "fields": [{"name": "size", "default": "1", "accepts": "1, 2"}],
              "arguments": [argument("key", "input"), argument("value", "output"), argument("count", "number")]}]
GOOD["docs/operators/arguments.md"] = argument_page.page(OPERATORS)

# (file, what is replaced, by what, part of the complaint)
BROKEN = [
    ("README.md", "docs/page.md", "docs/pages.md", "does not exist"),
    ("README.md", "#a-heading-it-is", "#a-heading", "no such heading"),
    ("docs/page.md", "[an operator](operators/x.md)", "", "docs/operators/x.md:1: no link leads"),
    ("README.md", "[a\npage](docs/page.md#a-heading-it-is)", "", "docs/operators/x.md:1: no link leads"),
    ("README.md", "# A tree\n", "# A tree\n" + "line\n" * pages.README_LINES, "more than 120 lines"),
    ("docs/page.md", "install.cmake", "absent.cmake", "cmake/absent.cmake does not exist"),
    ("docs/page.md", "capi/", "runtime/", "runtime/ does not exist"),
    ("docs/page.md", "# A page\n", "# A page\n" + "word " * 21 + "\n", "wrap at 100"),
    ("docs/operators/x.md", "| 1 |", "| 2 |", "field size"),
    ("docs/operators/x.md", "1, 2", "1, 2, 3", "field size"),
    ("docs/operators/x.md", "`size`", "`length`", "field length"),
    ("docs/operators/x.md", "`key`, `value`", "`key`", "tensor value: the page has no row"),
    ("docs/operators/x.md", "`value`", "`value`, `count`", "tensor count: the tool knows no such tensor"),
    ("docs/operators/arguments.md", "[size]", "[sizes]", "the page differs from the argument tables"),
    ("docs/operators/arguments.md", "with `size=1`", "with `size=2`", "the page differs from the argument tables"),
    ("docs/compatibility.md", "libcubit.so.0", "libcubit.so.1", "does not state `libcubit.so.0`"),
    ("CMakeLists.txt", "0.1.0", "0.2.0", "does not state `find_package(cubit 0.2)`"),
    ("cmake/install.cmake", "SameMinorVersion", "ExactVersion", "does not state ExactVersion"),
    ("pyproject.toml", 'version = "0.1.0"', 'version = "0.2.0"', "pyproject.toml:1: version 0.2.0"),
    ("pyproject.toml", "cpu==0.1.0", "cpu==0.1", "pyproject.toml:2: version 0.1;"),
    ("python/cpu/pyproject.toml", "0.1.0", "0.1.1", "python/cpu/pyproject.toml:1: version 0.1.1"),
    ("capi/CMakeLists.txt", "SOVERSION", "VERSION", "no longer takes the SONAME"),
]


def complaints(file: str = "", old: str = "", new: str = "") -> list[str]:
    """What pages.py says about the good tree with one replacement."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in GOOD.items():
            assert path != file or old in text, (file, old)
            target = Path(folder) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text.replace(old, new) if path == file else text, encoding="utf-8")
        return pages.wrong_pages(Path(folder), OPERATORS)


class Pages(unittest.TestCase):
    def test_a_good_tree(self) -> None:
        self.assertEqual(complaints(), [])

    def test_each_broken_rule_is_found(self) -> None:
        for file, old, new, complaint in BROKEN:
            with self.subTest(file=file, new=new[:40]):
                found = complaints(file, old, new)
                self.assertTrue(any(complaint in line for line in found), found)

    def test_an_operator_without_a_page(self) -> None:
        OPERATORS.append({"name": "y", "summary": "", "struct": {"name": ""}, "fields": [], "arguments": []})
        self.addCleanup(OPERATORS.pop)
        self.assertIn("docs/operators/y.md:1: the operator y has no page", complaints())


if __name__ == "__main__":
    unittest.main()
