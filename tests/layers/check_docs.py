"""Checks that all tests that docs/cache.md names exist, so that every promise of the page keeps its proof.

  check_docs.py <root>    prints each name that is no test, and fails if there is one
"""

import re
import sys
from pathlib import Path


def main() -> int:
    root = Path(sys.argv[1])
    text = (root / "docs/cache.md").read_text(encoding="utf-8")
    folders = [root / "tests/runtime", root / "tests/codegen"]
    paths = sorted(path for folder in folders for path in folder.rglob("*_test.cpp"))
    sources = "".join(path.read_text(encoding="utf-8") for path in paths)
    known = {f"{suite}.{name}" for suite, name in re.findall(r"TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", sources)}
    names = {name.split(".")[-1] for name in known}
    suites = {name.split(".")[0] for name in known}
    missing, checked = [], 0
    for quoted in re.findall(r"`(\w*Test|(?:\w+\.)?[A-Z]\w+…?|…\w+)`", text):
        if "_" in quoted:
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
    for name in missing:
        print(f"docs/cache.md names {name}, which is no test in tests/runtime or tests/codegen")
    print(f"{checked} names, {len(missing)} missing")
    return 1 if missing or checked == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
