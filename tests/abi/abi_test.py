"""Proves that abi.py finds removed, changed and added items of a small header, and accepts what may grow."""

import sys
import tempfile
import unittest
from pathlib import Path

import abi

COMPILER = sys.argv.pop() if len(sys.argv) > 1 else "cc"
HEADER = """
#include <stddef.h>
#define CUBIT_VERSION_MAJOR 0
#define CUBIT_VERSION_MINOR 1
#define CUBIT_API
#define CUBIT_ROOM 16 /* bytes; not #define CUBIT_OLD 1 */
typedef enum cubit_kind { CUBIT_FIRST = 0, CUBIT_SECOND = 1 } cubit_kind;
typedef struct cubit_handle cubit_handle;
typedef struct cubit_grows {
  size_t size;
  int places[2];
  int reserved;
  int last;
} cubit_grows;
typedef struct cubit_fixed {
  const char* name;
} cubit_fixed;
CUBIT_API int cubit_get(cubit_handle* handle, const int sizes[3]);
"""
# A text of the header, what replaces it, and the item that a caller would miss.
BREAKS = [
    ("CUBIT_API int cubit_get(cubit_handle* handle, const int sizes[3]);", "", "function cubit_get"),
    ("int cubit_get", "long cubit_get", "function cubit_get"),
    ("const int sizes[3]", "int sizes[3]", "function cubit_get"),
    ("CUBIT_SECOND = 1", "CUBIT_SECOND = 2", "constant CUBIT_SECOND"),
    (", CUBIT_SECOND = 1", "", "constant CUBIT_SECOND"),
    ("CUBIT_ROOM 16", "CUBIT_ROOM 32", "constant CUBIT_ROOM"),
    ("struct cubit_handle cubit_handle", "void* cubit_handle", "type cubit_handle"),
    ("int last", "float last", "member cubit_grows.last"),
    ("int last", "long last", "member cubit_grows.last"),
    ("  int places[2];\n", "", "member cubit_grows.places"),
    ("int places[2]", "int places[4]", "member cubit_grows.places"),
    ("  int reserved;\n", "", "member cubit_grows.last"),
    ("const char* name;", "const char* name; int more;", "struct cubit_fixed"),
]
# A change that a caller does not notice, and the item that the list must take up.
ADDITIONS = [
    ("CUBIT_SECOND = 1", "CUBIT_SECOND = 1, CUBIT_THIRD = 2", "constant CUBIT_THIRD"),
    ("CUBIT_API int cubit_get", "CUBIT_API void cubit_new(void);\nCUBIT_API int cubit_get", "function cubit_new"),
    ("int last;", "int last; void* more;", "member cubit_grows.more"),
    ("int reserved;", "int meaning;", "member cubit_grows.meaning"),
]


def interface(text: str) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        header = Path(folder) / "include" / "cubit" / "small.h"
        header.parent.mkdir(parents=True)
        header.write_text(text, encoding="utf-8")
        return abi.interface_of(Path(folder), COMPILER)


class PlantedChanges(unittest.TestCase):
    def setUp(self) -> None:
        self.recorded = interface(HEADER)

    def faults_after(self, old: str, new: str) -> tuple[list[str], list[str]]:
        self.assertIn(old, HEADER)
        return abi.faults(self.recorded, interface(HEADER.replace(old, new, 1)))

    def test_the_same_header_has_no_fault(self) -> None:
        self.assertEqual(len(self.recorded), 13)
        self.assertEqual(abi.faults(self.recorded, interface(HEADER)), ([], []))
        self.assertEqual(self.faults_after("cubit_handle* handle", "cubit_handle* other_name"), ([], []))

    def test_a_removed_or_changed_item_breaks_callers(self) -> None:
        for old, new, item in BREAKS:
            with self.subTest(old=old, new=new):
                breaks, _ = self.faults_after(old, new)
                self.assertTrue(any(line.startswith(f"{item}: ") for line in breaks), breaks)

    def test_a_new_item_must_be_recorded(self) -> None:
        for old, new, item in ADDITIONS:
            with self.subTest(old=old, new=new):
                breaks, additions = self.faults_after(old, new)
                self.assertEqual(breaks, [])
                self.assertIn(item, additions)


class Command(unittest.TestCase):
    def command(self, folder: str, text: str, *options: str) -> int:
        header = Path(folder) / "include" / "cubit" / "small.h"
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text(text, encoding="utf-8")
        sys.argv = ["abi.py", "--cc", COMPILER, "--root", folder, "--list", f"{folder}/list.txt", *options]
        return abi.main()

    def test_renewal_takes_additions_and_refuses_breaks(self) -> None:
        added, broken = HEADER.replace("int last;", "int last; void* more;"), HEADER.replace("int last", "float last")
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.command(folder, HEADER, "--renew"), 0)
            self.assertEqual([self.command(folder, text) for text in (HEADER, added, broken)], [0, 1, 1])
            self.assertEqual(self.command(folder, broken, "--renew"), 1)
            self.assertEqual(self.command(folder, added, "--renew"), 0)
            self.assertEqual([self.command(folder, text) for text in (HEADER, added)], [1, 0])
            self.assertEqual(self.command(folder, HEADER, "--renew", "--before-release"), 0)
            newer = broken.replace("VERSION_MINOR 1", "VERSION_MINOR 2")
            self.assertEqual(self.command(folder, newer), 1)
            self.assertEqual(self.command(folder, newer, "--renew"), 0)
            self.assertEqual(self.command(folder, newer), 0)


if __name__ == "__main__":
    unittest.main()
