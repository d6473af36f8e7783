"""The parts of the comparison with peers that need no GPU: cases, statistics, entries and the table.

An entry is an entry of `cubit bench --json` with an additional field "peer". An entry without a measurement has
"skipped" with the reason.
"""

import json
import os
import subprocess
from dataclasses import dataclass

# The target time of a graph. In a shorter graph the start matters; in a longer one the device lowers its clock.
GRAPH_MICROSECONDS = 800
MOST_ROUNDS = 64
REPLAYS = 15
ROTATION_PER_L2 = 16
PAST_L2 = 4  # copies that exceed the L2 cache have at least this many times its size
MOST_COPIES = 64
HEAD_DIM = 128
ROW_BYTES = {"bf16": lambda groups: 2 * HEAD_DIM, "fp16": lambda groups: 2 * HEAD_DIM,
             "int4_rows": lambda groups: 4 * groups + HEAD_DIM // 2,
             "fp8_e4m3": lambda groups: HEAD_DIM}  # a peer has one scale for all rows


@dataclass(frozen=True)
class Case:
    """One row of gqa_decode's benchmark, with the sizes of `cubit operators gqa_decode --json`."""

    group: str
    name: str
    descriptor: str
    heads_per_kv: int
    kv: str
    groups: int
    batch: int
    context: int
    kv_heads: int
    ragged: bool
    operator = "gqa_decode"

    def lengths(self, uniform) -> list:
        """Lengths with cubit's distribution: log-uniform in 1 … context, one empty and one full sequence. `uniform`
        returns numbers in [0, 1)."""
        if not self.ragged:
            return [self.context] * self.batch
        lengths = [int(self.context ** uniform()) for _ in range(self.batch)]
        lengths[1:3] = [0, self.context][: len(lengths[1:3])]
        return lengths

    def row_bytes(self) -> int:
        return ROW_BYTES[self.kv](self.groups)

    def query_heads(self) -> int:
        return self.heads_per_kv * self.kv_heads

    def bytes_read(self, lengths) -> int:
        """Bytes of the keys, the values, the query in 16 bits, and the lengths of a ragged batch."""
        query = 2 * self.batch * self.query_heads() * HEAD_DIM
        return 2 * sum(lengths) * self.kv_heads * self.row_bytes() + query + (4 * self.batch if self.ragged else 0)

    def stored_bytes(self) -> int:
        return 2 * self.batch * self.context * self.kv_heads * self.row_bytes()

    def operations(self, lengths) -> float:
        return 4.0 * sum(lengths) * self.query_heads() * HEAD_DIM


@dataclass(frozen=True)
class GemmCase:
    """One row of w4a16_gemm's benchmark. A peer multiplies activations [m, k] and weights [n, k] of 16 bits."""

    group: str
    name: str
    descriptor: str
    m: int
    n: int
    k: int
    operator = "w4a16_gemm"

    def lengths(self, _uniform) -> list:
        return []

    def bytes_read(self, _lengths) -> int:
        return 2 * self.k * (self.m + self.n)

    def stored_bytes(self) -> int:
        return self.bytes_read([])

    def operations(self, _lengths) -> float:
        return 2.0 * self.m * self.n * self.k


def case_of(row: dict) -> Case:
    fields = dict(part.split("=") for part in row["descriptor"].partition(":")[2].split(",") if part)
    if int(fields.get("head_dim", HEAD_DIM)) != HEAD_DIM:
        raise ValueError(f"{row['descriptor']}: only head_dim {HEAD_DIM} is compared")
    sizes = row["sizes"]
    return Case(row["group"], row["name"], row["descriptor"], int(fields.get("heads_per_kv", 1)),
                fields.get("kv", "bf16"), int(fields.get("groups", 1)), int(sizes["batch"]), int(sizes["context"]),
                int(sizes.get("kv_heads", 1)), bool(sizes.get("ragged", 0)))


def has_peers(descriptor: str) -> bool:
    others = ("kv=int8_split", "kv=fp8_e5m2", "cache=paged", "soft_cap=", "alibi=", "window=", "sinks=", "family=",
              "value=", "value_dim=", "query_tokens=", "head_dim=")
    return not any(field in descriptor for field in others)


def attention_cases(rows) -> list:
    """The cases that peers can compute: contiguous caches in common formats, plain scores, and lengths known to the
    host. A case that is in several tables appears once."""
    first = {}
    for row in rows:
        if has_peers(row["descriptor"]) and not row["sizes"].get("lengths"):
            first.setdefault((row["descriptor"], tuple(sorted(row["sizes"].items()))), case_of(row))
    return list(first.values())


def gemm_cases(rows) -> list:
    """Each shape once, because formats and tiles make no difference to a peer without packed weights."""
    first = {}
    for row in rows:
        sizes = tuple(int(row["sizes"][name]) for name in ("m", "n", "k"))
        first.setdefault(sizes, GemmCase(row["group"], row["name"], row["descriptor"], *sizes))
    return list(first.values())


CASES = {"gqa_decode": attention_cases, "w4a16_gemm": gemm_cases}


def cases_of(program: str, operator: str) -> list:
    """Reads the cases from the program, so that there is only one list of cases."""
    text = subprocess.run([program, "operators", operator, "--json"], check=True, capture_output=True, text=True)
    return CASES[operator](json.loads(text.stdout)[0]["bench"])


def median(values):
    ordered = sorted(values)
    if not ordered:
        raise ValueError("the median of nothing")
    return ordered[len(ordered) // 2]


def copies_for(bytes_read: int, case_bytes: int, l2_bytes: int, memory_bytes: int) -> int:
    """Number of copies of the inputs that rotate: together 16 times the L2 cache, within a quarter of the memory."""
    wanted = (ROTATION_PER_L2 * l2_bytes + bytes_read) // max(bytes_read, 1)
    return max(1, min(wanted, memory_bytes // 4 // max(case_bytes, 1), MOST_COPIES))


def rounds_for(microseconds: float) -> int:
    """How often a graph visits all copies, if one visit to all copies takes `microseconds`."""
    return min(max(round(GRAPH_MICROSECONDS / max(microseconds, 1.0)), 1), MOST_ROUNDS)


def measured(case, peer, facts, lengths, timing, floor_microseconds, copies) -> dict:
    """`facts`: device, driver and versions, the same for all entries of a run. `timing`: the result of
    time_launches."""
    bytes_read = case.bytes_read(lengths)
    microseconds, launches = timing
    return {"group": case.group, "name": case.name, "descriptor": case.descriptor, "peer": peer, **facts,
            "microseconds": microseconds, "gigabytes_per_second": bytes_read / microseconds / 1000,
            "floor_microseconds": floor_microseconds, "floor_share": floor_microseconds / microseconds,
            "floor_kernel": "a copy of half the bytes", "bytes": bytes_read, "operations": case.operations(lengths),
            "replays": REPLAYS, "launches": launches, "copies": copies,
            "past_l2": copies * bytes_read >= PAST_L2 * facts["l2_bytes"]}


def skipped(case, peer, why) -> dict:
    return {"group": case.group, "name": case.name, "descriptor": case.descriptor, "peer": peer, "skipped": why}


def write(entries, path) -> None:
    """Replaces the file in one step: a reader finds the old entries or the new ones, never a part."""
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(entries, file, indent=2)
    os.replace(temporary, path)


def _key(entry):
    return entry["group"], entry["name"], entry["descriptor"]


def table(entries) -> str:
    """One block per case: cubit's row, then the peers from fast to slow, then the peers without a measurement. A share
    is a share of cubit's read floor of the case, or of the entry's own floor if cubit was not measured."""
    cases = list(dict.fromkeys(_key(entry) for entry in entries))
    rows = [("case", "kernel", "us", "GB/s", "of floor")]
    for key in cases:
        of_case = [entry for entry in entries if _key(entry) == key]
        own = [entry for entry in of_case if "peer" not in entry and "microseconds" in entry]
        floor = own[0]["floor_microseconds"] if own else None
        of_case.sort(key=lambda entry: ("skipped" in entry, "peer" in entry, entry.get("microseconds", 0)))
        for number, entry in enumerate(of_case):
            case = f"{key[1]} {key[2]}" if number == 0 else ""
            peer = entry.get("peer", "cubit")
            if "skipped" in entry:
                rows.append((case, peer, "-", "-", entry["skipped"]))
                continue
            share = (floor or entry["floor_microseconds"]) / entry["microseconds"]
            # A peer makes ragged lengths of its own, so the share refers to the floor of its own bytes.
            if own and entry["bytes"] != own[0]["bytes"]:
                share = entry["floor_share"]
            rows.append((case, peer, f"{entry['microseconds']:.1f}", f"{entry['gigabytes_per_second']:.0f}",
                         f"{100 * share:.1f}%"))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]:>{widths[3]}}  {row[4]}"
                     .rstrip() for row in rows)
