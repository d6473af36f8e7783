"""Checks the layers of cubit in the source text: which folder may include which, what library code must not do, and
how long files and folders may be.

  check_layers.py <root>    prints one line per violation, "file:line: rule", and fails if there is one

templates know no host code; codegen knows no I/O, device, clock or environment; runtime knows no operator;
ops connects these layers, and in ops, folders that operators share know no operator; the C API (capi) and the problems of operators (check) lie above ops, next to each other;
files (file formats of host programs) and calibrate know no layer of libcubit but base; tools, benchmarks and examples
see only <cubit/...>, and tools also files. The script needs only Python's standard library.
"""

import re
import sys
from collections import Counter
from pathlib import Path
from typing import Iterator, NamedTuple

MOST_LINES = 450  # of a source file outside the tests
MOST_FILES = 25  # in one folder, those of its subfolders not counted
SUFFIXES = {".c", ".h", ".cpp", ".hpp", ".cuh"}

# Which folders of the tree a folder may include, by the first part of the path as written in #include "…".
MAY_INCLUDE = {
    "base": {"base"},
    "codegen": {"base", "codegen"},
    "templates": {"base", "codegen", "templates"},  # host files that embed the texts; device files: see is_device_file
    "runtime": {"base", "codegen", "runtime"},
    "ops": {"base", "codegen", "templates", "runtime", "ops"},
    "capi": {"base", "codegen", "templates", "runtime", "ops", "capi"},
    "check": {"base", "codegen", "templates", "ops", "check"},
    "files": {"base", "files"},
    "calibrate": {"base", "files", "calibrate"},
}
# Folders of ops/ that several operators share: the folders of ops/ that they may include, besides files in ops/ itself.
# They know no operator.
SHARED_BY_OPERATORS = {"gemm": {"element", "gemm", "launch"}}
# Folders above the library may include their own files and the public surface, and nothing else of the tree.
OUTSIDE = ("tools", "bench", "examples", "tests/consumer")
FILES_FOR = {"tools"}  # folders above the library that may include files/ too
# Exceptions: files in these folders that may include further folders. The benchmark of the engine measures runtime/
# alone, the benchmark of bundles also requests by text, the study of members asks the performance model, the compile
# jobs, cubit calibrate and the studies of accuracy use parallel_for, the quantiser of checkpoints transposes weights, and
# one file of the tool reads and writes bundles.
BELOW_THE_SURFACE = {"bench/engine_bench.cpp": {"base", "codegen", "runtime"},
                     "bench/bundle_bench.cpp": {"base", "codegen", "runtime", "ops"},
                     "bench/member_study.cpp": {"base", "codegen", "runtime", "ops"},
                     "tools/bundle/bundle_file.cpp": {"base", "runtime"},
                     "tools/commands/calibrate.cpp": {"base"},
                     "tools/kernels/compile_jobs.cpp": {"base"},
                     "tools/new_checkpoint/quantiser.cpp": {"base"},
                     "tools/study/kv/kv_data.cpp": {"base"},
                     "tools/study/matrix.cpp": {"base"}}

# codegen turns text into text. These standard headers reach further, and codegen may not include them.
IMPURE = {
    "cerrno", "chrono", "condition_variable", "cstdio", "cstdlib", "ctime", "dlfcn.h", "filesystem", "fstream", "future",
    "iostream", "mutex", "random", "thread", "unistd.h",
}

# Calls that library code must not make: the pattern, the deed that the message names, and the exempt files.
FORBIDDEN_CALLS = [
    (r"std::(cout|cerr|clog)\b", "prints", ()),
    (r"(?<![\w:.>])(?:std::)?(?:v?f?printf|puts|fputs|putchar|perror)\s*\(", "prints", ()),
    (r"\bfmt::print\b", "prints", ()),
    (r"(?<![\w:.>])(?:std::)?(?:_?exit|_Exit|quick_exit|abort|terminate)\s*\(", "ends the process", ()),
    (r"\bgetenv\s*\(", "reads the environment", ("runtime/settings.cpp",)),
    (r"(?<![\w:.>])assert\s*\(", "ends the process", ()),
]
LIBRARY = ("base", "codegen", "templates", "runtime", "ops", "capi", "check", "files", "calibrate", "include")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')


class Violation(NamedTuple):
    file: str
    line: int
    rule: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.rule}"


def without_comments_and_strings(text: str) -> str:
    """The text without the contents of comments and literals, with the same lines, for the search of calls."""
    token = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"([^()\\\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-zA-Z_])\'(?:\\.|[^\'\\\n])+\'', re.S)
    return token.sub(lambda match: "\n" * match.group().count("\n") or " ", text)


def room_of(path: str) -> str:
    for outside in OUTSIDE:
        if path.startswith(outside + "/"):
            return outside
    return path.split("/", 1)[0]


def is_device_file(path: str) -> bool:
    """Device code and the argument headers that device and host share: all of templates/ except the embedding."""
    return path.startswith("templates/") and Path(path).suffix in {".cuh", ".h"}


def folder_of_ops(path: str) -> str:
    """The folder of ops/ in which a file lies; "" if the file lies in ops/ itself or elsewhere."""
    parts = path.split("/")
    return parts[1] if parts[0] == "ops" and len(parts) > 2 else ""


def is_of_an_operator(path: str, name: str, tree: "Tree") -> bool:
    """Whether a file of a folder that operators share includes a file of a folder that it may not know."""
    allowed = SHARED_BY_OPERATORS.get(folder_of_ops(path))
    if allowed is None:
        return False
    return any(folder not in allowed | {""} for folder in {folder_of_ops(name), tree.public_folders.get(name, "")})


def include_rule(path: str, bracket: str, name: str, tree: "Tree") -> str | None:
    """The rule that this #include breaks, if any."""
    room = room_of(path)
    if bracket == "<" and (tree.root / name).is_file():
        return f"a file of the tree is included in quotes, not as <{name}>"
    if is_device_file(path):
        if bracket == "<" or name not in tree.device_names | {"plan.cuh"}:
            return f"a template includes nothing but cubit's own device headers, not {name}"
    elif room in OUTSIDE:
        below = BELOW_THE_SURFACE.get(path, set()) | ({"files"} if room in FILES_FOR else set())
        if bracket == '"' and not tree.is_own(path, name, room) and name.split("/", 1)[0] not in below:
            return f"{room} sees only <cubit/...> and its own files, not {name}"
    elif room == "include" or "/include/cubit/" in path:
        if bracket == '"' or ("/" in name and not name.startswith("cubit/")):
            return f"a public header includes only <cubit/...> and standard headers, not {name}"
        if is_of_an_operator(path, name, tree):
            return f"ops/{folder_of_ops(path)} knows no operator, and may not include {name}"
    elif room in MAY_INCLUDE:
        if bracket == '"' and "/" in name and name.split("/", 1)[0] in tree.rooms - MAY_INCLUDE[room]:
            return f"{room} may not include {name}"
        if is_of_an_operator(path, name, tree):
            return f"ops/{folder_of_ops(path)} knows no operator, and may not include {name}"
        if bracket == '"' and not (tree.root / name).is_file() and not name.startswith("cubit/"):
            return f"an #include names its file from the root of the tree, not {name}"
        if room in ("base", "codegen", "runtime", "templates") and name.startswith("cubit/"):
            return f"{room} does not know the public surface, {name}"
        if room == "codegen" and bracket == "<" and name in IMPURE:
            return f"codegen knows no I/O, device, clock or environment, not <{name}>"
    return None


class Tree:
    """The facts about the source tree that the rules need."""

    def __init__(self, root: Path):
        self.root = root
        self.files = list(self._source_files())
        self.rooms = {path.split("/", 1)[0] for path in self.files}
        self.names = {Path(path).name for path in self.files}
        self.device_names = {path.removeprefix("templates/") for path in self.files if is_device_file(path)}
        # The folder of ops/ that has each public header, by the name that includes it: "cubit/element.hpp".
        self.public_folders = {path.split("/include/", 1)[1]: folder_of_ops(path)
                               for path in self.files if "/include/cubit/" in path}

    def _source_files(self) -> Iterator[str]:
        folders = [*LIBRARY, "tools", "bench", "examples", "tests/consumer"]
        for folder in folders:
            for path in sorted((self.root / folder).rglob("*")):
                if path.suffix in SUFFIXES and path.is_file():
                    yield path.relative_to(self.root).as_posix()

    def is_own(self, path: str, name: str, room: str) -> bool:
        """Whether `name` counts as a file of the includer's own folder. Device code may also include cubit's device
        headers by their paths from templates/, and its plan. A bare name that no file of the tree has is a generated
        file."""
        if path.endswith(".cuh") and name in self.device_names | {"plan.cuh"}:
            return True
        if "/" not in name and name not in self.names:
            return True
        beside = (self.root / path).parent / name
        from_root = self.root / name
        candidates = [candidate.resolve() for candidate in (beside, from_root) if candidate.is_file()]
        return any(candidate.is_relative_to((self.root / room).resolve()) for candidate in candidates)


def check_file(path: str, tree: Tree) -> Iterator[Violation]:
    text = (tree.root / path).read_text(encoding="utf-8")
    if (lines := text.count("\n")) > MOST_LINES:
        yield Violation(path, lines, f"a source file has at most {MOST_LINES} lines; split it by its topics")
    for number, line in enumerate(text.splitlines(), 1):
        if match := INCLUDE.match(line):
            if rule := include_rule(path, match[1], match[2], tree):
                yield Violation(path, number, rule)
    if room_of(path) in LIBRARY and not is_device_file(path):
        yield from check_calls(path, without_comments_and_strings(text))


def check_calls(path: str, text: str) -> Iterator[Violation]:
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, deed, exempt in FORBIDDEN_CALLS:
            if path not in exempt and re.search(pattern, line):
                yield Violation(path, number, f"library code never {deed}: {line.strip()}")


def check_folders(tree: Tree) -> Iterator[Violation]:
    for folder, files in Counter(str(Path(path).parent) for path in tree.files).items():
        if files > MOST_FILES:
            yield Violation(folder, files, f"a folder has at most {MOST_FILES} source files; group them by their roles")


def check_tree(root: Path) -> list[Violation]:
    tree = Tree(root)
    return [*(violation for path in tree.files for violation in check_file(path, tree)), *check_folders(tree)]


def main() -> int:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = Path(sys.argv[1])
    checked = len(Tree(root).files)
    if checked == 0:
        sys.exit(f"{root}: no source files there")
    violations = check_tree(root)
    for violation in violations:
        print(violation)
    print(f"{checked} files, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
