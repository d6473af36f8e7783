"""Compares the binary interface of the C headers with the recorded interface in abi.txt.

    abi.py [--cc COMPILER]                            fails if an item was removed, changed or added
    abi.py --renew [--before-release] [--cc …]        writes the list again, with the additions

The items are functions with their types, constants, type names, and sizes and member offsets of structs. The test
capi.exports shows that libcubit exports exactly the functions of the headers. Within a minor version, items may only be
added (docs/compatibility.md), so --renew refuses a list without a recorded item. --before-release writes it anyway, and
is meant for the time before version 0.1.0 is released.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LIST = Path(__file__).resolve().parent / "abi.txt"
RENEW = "python3 tests/abi/abi.py --renew"
VERSION_MACROS = {"CUBIT_VERSION_MAJOR", "CUBIT_VERSION_MINOR", "CUBIT_VERSION_PATCH"}
STRUCT = re.compile(r"typedef struct (\w+) \{(.*?)\} \1;", re.DOTALL)
ENUM = re.compile(r"typedef enum (\w+) \{(.*?)\} \1;", re.DOTALL)
MEMBER = re.compile(r"(.*?)(\w+)((?:\[\w+\])*)", re.DOTALL)


def public_headers(root: Path) -> list[Path]:
    return sorted([*root.glob("include/cubit/*.h"), *root.glob("ops/*/include/cubit/*.h")], key=lambda path: path.name)


def without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)


def words(text: str) -> str:
    """One space between words, and none around punctuation: "const char * *json" becomes "const char**json"."""
    return re.sub(r" ?([*(),\[\]]) ?", r"\1", " ".join(text.split()))


def type_of_parameter(text: str) -> str:
    kind, name, dimensions = MEMBER.fullmatch(text.strip()).groups()
    return words(kind + dimensions) if kind.strip() else name


def functions_of(text: str) -> list[str]:
    found = re.findall(r"CUBIT_API ([^;]*?)(\w+)\(([^;]*)\);", text)
    return [f"function {name}: {words(result)}({','.join(map(type_of_parameter, parameters.split(',')))})"
            for result, name, parameters in found]


def types_of(text: str) -> list[str]:
    """Type names other than structs and enumerations with a body."""
    rest = ENUM.sub("", STRUCT.sub("", text))
    found = []
    for declaration in re.findall(r"typedef ([^;]*);", rest):
        name = re.search(r"\(\*(\w+)\)|(\w+)$", declaration)
        found.append(f"type {name[1] or name[2]}: {words(declaration)}")
    return found


def probe_lines(text: str) -> list[str]:
    """C statements that print the items whose numbers only a compiler knows."""
    macros = set(re.findall(r"#define (CUBIT_\w+) +\w", text)) - VERSION_MACROS - {"CUBIT_API"}
    constants = [name for _, body in ENUM.findall(text) for name in re.findall(r"(\w+) *(?:=[^,]*)?(?:,|$)", body)]
    lines = [f'printf("constant {name}: %lld\\n", (long long){name});' for name in [*constants, *sorted(macros)]]
    for struct, body in STRUCT.findall(text):
        lines.append(f'printf("struct {struct}: %zu bytes\\n", sizeof({struct}));')
        for declaration in filter(None, map(str.strip, body.split(";"))):
            kind, name, dimensions = MEMBER.fullmatch(declaration).groups()
            place = f"sizeof((({struct}*)0)->{name}), offsetof({struct}, {name})"
            lines.append(f'printf("member {struct}.{name}: {words(kind + dimensions)}, %zu bytes at %zu\\n", {place});')
    return lines


def measured(lines: list[str], headers: list[Path], compiler: str) -> list[str]:
    folders = sorted({header.parent.parent for header in headers})
    includes = [f"#include <cubit/{header.name}>" for header in headers]
    program = "\n".join(["#include <stddef.h>", "#include <stdio.h>", *includes, "int main(void) {", *lines, "}"])
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder) / "probe.c", Path(folder) / "probe"
        source.write_text(program, encoding="utf-8")
        subprocess.run([compiler, *[f"-I{path}" for path in folders], source, "-o", binary], check=True)
        return subprocess.run([binary], check=True, capture_output=True, text=True).stdout.splitlines()


def interface_of(root: Path, compiler: str) -> list[str]:
    """The version as "cubit 0.1", and then the items, one "kind name: value" a line."""
    headers = public_headers(root)
    text = "".join(without_comments(header.read_text(encoding="utf-8")) for header in headers)
    version = [re.search(rf"#define CUBIT_VERSION_{part} (\d+)", text)[1] for part in ("MAJOR", "MINOR")]
    items = functions_of(text) + types_of(text) + measured(probe_lines(text), headers, compiler)
    return [f"cubit {'.'.join(version)}", *items]


def is_growth(key: str, old: dict[str, str], new: dict[str, str]) -> bool:
    """Whether the change of an item is one that a struct which begins with `size` may make."""
    kind, name = key.split(" ", 1)
    struct = name.split(".")[0]
    if f"member {struct}.size" not in old or new.get(f"member {struct}.size") != old[f"member {struct}.size"]:
        return False
    if kind == "struct" and key in new:
        return int(new[key].split()[0]) > int(old[key].split()[0])
    place = old[key].split(", ")[-1]
    return name.endswith(".reserved") and any(value.endswith(place) for item, value in new.items()
                                              if item.startswith(f"member {struct}."))


def faults(recorded: list[str], found: list[str]) -> tuple[list[str], list[str]]:
    """The items that break callers, and those that are only new."""
    old, new = (dict(line.split(": ", 1) for line in lines[1:]) for lines in (recorded, found))
    differing = [key for key in old if new.get(key) != old[key]]
    grown = [key for key in differing if is_growth(key, old, new)]
    breaks = [f"{key}: recorded as '{old[key]}', now '{new.get(key, 'gone')}'" for key in differing if key not in grown]
    return breaks, grown + [key for key in new if key not in old]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--cc", default=os.environ.get("CC", "cc"))
    options.add_argument("--renew", action="store_true")
    options.add_argument("--before-release", action="store_true")
    options.add_argument("--root", type=Path, default=ROOT)
    options.add_argument("--list", type=Path, default=LIST)
    given = options.parse_args()
    found = interface_of(given.root, given.cc)
    recorded = given.list.read_text(encoding="utf-8").splitlines() if given.list.exists() else found[:1]
    breaks, additions = faults(recorded, found) if recorded[0] == found[0] else ([], ["the version"])
    if breaks and not given.before_release:
        print("\n".join(breaks))
        print(f"{len(breaks)} items differ from {LIST.name}, and {found[0]} must keep them: restore them, or raise "
              f"CUBIT_VERSION_MINOR and run `{RENEW}`")
        return 1
    if given.renew:
        given.list.write_text("\n".join(found) + "\n", encoding="utf-8")
    elif additions:
        print(f"{LIST.name} lacks {', '.join(additions)}: run `{RENEW}` and commit the list")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
