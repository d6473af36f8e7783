#!/usr/bin/env python3
"""Makes the tables of docs/split_k.md from the JSON of `cubit study split_k`.

bench/split_k_tables.py RESULTS... [--page FILE [--check]] [--published FILE]

Without --page the tables are printed. With --page they replace what lies between the two marks of the page. With
--check nothing is written; the exit code is 1 if the page has other tables. Python's standard library only.

The file of --published has what arXiv 2402.00025 states: "averages" of the gain of split-K over data-parallel, and
"cells", a list of {device, m, size, data_parallel_teraflops, split_k_teraflops}. Cells get a table of their own, beside
the same cells of RESULTS.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Iterator, Optional

BEGIN = "<!-- Tables by bench/split_k_tables.py: begin -->"
END = "<!-- Tables by bench/split_k_tables.py: end -->"
PUBLISHED = Path(__file__).parent / "published/split_k_2402_00025.json"
SHARED = ("split_k", "split_k_atomic")  # the decompositions with a factor


def table(titles: list[str], rows: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles),
            *("| " + " | ".join(row) + " |" for row in rows), ""]


def is_measured(entry: dict) -> bool:
    return "microseconds" in entry


def choice_of(entry: dict) -> str:
    return entry["decomposition"] + (f" {entry['splits']}" if entry["splits"] else "")


def distinct(values: Iterator) -> list:
    return list(dict.fromkeys(values))


def size_of(entry: dict) -> int:
    return int(entry["sizes"]["n"])


def rows_of(entry: dict) -> int:
    return int(entry["sizes"]["m"])


def find(entries: list[dict], size: int, rows: int, choice: str) -> Optional[dict]:
    return next((entry for entry in entries
                 if (size_of(entry), rows_of(entry), choice_of(entry)) == (size, rows, choice)), None)


def percent(gains: list[float]) -> list[str]:
    return [f"{sum(gains) / len(gains):.0f}%", f"{max(gains):.0f}%"]


def gain_table(entries: list[dict], published: dict) -> list[str]:
    rows = []
    for one in published["averages"]:
        largest = f"{one['largest_percent']}%" if "largest_percent" in one else ""
        rows.append([f"Triton split-K, {one['device']} ({published['source']})", f"{one['average_percent']}%", largest])
    for choice in distinct(choice_of(entry) for entry in entries if entry["decomposition"] != "data_parallel"):
        gains = [100 * (entry["speedup"] - 1) for entry in entries if choice_of(entry) == choice and "speedup" in entry]
        if gains:
            rows.append([f"cubit {choice}", *percent(gains)])
    return ["Gain in speed over data-parallel, over all cells:", "",
            *table(["kernel", "average", "largest"], rows)]


def time_tables(entries: list[dict]) -> list[str]:
    lines = ["Microseconds, and TFLOP/s in brackets:", ""]
    all_rows = distinct(rows_of(entry) for entry in entries)
    for size in distinct(size_of(entry) for entry in entries):
        rows = []
        for choice in distinct(choice_of(entry) for entry in entries):
            found = [find(entries, size, count, choice) for count in all_rows]
            if any(found):
                rows.append([choice] + [f"{one['microseconds']:.2f} ({one['teraflops']:.2f})" if one else ""
                                        for one in found])
        lines += table([f"n = k = {size}"] + [f"M={count}" for count in all_rows], rows)
    return lines


def text(value: Optional[float], form: str) -> str:
    return "" if value is None else format(value, form)


def resource_table(entries: list[dict]) -> list[str]:
    """The resources of the launches of one cell: that of the largest M at n = k = 4096, as in the publication."""
    usual = 4096
    sizes = [size_of(entry) for entry in entries]
    size = usual if usual in sizes else max(sizes)
    count = max(rows_of(entry) for entry in entries if size_of(entry) == size)
    rows = [[choice_of(entry), text(entry["registers"], ""), f"{entry['shared_memory'] / 1024:.1f}",
             text(entry["blocks"], ""), text(entry["blocks_per_sm"], ""), text(entry["occupancy"], ".0%")]
            for entry in entries if (size_of(entry), rows_of(entry)) == (size, count)]
    titles = [f"M={count}, n = k = {size}", "registers", "shared KiB", "blocks", "blocks/SM", "occupancy"]
    return ["Registers, shared memory and occupancy in one cell:", "", *table(titles, rows)]


def best(entries: list[dict], one: dict, decompositions: tuple[str, ...]) -> str:
    rates = [entry["teraflops"] for entry in entries if entry["decomposition"] in decompositions and
             (rows_of(entry), size_of(entry)) == (one["m"], one["size"])]
    return f"{max(rates):.2f}" if rates else ""


def cell_table(entries: list[dict], published: dict) -> list[str]:
    if not published["cells"]:
        return []
    rows = [[str(one["m"]), str(one["size"]), one["device"], f"{one['data_parallel_teraflops']:.2f}",
             f"{one['split_k_teraflops']:.2f}", best(entries, one, ("data_parallel",)), best(entries, one, SHARED)]
            for one in published["cells"]]
    titles = ["M", "n = k", "published on", "published data-parallel", "published split-K", "cubit data-parallel",
              "cubit split-K"]
    return ["Published TFLOP/s beside those of cubit; of split-K the best factor:", "", *table(titles, rows)]


def tables_of(path: Path, published: dict) -> list[str]:
    entries = [entry for entry in json.loads(path.read_text(encoding="utf-8")) if is_measured(entry)]
    if not entries:
        sys.exit(f"{path}: no launch is measured; run cubit study split_k --json {path}")
    first = entries[0]
    return [f"### {first['device']}", "",
            f"Measured at commit {first['commit']} for {first['arch']}, driver {first['driver']}",
            f"([{path.name}](../bench/results/{path.name})).", "",
            *gain_table(entries, published), *cell_table(entries, published), *resource_table(entries),
            *time_tables(entries)]


def with_tables(page: str, tables: list[str]) -> str:
    begin, end = page.find(BEGIN), page.find(END)
    if begin < 0 or end < begin:
        sys.exit(f"the page has no lines {BEGIN} and {END}")
    return "\n".join([page[:begin] + BEGIN, *([""] + tables if tables else []), page[end:]])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="*", type=Path)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--published", type=Path, default=PUBLISHED)
    given = parser.parse_args()
    published = json.loads(given.published.read_text(encoding="utf-8"))
    tables = [line for path in given.results for line in tables_of(path, published)]
    if given.page is None:
        print("\n".join(tables))
        return 0
    page = given.page.read_text(encoding="utf-8")
    wanted = with_tables(page, tables)
    if not given.check:
        given.page.write_text(wanted, encoding="utf-8")
    elif wanted != page:
        print(f"{given.page}: the tables differ from the results; run bench/split_k_tables.py "
              f"{' '.join(map(str, given.results))} --page {given.page}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
