"""Writes cubit/__init__.pyi, the types of the package, from the tables of the operators.

    python3 scripts/python_stubs.py            rewrites the file of this tree
    python3 scripts/python_stubs.py --check    fails if the file differs

The package must be importable: PYTHONPATH=build/release/python.
"""

import json
import keyword
import re
import sys
from pathlib import Path
from typing import Any

from cubit import _library

TARGET = Path(__file__).parents[1] / "python" / "cubit" / "__init__.pyi"
HEAD = '''# Made by scripts/python_stubs.py from the argument tables of libcubit. Do not edit.
from typing import Any, Literal, TypeAlias

from cubit import errors as errors
from cubit._explain import Explanation as Explanation
from cubit._explain import explain as explain
from cubit._kernel import Kernel as Kernel
from cubit._kernel import get as get
from cubit.errors import Error as Error

Tensor: TypeAlias = Any

def operators() -> list[str]: ...
def devices() -> list[str]: ...
'''


def type_of_field(accepts: str) -> str:
    """Literal["bf16", "fp16"] for a list of words, int for numbers, otherwise str."""
    words = accepts.split(", ")
    if set(words) == {"false", "true"}:
        return "bool"
    if all(word.isdigit() for word in words) or re.fullmatch(r"\d+ to \d+.*", accepts):
        return "int"
    if all(re.fullmatch(r"\w+", word) for word in words):
        return "Literal[" + ", ".join(word if word.isdigit() else f'"{word}"' for word in words) + "]"
    return "str"


def wrapped(words: str, indent: str) -> str:
    lines = [""]
    for word in words.split(" "):
        if len(lines[-1]) + len(word) + len(indent) > 117:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return f"\n{indent}".join(lines)


def argument_lines(operator: dict[str, Any]) -> list[str]:
    """What the arguments are, without the sizes that follow from shapes."""
    lines = []
    named = {name for one in operator["arguments"] for rule in one["shapes"] for name in
             re.findall(r"[a-z]\w*", rule["shape"])}
    for one in operator["arguments"]:
        if one["kind"] == "number" and one["name"] in named:
            continue
        shapes = " or ".join(dict.fromkeys(rule["shape"] for rule in one["shapes"]))
        when = f" (with {one['when']})" if one["when"] else ""
        lines.append(wrapped(f"{one['name']}: {one['types']} {shapes}".rstrip() + f"{when}: {one['meaning']}",
                             "            "))
    return lines


def has_keyword(listed: list[dict[str, Any]]) -> list[str]:
    """A parameter for the names that are keywords of Python."""
    return ["**others: Any"] if any(keyword.iskeyword(one["name"]) for one in listed) else []


def stub(operator: dict[str, Any]) -> str:
    name = operator["name"]
    kernel = "".join(part.capitalize() for part in name.split("_")) + "Kernel"
    arguments = []
    for one in operator["arguments"]:
        if keyword.iskeyword(one["name"]):  # the call takes it as **{"from": …}
            continue
        is_needed = one["kind"] in ("input", "updated") and not one["optional"] and not one["when"]
        is_flag = one["kind"] == "output" and one["optional"]
        kind = {"int32": "int", "int64": "int", "float": "float"}.get(one["types"], "Tensor")
        optional = f"{' | bool' if is_flag else ''} | None = ..."
        arguments.append(f"{one['name']}: {kind}{'' if is_needed else optional}")
    fields = [f"{one['name']}: {type_of_field(one['accepts'])} = ..." for one in operator["fields"]
              if not keyword.iskeyword(one["name"])]
    accepted = ", ".join([*(["*"] if fields else []), *fields, *has_keyword(operator["fields"])])
    call = ", ".join(["self", "*", *sorted(arguments, key=lambda one: "=" in one), "out: Any = ...",
                      *has_keyword(operator["arguments"])])
    listed = "\n        ".join(argument_lines(operator))
    sentence = operator["summary"].rstrip(".") + "."
    summary = wrapped(sentence[0].upper() + sentence[1:], "        ")
    return (f"class {kernel}(Kernel):\n"
            f"    def __call__(  # type: ignore[override]\n        {wrapped(call, '        ')},\n    ) -> Any:\n"
            f'        """{summary}\n\n        {listed}\n        """\n\n'
            + wrapped(f"def {name}({accepted})\0->\0{kernel}:\0...", "    ").replace("\0", " ") + "\n")


def main() -> int:
    text = HEAD + "\n" + "\n".join(stub(one) for one in json.loads(_library.text("cubit_operators")))
    if sys.argv[1:] == ["--check"]:
        if TARGET.read_text(encoding="utf-8") == text:
            return 0
        print(f"{TARGET.name} differs from the tables: run python3 scripts/python_stubs.py")
        return 1
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
