"""Checks that `make test` runs at least one test of every test source file.

  check_tiers.py <source folder> <build folder> <ctest>    prints a line per file without such a test, and fails then

`make test` leaves out the labels slow and product. A test source file is a C++ file of tests/ that defines a GoogleTest
test, or a Python script of tests/ whose name ends in _test.py.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

SLOW_LABELS = {"slow", "product"}
DEFINES_A_TEST = re.compile(r"^(TYPED_)?TEST(_F|_P)?\(", re.MULTILINE)


def labels_of(test: dict) -> set[str]:
    return {label for prop in test.get("properties", []) if prop["name"] == "LABELS" for label in prop["value"]}


def fast_commands(build: Path, ctest: str) -> list[list[str]]:
    listed = subprocess.run([ctest, "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True)
    return [test["command"] for test in json.loads(listed.stdout)["tests"]
            if "command" in test and not labels_of(test) & SLOW_LABELS]


def tests_by_program(commands: list[list[str]]) -> dict[str, set[str]]:
    """The names of the GoogleTest tests that `make test` runs, by program."""
    found = defaultdict(set)
    for program, *arguments in commands:
        for argument in arguments:
            if argument.startswith("--gtest_filter="):
                found[program].add(argument.removeprefix("--gtest_filter="))
    return found


def files_of(program: str, names: set[str], build: Path) -> set[Path]:
    """The source files of these tests of the program. ccache makes the paths relative to the build folder."""
    with tempfile.NamedTemporaryFile(suffix=".json") as output:
        subprocess.run([program, "--gtest_list_tests", f"--gtest_output=json:{output.name}"], check=True,
                       stdout=subprocess.DEVNULL)
        suites = json.load(output)["testsuites"]
    return {(build / test["file"]).resolve() for suite in suites for test in suite["testsuite"]
            if f'{suite["name"]}.{test["name"]}' in names}


def test_sources(tests: Path) -> list[Path]:
    programs = [file for file in tests.rglob("*.cpp") if DEFINES_A_TEST.search(file.read_text())]
    return sorted(programs + list(tests.rglob("*_test.py")))


def main(source: Path, build: Path, ctest: str) -> int:
    commands = fast_commands(build, ctest)
    represented = {Path(argument).resolve() for command in commands for argument in command if argument.endswith(".py")}
    for program, names in tests_by_program(commands).items():
        represented |= files_of(program, names, build)
    missing = [file for file in test_sources(source / "tests") if file not in represented]
    for file in missing:
        print(f"{file.relative_to(source)}: make test runs no test of this file; label fewer of its tests slow or product")
    if not represented:
        print("no test was found at all")
    return 1 if missing or not represented else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), sys.argv[3]))
