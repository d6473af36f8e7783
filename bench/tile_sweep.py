#!/usr/bin/env python3
"""Times w4a16_gemm with every tile_m and tile_n, and compares the fastest tile with the tile of `cubit suggest`.

bench/tile_sweep.py PROGRAM [DESCRIPTOR] [--shape N K] [--rows M ...] > sweep.json Needs a GPU. A cell has up to 16
measurements of about a second each. Prints a table to standard error, and for each cell the time that the suggestion
loses against the fastest tile. The results serve to tune the constants of model.cpp, by which
ops/w4a16_gemm/members.cpp chooses. The descriptor names no tile. --shape replaces the layers of SHAPES by one
layer, and --rows replaces the numbers of rows.
"""

import argparse
import sys

import sweeps

ROWS = [1, 16, 32, 64, 128]
# Layers of models with 7 to 70 billion weights: query projections, gate and up projections, down projections.
SHAPES = [(5120, 5120), (6144, 4096), (10240, 8192), (11008, 4096), (14336, 4096), (18944, 3584), (13824, 5120),
          (4096, 11008), (3584, 18944), (5120, 13824), (1024, 8192)]
TILES = [(m, n) for m in (8, 16, 32, 64) for n in (256, 224, 160, 128, 96, 64, 32)] + [(m, 256) for m in (80, 128, 144, 192, 256)]


def suggest(program, descriptor, sizes):
    """The suggested tile_m and tile_n, or None if the program refuses the sizes."""
    printed = sweeps.run(program, "suggest", descriptor, "--sizes", sweeps.numbers(sizes))
    if printed is None:
        return None
    fields = dict(field.split("=") for field in printed.strip().partition(":")[2].split(",") if field)
    return int(fields["tile_m"]), int(fields["tile_n"])


def with_tiles(descriptor, tile_m, tile_n):
    return f"{descriptor}{',' if ':' in descriptor else ':'}tile_m={tile_m},tile_n={tile_n}"


def is_worth_it(rows, tile_m):
    """Skips tiles of 8 rows for more than 16 rows, and tiles below an eighth of the rows or at least twice as high."""
    return rows / 8 <= tile_m < 2 * max(rows, 8) and (tile_m >= 16 or rows <= 16)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", metavar="PROGRAM")
    parser.add_argument("descriptor", metavar="DESCRIPTOR", nargs="?", default="w4a16_gemm")
    parser.add_argument("--shape", metavar=("N", "K"), nargs=2, type=int)
    parser.add_argument("--rows", metavar="M", nargs="+", type=int, default=ROWS)
    options = parser.parse_args()
    rows = []
    for n, k in [options.shape] if options.shape else SHAPES:
        for m in options.rows:
            sizes = {"m": m, "n": n, "k": k}
            label = f"{n} x {k} M={m:<3}"
            times = {}
            for tile_m, tile_n in TILES:
                if not is_worth_it(m, tile_m):
                    continue
                result = sweeps.measure(options.program, with_tiles(options.descriptor, tile_m, tile_n), sizes)
                if result is None:
                    continue
                times[tile_m, tile_n] = result["microseconds"]
                rows.append({**sizes, "tile_m": tile_m, "tile_n": tile_n, "measured": result})
                sweeps.report(label, f"{tile_m} x {tile_n}", result)
            suggested = suggest(options.program, options.descriptor, sizes)
            if suggested in times:
                best = min(times, key=times.get)
                print(f"{label} suggested {suggested[0]} x {suggested[1]}: {times[suggested] / times[best] - 1:+.1%} "
                      f"against {best[0]} x {best[1]}", file=sys.stderr)
    sweeps.write(rows)


if __name__ == "__main__":
    main()
