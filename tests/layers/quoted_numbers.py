"""Checks the tables of README and docs that quote bench/results, cell by cell, against the files that they name.

  quoted_numbers.py <root>    prints each cell that differs from its file, and fails if there is one

A cell has microseconds with one decimal and, in brackets, the share of the floor. A cell without brackets has only the
time, and an empty cell quotes nothing. The script needs only Python's standard library.
"""

import json
import sys
from pathlib import Path
from typing import Callable, Iterator, NamedTuple, Optional, Union


class Table(NamedTuple):
    """A table of a page: a cell quotes the one case that its row and its column both accept."""

    page: str
    heading: str  # the header line, exactly
    results: Union[str, list[str]]  # files of bench/results
    rows: dict[str, Callable[[dict], bool]]  # by a row's first cell
    columns: list[Callable[[dict], bool]]  # one for each cell after the first


def called(name: str) -> Callable[[dict], bool]:
    return lambda case: case["name"] == name


def of(operator: str, fields: str, group: str = "") -> Callable[[dict], bool]:
    text = f"{operator}:{fields}" if fields else operator
    return lambda case: case["descriptor"] == text and case.get("group", "").startswith(group)


def sized(n: int, k: int) -> Callable[[dict], bool]:
    return lambda case: case["group"].startswith("gptq") and (case["sizes"]["n"], case["sizes"]["k"]) == (n, k)


def invariant(n: int, k: int) -> Callable[[dict], bool]:
    return lambda case: (case["descriptor"].endswith("batch_invariant=true") and
                         (case["sizes"]["n"], case["sizes"]["k"]) == (n, k))


def ordered(n: int, is_ordered: bool) -> Callable[[dict], bool]:
    return lambda case: case["sizes"]["n"] == n and ("activation_order" in case["descriptor"]) == is_ordered


INT4 = "kv=int4_rows,groups=4"
SHAPES = [(4096, 4096), (8192, 8192), (28672, 8192), (8192, 28672), (16384, 16384)]
CACHES = {"bf16": "", "int8_split": ",kv=int8_split", "fp8_e4m3": ",kv=fp8_e4m3", "int4_rows, 4 groups": f",{INT4}",
          "int4_rows, 1 group": ",kv=int4_rows,alignment=4"}  # measured when alignment=4 was not yet the default
APPENDED = {
    "bf16 into bf16": "", "fp16 into fp16": "kv=fp16,input=fp16",
    "bf16 into bf16, rotary=half_split": "rotary=half_split", "bf16 into bf16, cache=paged": "cache=paged",
    "kv=int4_rows": "kv=int4_rows", INT4: INT4, f"{INT4},rotary=half_split": f"{INT4},rotary=half_split",
    "the same, cache=paged": f"{INT4},rotary=half_split,cache=paged", "kv=int8_split": "kv=int8_split",
    "kv=int8_split,rotary=half_split": "kv=int8_split,rotary=half_split", "kv=fp8_e4m3": "kv=fp8_e4m3",
    "kv=fp8_e5m2": "kv=fp8_e5m2", "kv=fp8_e4m3,scales=tensor": "kv=fp8_e4m3,scales=tensor",
}
BYTES = [*((n, "int8 to fp16", "") for n in (1920, 4096, 8192)),
         *((8192, name, name.replace(" ", "")) for name in ("output=int32", "output=int8", "element=fp8_e4m3",
                                                            "element=fp8_e4m3, accumulate=promoted"))]
GATHERED = {"bf16": "", "kv=fp16,output=fp16": "kv=fp16,output=fp16", "kv=int4_rows": "kv=int4_rows", INT4: INT4,
            f"{INT4},cache=paged": f"{INT4},cache=paged", "kv=int8_split": "kv=int8_split",
            "kv=fp8_e4m3": "kv=fp8_e4m3"}
QUANTISED = {"gptq": "", "format=awq": "format=awq", "format=symmetric,input=bf16": "format=symmetric,input=bf16",
             "group_size=32": "group_size=32", "format=awq,group_size=all": "format=awq,group_size=all"}
# Fields of the kernels for 8192 x 8192. All have tile_n=64; kernels for M=1 also have tile_m=8.
MULTIPLIED = {"gptq": "", "format=symmetric": "format=symmetric,", "format=awq": "format=awq,",
              "element=bf16": "element=bf16,", "group_size=32": "group_size=32,", "bits=8": "bits=8,"}
SUMS = "input=int32,weight_scale=channel"
CONVERTED = {"dequantize": ["", f"{SUMS},bias=true", f"{SUMS},layout=col32,output=bf16", f"{SUMS},function=gelu,residual=true"],
             "convert_layout": ["", "from=col32,to=row", "to=col4_4r2_8c", "to=col32_2r_4r4"]}
MERGED = ["", "input=fp16,output=fp16", "input=fp32", "head_dim=64", "head_dim=512"]
BATCHES = "| KV cache | B=8 | B=32 | B=64 | B=128 | B=256 | B=512 |"
ROWS = "| | M=1 | M=8 | M=16 | M=32 | M=64 | M=128 |"


def by_batch(page: str, caches: list[str]) -> Table:
    return Table(page, BATCHES, "gqa_decode/gqa_decode_h200.json",
                 {name: of("gqa_decode", f"heads_per_kv=8{CACHES[name]}", "query [B, 1, 8, 128]") for name in caches},
                 [called(f"B={batch}") for batch in (8, 32, 64, 128, 256, 512)])


def by_rows(page: str, shapes: list[tuple[int, int]]) -> Table:
    return Table(page, ROWS, "w4a16_gemm/w4a16_gemm_h200.json", {f"{n}, {k}": sized(n, k) for n, k in shapes},
                 [lambda case, m=m: case["sizes"]["m"] == m for m in (1, 8, 16, 32, 64, 128)])


def variant(group: str, heads: int, name: str, more: str = "") -> Callable[[dict], bool]:
    """The cases of a row of the table of variants, whose columns are KV formats."""
    return lambda case: (case["group"].startswith(group) and case["name"] == name and
                         case["descriptor"].startswith(f"gqa_decode:heads_per_kv={heads}") and
                         case["descriptor"].endswith(more))


def stored(kv: str) -> Callable[[dict], bool]:
    """The cases whose keys and values have this format: "" is bf16."""
    return lambda case: f",{kv}" in case["descriptor"] if kv else "kv=" not in case["descriptor"].replace("per_kv", "")


def beside(peer: Optional[str]) -> Callable[[dict], bool]:
    """The cases of a contender at 8192 x 8192; None is cubit."""
    return lambda case: case.get("peer") == peer and (case["sizes"]["n"], case["sizes"]["k"]) == (8192, 8192)


def collected(source: str, per: str) -> Callable[[dict], bool]:
    """The benchmarks of a source of activations. `per` is the time of the rate: "cpu" or "real"."""
    return lambda case: source in case["name"] and case["per"] == per


def planted(factor: int) -> Callable[[dict], bool]:
    """The entries of the accuracy study whose norms' outliers have this factor."""
    return lambda case: case["outlier_norm"] == factor


LINKED = ["w8a8_gemm", "quantize", "norm_quantize", "gate_quantize", "kv_append", "kv_gather", "w4_quantize", "merge",
          "dequantize", "convert_layout", "weight_sums"]


def linked(operator: str) -> str:
    return f"[{operator}](docs/operators/{operator}.md#speed)"


TABLES = [
    by_batch("README.md", ["bf16", "fp8_e4m3", "int4_rows, 4 groups"]),
    by_rows("README.md", SHAPES[1:2]),
    Table("README.md", "| kernel | time |", [f"{operator}_h200.json" for operator in LINKED],
          {**{linked(operator) + (f":{INT4}" if "kv_" in operator else ""): of(operator, INT4 if "kv_" in operator else "")
              for operator in LINKED if operator != "w8a8_gemm"},
           **{f"{linked('w8a8_gemm')}, M={m}":
              lambda case, m=m: case["descriptor"] == "w8a8_gemm" and case["sizes"]["m"] == m for m in (2048,)}},
          [lambda case: case["name"] in ("prefill", "all", "n = k = 16384", "8192 x 8192", "8 parts", "N=K=8192") or
           case["name"].startswith("N=8192 K=8192 ")]),
    by_batch("docs/operators/gqa_decode.md", list(CACHES)),
    Table("docs/operators/gqa_decode.md", "| KV cache | B=1, T=8192 | B=1, T=131072 | B=16, T=8192 |",
          "gqa_decode/gqa_decode_h200.json",
          {"bf16": of("gqa_decode", "heads_per_kv=4", "32 query heads"),
           "int4_rows, 4 groups": of("gqa_decode", f"heads_per_kv=4,{INT4}", "32 query heads")},
          [called(name) for name in ("B=1 T=8192", "B=1 T=131072", "B=16 T=8192")]),
    Table("docs/operators/gqa_decode.md", "| variant | bf16 | fp8_e4m3 | int4_rows, 4 groups |", "gqa_decode/gqa_decode_h200.json",
          {"pages of 16 tokens": variant("query [B, 1, 8, 128]", 8, "B=128", "cache=paged"),
           "4 query tokens of 4 heads": variant("4 query tokens", 4, "B=128, 4 heads"),
           "4 query tokens of 8 heads": variant("4 query tokens", 8, "B=128, 8 heads"),
           "64 heads": variant("B = 128", 64, "64 heads"),
           "lengths on the device": variant("lengths on the device", 8, "B=128"),
           "64 sequences, lengths log-uniform in 1 to 32768": variant("64 sequences", 8, "ragged")},
          [stored(""), stored("kv=fp8_e4m3"), stored(INT4)]),
    Table("docs/operators/w4a16_gemm.md", "| 8192 × 8192 | M=128 | M=256 | M=512 | M=1024 | M=2048 | M=4096 |",
          "w4a16_gemm/w4a16_gemm_batch_sizes_h200.json",
          {"cubit": beside(None), "cuBLAS fp16": beside("cuBLAS fp16"), "Humming": beside("Humming")},
          [lambda case, m=m: case["sizes"]["m"] == m for m in (128, 256, 512, 1024, 2048, 4096)]),
    by_rows("docs/operators/w4a16_gemm.md", SHAPES),
    Table("docs/operators/w4a16_gemm.md", "| kernel | M=1 | M=16 |", "w4a16_gemm/w4a16_gemm_h200.json",
          {name: lambda case, fields=fields: case["group"] in ("other formats and types", "weights of 8 bits") and
           case["descriptor"] in (f"w4a16_gemm:{fields}tile_m=8,tile_n=64", f"w4a16_gemm:{fields}tile_n=64")
           for name, fields in MULTIPLIED.items()},
          [lambda case, m=m: case["sizes"]["m"] == m for m in (1, 16)]),
    Table("docs/operators/w4a16_gemm.md", "| activation order | M=1 | M=16 | M=64 | M=256 | M=1024 |",
          "w4a16_gemm/w4a16_gemm_order_h200.json",
          {f"{n}², {name}": ordered(n, is_ordered) for n in (4096, 8192)
           for name, is_ordered in (("none", False), ("`g_idx` as stored", True))},
          [lambda case, m=m: case["sizes"]["m"] == m for m in (1, 16, 64, 256, 1024)]),
    Table("docs/operators/w4a16_gemm.md", "| 8192 × 8192 | M=1 | M=16 | M=64 |", "w4a16_gemm/w4a16_gemm_h200.json",
          {"default": sized(8192, 8192), "`batch_invariant=true`": invariant(8192, 8192)},
          [lambda case, m=m: case["sizes"]["m"] == m for m in (1, 16, 64)]),
    Table("docs/operators/w8a8_gemm.md", "| N = K, fields | M = 1 | M = 16 | M = 64 | M = 256 | M = 2048 |", "w8a8_gemm_h200.json",
          {f"{n}, {name}": lambda case, n=n, fields=fields: case["sizes"]["n"] == n and of("w8a8_gemm", fields)(case)
           for n, name, fields in BYTES},
          [lambda case, m=m: case["sizes"]["m"] == m for m in (1, 16, 64, 256, 2048)]),
    Table("docs/operators/w8a8_gemm.md", "| `constant_weights` | M=1 | M=16 | M=64 | M=128 | M=256 |",
          ["w8a8_gemm_overlap_h200.json", "w8a8_gemm_constant_weights_h200.json"],
          {row: lambda case, word=word: word in case["file"] and case["sizes"]["n"] == 8192
           for row, word in (("0", "overlap"), ("1", "constant_weights"))},
          [lambda case, m=m: case["sizes"]["m"] == m for m in (1, 16, 64, 128, 256)]),
    Table("docs/embedding_python.md", "| way | one call |", "python_launch_h200.json",
          {"`cubit_kernel_launch` in a loop of C": called("c"),
           '`kernel.positional("query", …)(query, …)`': called("by position"),
           "`kernel(query=…, out=output)`": called("out="),
           "`kernel(query=…)`, which allocates the output": called("new output"),
           "`ctypes`, without a check of shapes": called("ctypes")}, [lambda case: True]),
    Table("docs/operators/kv_append.md", "| kernel | 8192 tokens × 8 heads | 64 × 1 token × 8 heads |",
          "kv_append_h200.json", {name: of("kv_append", fields) for name, fields in APPENDED.items()},
          [called("prefill"), called("decode")]),
    Table("docs/calibration.md", "| GB of bf16 values | ranges | and histogram | all |", "calibrate/memory_limit_2cores.json",
          {"per CPU second, file in the page cache": collected("_cached/", "cpu"),
           "per CPU second, large file": collected("large_file/", "cpu"),
           "per second on 2 cores, large file": collected("large_file/", "real")},
          [lambda case, name=name: f"bf16_{name}" in case["name"] for name in ("ranges", "histogram", "all")]),
    Table("docs/accuracy.md", "| outliers with 1024 channels | alpha none | alpha 0.5 |",
          ["accuracy/accuracy_1024_2cores.json", "accuracy/smaller_outliers_1024_2cores.json"],
          {"norms ×100, weights ÷10": planted(100), "norms ×20, weights ÷√20": planted(20)},
          [lambda case, alpha=alpha: case["alpha"] == alpha for alpha in (None, 0.5)]),
    Table("docs/operators/kv_gather.md", "| kernel | time |", "kv_gather_h200.json",
          {name: of("kv_gather", fields) for name, fields in GATHERED.items()}, [called("all")]),
    *(Table(f"docs/operators/{operator}.md", "| fields | 1 × 4096 | 64 × 4096 | 8192 × 4096 | 64 × 8192 | 8192 × 8192 |",
            f"{operator}_h200.json", {fields or "defaults": of(operator, fields) for fields in rows},
            [called(name) for name in ("1 x 4096", "64 x 4096", "8192 x 4096", "64 x 8192", "8192 x 8192")])
      for operator, rows in CONVERTED.items()),
    Table("docs/operators/merge.md", "| fields | 2 parts | 8 parts |", "merge_h200.json",
          {fields or "defaults": of("merge", fields) for fields in MERGED}, [called("2 parts"), called("8 parts")]),
    Table("docs/operators/weight_sums.md", "| kernel | 1920 × 1920 | 4096 × 4096 | 8192 × 8192 |", "weight_sums_h200.json",
          {"weight_sums": of("weight_sums", "")}, [called(f"N=K={n}") for n in (1920, 4096, 8192)]),
    Table("docs/operators/w4_quantize.md", "| kernel | 4096 × 4096 | 16384 × 16384 |", "w4_quantize_h200.json",
          {name: of("w4_quantize", fields) for name, fields in QUANTISED.items()},
          [called("n = k = 4096"), called("n = k = 16384")]),
]


def cases_of(results: Path) -> list[dict]:
    """The cases of a file. A benchmark of collecting statistics gives two cases: GB per CPU second and per second.
    An accuracy study gives an error for each entry."""
    content = json.loads(results.read_text(encoding="utf-8"))
    if isinstance(content, list):
        return content
    if "entries" in content:
        return [{"error": entry["error"], "alpha": entry["alpha"], **content["case"]} for entry in content["entries"]]
    return [{"name": case["name"], "per": per,
             "rate": case["bytes_per_second"] * case["real_time"] / case[f"{per}_time"] / 1e9}
            for case in content["benchmarks"] for per in ("cpu", "real")]


def quoted(case: dict, cell: str) -> str:
    if "rate" in case:
        return f"{case['rate']:.2f}"
    if "error" in case:
        return f"{100 * case['error']:.2f}%"
    microseconds = f"{case['microseconds']:.1f}"
    if "(" not in cell:
        return microseconds
    return f"{microseconds} ({100 * case['floor_microseconds'] / case['microseconds']:.0f}%)"


def wrong_cells(root: Path, table: Table) -> Iterator[str]:
    lines = (root / table.page).read_text(encoding="utf-8").splitlines()
    files = [table.results] if isinstance(table.results, str) else table.results
    cases = [{**case, "file": file} for file in files for case in cases_of(root / "bench/results" / file)]
    source = " and ".join(files)
    if table.heading not in lines:
        yield f"{table.page}: no table begins with {table.heading}"
        return
    at = lines.index(table.heading) + 2
    seen = set()
    while at < len(lines) and lines[at].startswith("|"):
        name, *cells = [cell.strip() for cell in lines[at].strip("|").split("|")]
        at += 1
        if name not in table.rows:
            yield f"{table.page}:{at}: {source} is not known to have {name}"
            continue
        seen.add(name)
        for cell, of_column in zip(cells, table.columns, strict=True):
            if not cell:
                continue
            found = [case for case in cases if table.rows[name](case) and of_column(case)]
            if len(found) != 1:
                yield f"{table.page}:{at}: {source} has {len(found)} cases for {cell} of {name}"
            elif cell != quoted(found[0], cell):
                yield f"{table.page}:{at}: {cell} of {name} is {quoted(found[0], cell)} in {source}"
    for name in sorted(set(table.rows) - seen):
        yield f"{table.page}: {table.heading} has no row {name}"


def main() -> int:
    root = Path(sys.argv[1])
    wrong = [line for table in TABLES for line in wrong_cells(root, table)]
    print("\n".join(wrong) if wrong else f"{len(TABLES)} tables agree with their files")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
