"""The parts of the comparison over batch sizes that need no GPU: shapes, cells, rounds, entries and the table.

A cell is one layer shape at one number of activation rows. gemm_sweep.py times each cell with cubit and with its
peers, and sweep_picture.py draws the result.
"""

from dataclasses import dataclass, replace

import results

ROWS = sorted([2**power for power in range(14)] + [17, 33, 65, 129, 257])
GROUP = 128  # input features that share a scale
MOST_RATIO = 1.03  # a cell above this ratio to a peer is marked *
WORST_RATIO = 1.15  # a cell above this ratio to a peer is marked **
REPLAYS = 3  # of one round; a graph that is longer than LONG_GRAPH_MICROSECONDS has one
LONG_GRAPH_MICROSECONDS = 3000
CHECKED_ROWS = 64
CUBIT = "cubit"
CUBLAS = "cuBLAS fp16"
HUMMING = "Humming"


@dataclass(frozen=True)
class Shape:
    """Weights of n output and k input features. `layers` names models' layers of this shape."""

    n: int
    k: int
    layers: str

    def label(self) -> str:
        return f"{self.n}x{self.k}"


# Layers whose weights engines store side by side count as one: query, key and value; gate and up.
SHAPES = (
    Shape(4096, 4096, "Llama 3 8B o"),
    Shape(8192, 8192, "Llama 3 70B o"),
    Shape(28672, 8192, "Llama 3 70B gate or up"),
    Shape(8192, 28672, "Llama 3 70B down"),
    Shape(6144, 4096, "Llama 3 8B qkv"),
    Shape(28672, 4096, "Llama 3 8B gate and up"),
    Shape(4096, 14336, "Llama 3 8B down"),
    Shape(10240, 8192, "Llama 3 70B qkv"),
    Shape(57344, 8192, "Llama 3 70B gate and up"),
    Shape(10240, 5120, "Qwen 3 32B qkv"),
    Shape(5120, 8192, "Qwen 3 32B o"),
    Shape(51200, 5120, "Qwen 3 32B gate and up"),
    Shape(5120, 25600, "Qwen 3 32B down"),
)


def shape_of(text: str) -> Shape:
    """The shape "NxK", with the layers of SHAPES if it is one of them."""
    sizes = text.lower().split("x")
    if len(sizes) != 2 or not all(size.isdecimal() for size in sizes):
        raise ValueError(f"{text}: a shape is NxK, such as 8192x28672")
    n, k = map(int, sizes)
    if n < 1 or n % 8 != 0 or k < 1 or k % GROUP != 0:
        raise ValueError(f"{text}: N is a multiple of 8 and K of {GROUP}")
    return next((shape for shape in SHAPES if (shape.n, shape.k) == (n, k)), Shape(n, k, ""))


@dataclass(frozen=True)
class Cell(results.GemmCase):
    """One shape at m rows. `peer` is cubit or the name of a peer, which decides how many bytes the weights have."""

    peer: str = CUBIT

    def weight_bytes(self) -> int:
        if self.peer == CUBLAS or (self.peer == CUBIT and is_dense(self.descriptor)):
            return 2 * self.n * self.k
        zeros = self.n * self.k // GROUP // 2 if self.peer == CUBIT else 0  # Humming has no zeros of symmetric weights
        return self.n * self.k // 2 + 2 * self.n * self.k // GROUP + zeros

    def bytes_read(self, _lengths=()) -> int:
        return self.weight_bytes() + 2 * self.m * self.k

    def stored_bytes(self) -> int:
        return self.bytes_read() + 2 * self.m * self.n


def is_dense(descriptor: str) -> bool:
    """Whether cubit multiplies by weights that are not quantised."""
    return "format=dense" in descriptor


def cell_of(shape: Shape, m: int, descriptor: str, peer: str = CUBIT) -> Cell:
    return Cell(shape.layers or shape.label(), f"N={shape.n} K={shape.k} M={m}", descriptor, m, shape.n, shape.k, peer)


def selected(shapes, rows, only: str) -> list:
    """[(shape, rows of this shape)]: the cells whose layers or name contain `only`."""
    chosen = []
    for shape in shapes:
        cells = [cell_of(shape, m, "") for m in rows]
        kept = [cell.m for cell in cells if only in cell.group or only in cell.name]
        if kept:
            chosen.append((shape, kept))
    return chosen


def without_measured(chosen, entries) -> list:
    """The selection without the cells that `entries` already has."""
    known = {sizes_of(entry) for entry in entries}
    left = [(shape, [m for m in rows if (shape.n, shape.k, m) not in known]) for shape, rows in chosen]
    return [(shape, rows) for shape, rows in left if rows]


def sizes_of(entry) -> tuple:
    return tuple(entry["sizes"][name] for name in ("n", "k", "m"))


def copies_for(cell: Cell, facts) -> int:
    """The copies of the weights that the launches of a graph use in turn. Activations and output count as bytes too,
    because they push the weights out of the L2 cache."""
    return results.copies_for(cell.stored_bytes(), cell.stored_bytes(), facts["l2_bytes"], facts["memory_bytes"])


def replays_for(graph_microseconds: float) -> int:
    return REPLAYS if graph_microseconds <= LONG_GRAPH_MICROSECONDS else 1


def alternate(contenders: dict, rounds: int) -> dict:
    """Calls the functions of `contenders` in turn, `rounds` times. Each round begins with another contender, so that
    none always follows the same one. Returns the results by contender and round."""
    names = list(contenders)
    outcome = {name: [] for name in names}
    for number in range(rounds if names else 0):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            outcome[name].append(contenders[name]())
    return outcome


def ratio(own_rounds, peer_rounds) -> float:
    """The median over the rounds of cubit's time divided by the peer's time in the same round."""
    return results.median([own / peer for own, peer in zip(own_rounds, peer_rounds)])


def entries_of(cell, facts, floor, measured, skipped) -> list:
    """Returns the entries of one cell. `floor` is (microseconds, kernel). `measured` has for each contender its rounds'
    microseconds, launches, replays, copies and relative error; `skipped` has the reasons of the others."""
    entries = []
    for name, timing in measured.items():
        of_peer = replace(cell, peer=name)
        median = results.median(timing["rounds"])
        entry = results.measured(of_peer, name, facts, [], (median, timing["launches"]), floor[0], timing["copies"])
        entry |= {"sizes": sizes(cell), "floor_kernel": floor[1], "replays": timing["replays"],
                  "rounds": len(timing["rounds"]), "round_microseconds": timing["rounds"],
                  "relative_error": timing["relative_error"], "overlap": facts["overlap"] and name == CUBIT,
                  "past_l2": timing["copies"] * of_peer.stored_bytes() >= results.PAST_L2 * facts["l2_bytes"]}
        if name == CUBIT:
            del entry["peer"]
        elif CUBIT in measured:
            entry["ratio"] = ratio(measured[CUBIT]["rounds"], timing["rounds"])
        entries.append(entry)
    for name, why in skipped.items():
        entry = results.skipped(cell, name, why) | {"sizes": sizes(cell)}
        if name == CUBIT:
            del entry["peer"]
        entries.append(entry)
    return entries


def sizes(cell) -> dict:
    return {"m": cell.m, "n": cell.n, "k": cell.k}


def mark(value: float) -> str:
    return "**" if value > WORST_RATIO else "*" if value > MOST_RATIO else ""


def _columns(rows) -> list:
    """Lines of right-aligned columns; the first column is left-aligned."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(text.ljust(width) if column == 0 else text.rjust(width)
                      for column, (text, width) in enumerate(zip(row, widths))).rstrip() for row in rows]


def _of_peer(entries, peer) -> list:
    """Returns the lines of one peer's matrix and its summary."""
    ratios = {sizes_of(entry): entry["ratio"] for entry in entries if entry.get("peer") == peer and "ratio" in entry}
    reasons = [entry["skipped"] for entry in entries if entry.get("peer") == peer and "skipped" in entry]
    lines = []
    if ratios:
        shapes = list(dict.fromkeys((n, k) for n, k, _ in ratios))
        rows = sorted({m for _, _, m in ratios})
        table = [("N x K", *(f"M={m}" for m in rows))]
        for n, k in shapes:
            values = [ratios.get((n, k, m)) for m in rows]
            # Two columns for the mark keep the decimal points in line.
            table.append((f"{n} x {k}", *("" if value is None else f"{value:.2f}{mark(value):<2}" for value in values)))
        table[0] = (table[0][0], *(f"{text}  " for text in table[0][1:]))
        good = sum(value <= MOST_RATIO for value in ratios.values())
        small = [value for (_, _, m), value in ratios.items() if m <= 64]
        worst = max(ratios, key=ratios.get)
        lines += [f"Time of cubit divided by the time of {peer}", *_columns(table),
                  f"{good} of {len(ratios)} cells ({100 * good / len(ratios):.1f}%) are at most {MOST_RATIO} and "
                  f"{sum(value > WORST_RATIO for value in ratios.values())} above {WORST_RATIO}; the largest ratio is "
                  f"{ratios[worst]:.3f} at N={worst[0]} K={worst[1]} M={worst[2]}."]
        if small:
            lines += [f"cubit is faster in {sum(value < 1 for value in small)} of {len(small)} cells with M <= 64."]
    for why in dict.fromkeys(reasons):
        lines += [f"{peer} was not measured in {reasons.count(why)} cells: {why}"]
    return lines


def table(entries) -> str:
    """A matrix of ratios for each peer, and the cells above MOST_RATIO with their times."""
    peers = list(dict.fromkeys(entry["peer"] for entry in entries if "peer" in entry))
    blocks = ["\n".join(_of_peer(entries, peer)) for peer in peers]
    own = {sizes_of(entry): entry for entry in entries if "peer" not in entry}
    slow = [entry for entry in entries if mark(entry.get("ratio", 0))]
    if slow:
        slow.sort(key=lambda entry: -entry["ratio"])
        rows = [("cell", "peer", "cubit us", "peer us", "ratio", "cubit's kernel")]
        for entry in slow:
            cubit = own[sizes_of(entry)]
            rows.append((entry["name"], entry["peer"], f"{cubit['microseconds']:.1f}", f"{entry['microseconds']:.1f}",
                         f"{entry['ratio']:.3f}{mark(entry['ratio']):<2}", cubit["descriptor"]))
        blocks.append("\n".join(_columns(rows)))
    failed = [entry for entry in own.values() if "skipped" in entry]
    blocks += [f"cubit was not measured at {entry['name']}: {entry['skipped']}" for entry in failed]
    return "\n\n".join(block for block in blocks if block)
