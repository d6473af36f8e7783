"""The tables of README and docs that quote bench/results, checked cell by cell against the files that they name.

  quoted_numbers.py <root>    prints each cell that is not its file's, and fails if there is one

A cell is microseconds with one decimal and, in brackets, the share of the floor; a cell without brackets is the time alone.
Python's standard library only.
"""

import json
import sys
from pathlib import Path
from typing import Callable, Iterator, NamedTuple, Optional


class Table(NamedTuple):
    page: str
    heading: str  # the header line, exactly
    results: str
    rows: dict[str, Callable[[dict], bool]]  # first cell: which cases
    columns: list[Optional[Callable[[dict], bool]]]  # those behind the first: which of them; None: not of the file


def called(name: str) -> Callable[[dict], bool]:
    return lambda case: case["name"] == name


def of(operator: str, fields: str, group: str = "") -> Callable[[dict], bool]:
    text = f"{operator}:{fields}" if fields else operator
    return lambda case: case["descriptor"] == text and case.get("group", "").startswith(group)


def sized(n: int, k: int) -> Callable[[dict], bool]:
    return lambda case: case["group"].startswith("gptq") and (case["sizes"]["n"], case["sizes"]["k"]) == (n, k)


INT4 = "kv=int4_rows,groups=4"
SHAPES = [(4096, 4096), (8192, 8192), (28672, 8192), (8192, 28672), (16384, 16384)]
APPENDED = {
    "bf16 into bf16": "", "fp16 into fp16": "kv=fp16,input=fp16",
    "bf16 into bf16, rotary=half_split": "rotary=half_split", "bf16 into bf16, cache=paged": "cache=paged",
    "kv=int4_rows": "kv=int4_rows", INT4: INT4, f"{INT4},rotary=half_split": f"{INT4},rotary=half_split",
    "the same, cache=paged": f"{INT4},rotary=half_split,cache=paged", "kv=int8_split": "kv=int8_split",
    "kv=int8_split,rotary=half_split": "kv=int8_split,rotary=half_split", "kv=fp8_e4m3": "kv=fp8_e4m3",
    "kv=fp8_e5m2": "kv=fp8_e5m2", "kv=fp8_e4m3,scales=tensor": "kv=fp8_e4m3,scales=tensor",
}
TABLES = [
    Table("README.md", "| KV cache | B=8 | B=32 | B=64 | B=128 | B=256 | B=512 |", "gqa_decode_h200.json",
          {name: of("gqa_decode", f"heads_per_kv=8{fields}", "query [B, 1, 8, 128]")
           for name, fields in {"bf16": "", "int8_split": ",kv=int8_split", "fp8_e4m3": ",kv=fp8_e4m3",
                                "int4_rows, 4 groups": f",{INT4}",
                                "int4_rows, 1 group (alignment=4)": ",kv=int4_rows,alignment=4"}.items()},
          [called(f"B={batch}") for batch in (8, 32, 64, 128, 256, 512)]),
    Table("README.md", "| KV cache | B=1, T=8192 | B=1, T=131072 | B=16, T=8192 |", "gqa_decode_h200.json",
          {"bf16": of("gqa_decode", "heads_per_kv=4", "32 query heads"),
           "int4_rows, 4 groups": of("gqa_decode", f"heads_per_kv=4,{INT4}", "32 query heads")},
          [called(name) for name in ("B=1 T=8192", "B=1 T=131072", "B=16 T=8192")]),
    Table("README.md", "| | M=1 | M=8 | M=16 | M=32 | M=64 | M=128 |", "w4a16_gemm_h200.json",
          {f"{n}, {k}": sized(n, k) for n, k in SHAPES},
          [lambda case, m=m: case["sizes"]["m"] == m for m in (1, 8, 16, 32, 64, 128)]),
    Table("docs/performance/kv_append.md", "| kernel | 8192 tokens × 8 heads | before | 64 × 1 token × 8 heads |",
          "kv_append_h200.json", {name: of("kv_append", fields) for name, fields in APPENDED.items()},
          [called("prefill"), None, called("decode")]),
]


def quoted(case: dict, cell: str) -> str:
    microseconds = f"{case['microseconds']:.1f}"
    if "(" not in cell:
        return microseconds
    return f"{microseconds} ({100 * case['floor_microseconds'] / case['microseconds']:.0f}%)"


def wrong_cells(root: Path, table: Table) -> Iterator[str]:
    lines = (root / table.page).read_text(encoding="utf-8").splitlines()
    cases = json.loads((root / "bench/results" / table.results).read_text(encoding="utf-8"))
    if table.heading not in lines:
        yield f"{table.page}: no table begins with {table.heading}"
        return
    at = lines.index(table.heading) + 2
    seen = set()
    while lines[at].startswith("|"):
        name, *cells = [cell.strip() for cell in lines[at].strip("|").split("|")]
        at += 1
        if name not in table.rows:
            yield f"{table.page}:{at}: {table.results} is not known to have {name}"
            continue
        seen.add(name)
        for cell, of_column in zip(cells, table.columns, strict=True):
            if of_column is None:
                continue
            found = [case for case in cases if table.rows[name](case) and of_column(case)]
            if len(found) != 1:
                yield f"{table.page}:{at}: {table.results} has {len(found)} cases for {cell} of {name}"
            elif cell != quoted(found[0], cell):
                yield f"{table.page}:{at}: {cell} of {name} is {quoted(found[0], cell)} in {table.results}"
    for name in sorted(set(table.rows) - seen):
        yield f"{table.page}: {table.heading} has no row {name}"


def main() -> int:
    root = Path(sys.argv[1])
    wrong = [line for table in TABLES for line in wrong_cells(root, table)]
    print("\n".join(wrong) if wrong else f"{len(TABLES)} tables are their files'")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
