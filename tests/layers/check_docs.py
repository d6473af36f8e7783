"""Checks what documentation and comments point to: each test that docs/cache.md names must exist, so that every promise
of the page keeps its proof, and so must each file of the tree that a page or a comment names.

  check_docs.py <root>    prints each name of a missing test or file, and fails if there is one
"""

import re
import sys
from pathlib import Path


FOLDERS = ("base", "bench", "capi", "check", "cmake", "codegen", "docs", "examples", "include", "ops", "runtime",
           "scripts", "templates", "tests", "tools")
NAMED_FILE = re.compile(r"(?<![\w/.<-])((?:" + "|".join(FOLDERS) + r")/[\w/.-]*\w\.(?:md|cpp|hpp|cuh|h|py|sh|cmake))\b")


def missing_files(root: Path) -> list[str]:
    """Each file that a page or a C++ or CUDA file names by its path from the root, and that does not exist."""
    paths = [root / "README.md"]
    for folder in FOLDERS:
        paths += [path for path in (root / folder).rglob("*") if path.suffix in (".md", ".cpp", ".hpp", ".cuh", ".h")]
    missing = []
    for path in sorted(paths):
        for named in sorted(set(NAMED_FILE.findall(path.read_text(encoding="utf-8")))):
            if not (root / named).exists():
                missing.append(f"{path.relative_to(root)} names {named}, which is no file")
    return missing


def missing_tests(root: Path) -> tuple[int, list[str]]:
    """How many names docs/cache.md quotes, and those that are no test."""
    text = (root / "docs/cache.md").read_text(encoding="utf-8")
    folders = [root / "tests/runtime", root / "tests/codegen", root / "tests/capi"]
    paths = sorted(path for folder in folders for path in folder.rglob("*_test.cpp"))
    sources = "".join(path.read_text(encoding="utf-8") for path in paths)
    known = {f"{suite}.{name}" for suite, name in re.findall(r"TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", sources)}
    names = {name.split(".")[-1] for name in known}
    suites = {name.split(".")[0] for name in known}
    missing, checked = [], 0
    for quoted in re.findall(r"`(\w*Test|(?:\w+\.)?[A-Z]\w+…?|…\w+)`", text):
        if "_" in quoted or quoted.isupper():
            continue  # an environment variable or a constant
        checked += 1
        if quoted.endswith("…"):
            found = any(name.startswith(quoted[:-1]) for name in names)
        elif quoted.startswith("…"):
            found = any(name.endswith(quoted[1:]) for name in names)
        else:
            found = quoted in (known if "." in quoted else names | suites)
        if not found:
            missing.append(quoted)
    return checked, [f"docs/cache.md names {name}, which is no test in tests/runtime, tests/codegen or tests/capi" for name in missing]


def main() -> int:
    root = Path(sys.argv[1])
    checked, missing = missing_tests(root)
    missing += missing_files(root)
    for message in missing:
        print(message)
    print(f"{checked} names of tests, {len(missing)} missing tests and files")
    return 1 if missing or checked == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
