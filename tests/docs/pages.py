"""Checks the form of README.md and docs/: links, paths, line lengths, the README's length, and tables of fields.

  pages.py ROOT [--tool PATH]

docs/compatibility.md must state the version, the SONAME and the compatibility of the CMake package as the build files
have them. With --tool the tables of each page docs/operators/NAME.md are compared with the JSON of `cubit operators`:
every field, its default and the values that it accepts, and the names of all tensors. docs/operators/arguments.md must
be what argument_page.py makes of the JSON. Python's standard library only.
"""

import argparse
import json
import re
import subprocess
import sys
from itertools import zip_longest
from pathlib import Path
from typing import Iterator

import argument_page

COLUMNS = 100
README_LINES = 120
FIELDS = "| field | default | accepts | meaning |"
TENSORS = "| tensor | shape | note |"
# A path in backticks that begins with a folder of the tree; patterns with <, * or … are not paths.
FOLDERS = "base|bench|calibrate|capi|check|cmake|codegen|docs|examples|files|include|ops|runtime|scripts|templates|tests|tools"
PATH = re.compile(rf"`((?:{FOLDERS})/[\w./-]*)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")  # the text of a link may be broken over lines


def pages_of(root: Path) -> list[Path]:
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def prose_lines(page: Path) -> Iterator[tuple[int, str]]:
    """The lines outside of code blocks, with their numbers."""
    in_code = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code:
            yield number, line


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = [line.lstrip("#").strip() for _, line in prose_lines(page) if line.startswith("#")]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links_of(page: Path) -> Iterator[tuple[int, str]]:
    """The targets of a page's links within the tree, with the lines in which they end."""
    lines = list(prose_lines(page))
    text = "\n".join(re.sub(r"`[^`]*`", "", line) for _, line in lines)
    for link in LINK.finditer(text):
        if not re.match(r"\w+:", link[1]):
            yield lines[text.count("\n", 0, link.end())][0], link[1]


def wrong_links(page: Path) -> Iterator[tuple[int, str]]:
    for number, target in links_of(page):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            yield number, f"{target} does not exist"
        elif anchor and anchor not in anchors_of(file):
            yield number, f"{target}: the page has no such heading"


def wrong_paths(root: Path, page: Path) -> Iterator[tuple[int, str]]:
    for number, line in prose_lines(page):
        yield from ((number, f"{path} does not exist") for path in PATH.findall(line) if not (root / path).exists())


def long_lines(page: Path) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if len(line) > COLUMNS and not line.startswith("|"):
            yield number, f"{len(line)} columns; lines wrap at {COLUMNS}"


def unreachable(root: Path) -> Iterator[tuple[Path, int, str]]:
    """The pages that no link of the README leads to, directly or through other pages."""
    pages = [page.resolve() for page in pages_of(root)]
    seen, open_pages = set(), [root.resolve() / "README.md"]
    while open_pages:
        page = open_pages.pop()
        if page in seen or page not in pages:
            continue
        seen.add(page)
        open_pages += [(page.parent / target.partition("#")[0]).resolve() for _, target in links_of(page)]
    yield from ((page, 1, "no link leads from the README to this page") for page in pages if page not in seen)


def fields_of(page: Path) -> dict[str, tuple[str, str]]:
    """Of a page's table of fields: name, then default and accepted values."""
    lines = page.read_text(encoding="utf-8").splitlines()
    if FIELDS not in lines:
        return {}
    fields = {}
    for line in lines[lines.index(FIELDS) + 2:]:
        if not line.startswith("|"):
            break
        name, default, accepts, _ = [cell.strip().replace("`", "") for cell in line.strip("|").split("|")]
        fields[name] = (default, accepts)
    return fields


def wrong_fields(root: Path, operators: list[dict]) -> Iterator[tuple[Path, int, str]]:
    for operator in operators:
        page = root / "docs/operators" / f"{operator['name']}.md"
        if not page.exists():
            yield page, 1, f"the operator {operator['name']} has no page"
            continue
        documented = fields_of(page)
        known = {field["name"]: (field["default"], field["accepts"]) for field in operator["fields"]}
        for name in sorted(set(documented) | set(known)):
            if documented.get(name) != known.get(name):
                yield page, 1, f"field {name}: the page says {documented.get(name)}, the tool {known.get(name)}"


def tensors_of(page: Path) -> set[str]:
    """The names in the first column of a page's table of tensors."""
    lines = page.read_text(encoding="utf-8").splitlines()
    if TENSORS not in lines:
        return set()
    names = set()
    for line in lines[lines.index(TENSORS) + 2:]:
        if not line.startswith("|"):
            break
        names.update(re.findall(r"`(\w+)`", line.split("|")[1]))
    return names


def wrong_tensors(root: Path, operators: list[dict]) -> Iterator[tuple[Path, int, str]]:
    for operator in operators:
        page = root / "docs/operators" / f"{operator['name']}.md"
        if not page.exists():
            continue
        documented = tensors_of(page)
        known = {one["name"] for one in operator["arguments"] if one["kind"] != "number"}
        yield from ((page, 1, f"tensor {name}: the page has no row for it") for name in sorted(known - documented))
        yield from ((page, 1, f"tensor {name}: the tool knows no such tensor") for name in sorted(documented - known))


def wrong_arguments(root: Path, operators: list[dict]) -> Iterator[tuple[Path, int, str]]:
    """The first line of the page of arguments that the argument tables do not give."""
    page = root / "docs/operators/arguments.md"
    found = page.read_text(encoding="utf-8").splitlines() if page.exists() else []
    for number, (line, right) in enumerate(zip_longest(found, argument_page.page(operators).splitlines()), 1):
        if line != right:
            yield page, number, f"the page differs from the argument tables; make it again: {argument_page.COMMAND}"
            break


def wrong_versions(root: Path) -> Iterator[tuple[Path, int, str]]:
    """What docs/compatibility.md does not state as the build files have it."""
    page = root / "docs/compatibility.md"
    build = (root / "CMakeLists.txt").read_text(encoding="utf-8")
    major, minor = re.search(r"project\(cubit VERSION (\d+)\.(\d+)\.", build).groups()
    package = (root / "cmake/install.cmake").read_text(encoding="utf-8")
    library = (root / "capi/CMakeLists.txt").read_text(encoding="utf-8")
    if "SOVERSION ${PROJECT_VERSION_MAJOR}" not in library:
        yield page, 1, "capi/CMakeLists.txt no longer takes the SONAME from the major version"
    stated = page.read_text(encoding="utf-8")
    for fact in (f"`find_package(cubit {major}.{minor})`", f"`libcubit.so.{major}`",
                 re.search(r"COMPATIBILITY (\w+)", package)[1]):
        if fact not in stated:
            yield page, 1, f"the page does not state {fact}"


def wrong_distributions(root: Path) -> Iterator[tuple[Path, int, str]]:
    """The versions in the files of the Python distributions that are not the project's."""
    version = re.search(r"project\(cubit VERSION ([\d.]+)", (root / "CMakeLists.txt").read_text(encoding="utf-8"))[1]
    for file in (root / "pyproject.toml", root / "python/cpu/pyproject.toml"):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            stated = re.search(r'(?:^version = "|cubit-kernels(?:-cpu)?==)([\d.]+)', line)
            if stated and stated[1] != version:
                yield file, number, f"version {stated[1]}; CMakeLists.txt has {version}"


def wrong_pages(root: Path, operators: list[dict]) -> list[str]:
    wrong = []
    for page in pages_of(root):
        wrong += [(page, number, text) for number, text in (*wrong_links(page), *wrong_paths(root, page), *long_lines(page))]
    readme = root / "README.md"
    count = len(readme.read_text(encoding="utf-8").splitlines())
    if count > README_LINES:
        wrong.append((readme, count, f"the README has more than {README_LINES} lines"))
    wrong += [*unreachable(root), *wrong_fields(root, operators), *wrong_tensors(root, operators),
              *(wrong_arguments(root, operators) if operators else ()), *wrong_versions(root),
              *wrong_distributions(root)]
    return [f"{page.resolve().relative_to(root.resolve())}:{number}: {text}" for page, number, text in wrong]


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks the form of README.md and docs/.")
    parser.add_argument("root", type=Path)
    parser.add_argument("--tool")
    given = parser.parse_args()
    operators = []
    if given.tool:
        done = subprocess.run([given.tool, "operators", "--json"], capture_output=True, text=True, check=True)
        operators = json.loads(done.stdout)
    wrong = wrong_pages(given.root, operators)
    print("\n".join(wrong) if wrong else "the pages are well formed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
