"""Makes docs/operators/arguments.md from the argument tables of the operators.

  cubit operators --json | python3 tests/docs/argument_page.py >docs/operators/arguments.md

docs.pages compares the page with what this file makes. Python's standard library only.
"""

import json
import sys
import textwrap

COMMAND = "cubit operators --json | python3 tests/docs/argument_page.py >docs/operators/arguments.md"
HEADER = """\
# Arguments of all operators

This page is for people who call cubit from C or C++, write a binding, or prepare files for
`cubit run`. It lists every tensor and every number of each operator: its types, its shape, the
fields with which it is given, and its meaning. The page is made from the operators' argument
tables, by `cubit operators --json | python3 tests/docs/argument_page.py`.

The names in a shape are numbers of the same operator or sizes that follow from the descriptor. A
dimension "or more" is at least that size, and `rows...` is one or more dimensions whose product is
`rows`. Where a shape depends on fields, the first row whose condition holds applies. The last row
without a condition holds for all other values. A problem is one case of `cubit run` or of
libcubit_check, with tensors in host memory and a reference result.
"""


def condition(text: str) -> str:
    """`cache=paged,scales=!none` as words: with `cache=paged` and `scales` other than `none`."""
    clauses = []
    for clause in filter(None, text.split(",")):
        name, _, values = clause.partition("=")
        if values.startswith("!"):
            clauses.append(f"`{name}` other than `{values[1:]}`")
        else:
            clauses.append(" or ".join(f"`{name}={value}`" for value in values.split("|")))
    return "with " + " and ".join(clauses) if clauses else ""


def rows(argument: dict) -> list[list[str]]:
    given = condition(argument["when"]) or "always"
    if argument["optional"]:
        given = f"{'' if given == 'always' else given + ', '}optional; without it: {argument['default']}"
    kind = {"input": "read", "output": "written", "updated": "read and written", "number": "number"}[argument["kind"]]
    shapes = [f"{shape['shape']} {condition(shape['when'])}".strip() for shape in argument["shapes"]] or [""]
    first = [f"`{argument['name']}`", kind, argument["types"], shapes[0], given, argument["meaning"]]
    return [first, *(["", "", "", shape, "", ""] for shape in shapes[1:])]


def page(operators: list[dict]) -> str:
    text = HEADER
    for operator in operators:
        summary = textwrap.fill(f"`{operator['struct']['name']}`: {operator['summary']}.", 100, break_on_hyphens=False)
        text += f"\n## {operator['name']}\n\n{summary}\n\n"
        text += "| argument | use | types | shape | given | meaning |\n|---|---|---|---|---|---|\n"
        for argument in operator["arguments"]:
            text += "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in rows(argument))
    return text


if __name__ == "__main__":
    print(page(json.load(sys.stdin)), end="")
