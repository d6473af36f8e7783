#!/usr/bin/env python3
"""Draws the result of gemm_sweep.py: sweep_picture.py FILE.json… OUTPUT.svg

The picture has one panel per shape: microseconds on a logarithmic axis against the rows of the activations, with one
line for each contender and one for the read floor. The ratios are printed as a table.
"""

import json
import math
import sys
from pathlib import Path
from xml.sax.saxutils import escape

import sweep_cells

COLUMNS = 4
PANEL_WIDTH, PANEL_HEIGHT = 340, 270
LEFT, RIGHT, TOP, BOTTOM = 46, 84, 40, 34  # margins of a panel's plot
HEADER = 62
LABEL_HEIGHT = 12
FLOOR = "read floor"
# (colour, line width, dashes); the colours also differ for colour-blind readers and are dark enough for text.
STYLES = {sweep_cells.CUBIT: ("#c2410c", 2.4, ""), sweep_cells.CUBLAS: ("#1d4ed8", 1.5, ""),
          sweep_cells.HUMMING: ("#047857", 1.5, "6 2"), FLOOR: ("#6b7280", 1.2, "2 3")}
OTHER_STYLE = ("#7c3aed", 1.5, "8 2 2 2")


def lines_of(entries) -> dict:
    """{contender: [(m, microseconds)]} of one shape, ascending in m."""
    lines = {}
    for entry in sorted(entries, key=sweep_cells.sizes_of):
        if "microseconds" not in entry:
            continue
        m = entry["sizes"]["m"]
        lines.setdefault(entry.get("peer", sweep_cells.CUBIT), []).append((m, entry["microseconds"]))
        floor = lines.setdefault(FLOOR, [])
        if not floor or floor[-1][0] != m:
            floor.append((m, entry["floor_microseconds"]))
    return lines


def spread(heights, distance) -> list:
    """The heights moved so that neighbours are at least `distance` apart, and otherwise little. The order stays."""
    order = sorted(range(len(heights)), key=lambda index: heights[index])
    groups = []  # [sum of the wanted heights, indices]; the labels of a group touch
    for index in order:
        groups.append([heights[index], [index]])
        while len(groups) > 1 and _first(groups[-1], distance) - _last(groups[-2], distance) < distance:
            total, indices = groups.pop()
            groups[-1] = [groups[-1][0] + total, groups[-1][1] + indices]
    moved = list(heights)
    for group in groups:
        for place, index in enumerate(group[1]):
            moved[index] = _first(group, distance) + place * distance
    return moved


def _first(group, distance):
    total, indices = group
    return total / len(indices) - (len(indices) - 1) * distance / 2


def _last(group, distance):
    return _first(group, distance) + (len(group[1]) - 1) * distance


def text(x, y, content, size=11, anchor="start", fill="#374151", extra="") -> str:
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{fill}"{extra}>'
            f"{escape(content)}</text>")


def ticks(low, high) -> list:
    """Powers of ten within the range, and 2 and 5 times these if there is room."""
    digits = (1,) if high / low > 10_000 else (1, 2, 5)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [digit * 10**power for power in powers for digit in digits if low <= digit * 10**power <= high]


def panel(shape, entries) -> str:
    """One panel whose upper left corner is the origin."""
    lines = lines_of(entries)
    points = [point for line in lines.values() for point in line]
    rows = [m for m, _ in points]
    low, high = min(us for _, us in points) / 1.25, max(us for _, us in points) * 1.25
    width, height = PANEL_WIDTH - LEFT - RIGHT, PANEL_HEIGHT - TOP - BOTTOM
    span = math.log2(max(rows) / min(rows)) or 1

    def at(m, microseconds):
        return (LEFT + width * math.log2(m / min(rows)) / span,
                TOP + height * (1 - math.log(microseconds / low) / math.log(high / low)))

    parts = [text(LEFT, 16, f"N = {shape[0]}, K = {shape[1]}", 13, fill="#111827", extra=' font-weight="600"'),
             text(LEFT, 31, entries[0]["group"], 11, fill="#6b7280")]
    for value in ticks(low, high):
        y = at(min(rows), value)[1]
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + width}" y2="{y:.1f}" stroke="#e5e7eb"/>')
        parts.append(text(LEFT - 6, y + 3.5, f"{value:g}", 10, "end", "#6b7280"))
    powers = [2**power for power in range(0, 31, 3) if min(rows) <= 2**power <= max(rows)]
    for m in powers:
        x = at(m, low)[0]
        parts.append(f'<line x1="{x:.1f}" y1="{TOP + height}" x2="{x:.1f}" y2="{TOP + height + 4}" stroke="#9ca3af"/>')
        parts.append(text(x, TOP + height + 16, str(m), 10, "middle", "#6b7280"))
    parts.append(text(LEFT + width, TOP + height + 29, "M, rows of activations", 10, "end", "#6b7280"))
    parts.append(text(LEFT - 6, 31, "µs", 10, "end", "#6b7280"))
    # cubit is drawn last and lies on top.
    names = sorted(lines, key=lambda name: (name == sweep_cells.CUBIT, name != FLOOR))
    for name in names:
        colour, stroke, dashes = STYLES.get(name, OTHER_STYLE)
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in lines[name]))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{stroke}" '
                     f'stroke-linejoin="round"' + (f' stroke-dasharray="{dashes}"' if dashes else "") + "/>")
    ends = [at(*lines[name][-1]) for name in names]
    for name, (x, _), y in zip(names, ends, spread([y for _, y in ends], LABEL_HEIGHT)):
        weight = ' font-weight="600"' if name == sweep_cells.CUBIT else ""
        parts.append(text(x + 6, y + 3.5, name, 11, fill=STYLES.get(name, OTHER_STYLE)[0], extra=weight))
    return "\n".join(parts)


def picture(entries) -> str:
    """The whole picture. Raises ValueError if no entry has a time."""
    shapes = {}
    for entry in entries:
        shapes.setdefault(sweep_cells.sizes_of(entry)[:2], []).append(entry)
    shapes = {shape: group for shape, group in shapes.items() if any("microseconds" in each for each in group)}
    if not shapes:
        raise ValueError("the file has no measured cell; there is nothing to draw")
    columns = min(COLUMNS, len(shapes))
    width, height = columns * PANEL_WIDTH, HEADER + -(-len(shapes) // columns) * PANEL_HEIGHT
    first = next(entry for entry in entries if "microseconds" in entry)
    versions = [f"{name} {first[key]}" for name, key in (("PyTorch", "torch"), ("CUDA", "cuda"),
                                                         ("Humming", "humming-kernels"), ("cubit", "commit"))
                if first.get(key)]
    head = "4-bit weights times fp16 activations: time of one launch"
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             f'viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" role="img">',
             f"<title>{escape(head)}</title>", f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
             text(LEFT, 26, head, 16, fill="#111827", extra=' font-weight="600"'),
             text(LEFT, 44, ", ".join([first["device"], *versions]), 11, fill="#6b7280")]
    for number, (shape, group) in enumerate(shapes.items()):
        x, y = number % columns * PANEL_WIDTH, HEADER + number // columns * PANEL_HEIGHT
        parts.append(f'<g transform="translate({x},{y})">\n{panel(shape, group)}\n</g>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main(paths):
    if len(paths) < 2 or not paths[-1].endswith(".svg"):
        sys.exit(__doc__)
    entries = [entry for path in paths[:-1] for entry in json.loads(Path(path).read_text(encoding="utf-8"))]
    try:
        Path(paths[-1]).write_text(picture(entries), encoding="utf-8")
    except ValueError as error:
        sys.exit(f"sweep_picture.py: {error}")
    print(sweep_cells.table(entries))


if __name__ == "__main__":
    main(sys.argv[1:])
