#!/usr/bin/env python3
"""Which tiles: every tile_m and tile_n that w4a16_gemm may have, beside what `cubit suggest` says.

bench/tile_sweep.py PROGRAM [DESCRIPTOR [N K]] > sweep.json
Needs a GPU; up to 14 measurements per cell, of about a second each. Prints a table to standard error, and what the suggestion
loses against the best of each cell. The choice is that of ops/w4a16_gemm/suggest.cpp, by the constants of model.cpp, which
this is for. N and K: one layer instead of those of SHAPES.
"""

import subprocess
import sys

import sweeps

ROWS = [1, 16, 32, 64]
# Layers of models of 7 to 70 billion weights: projections of queries, of gates and ups, of downs.
SHAPES = [(5120, 5120), (6144, 4096), (10240, 8192), (11008, 4096), (14336, 4096), (18944, 3584), (13824, 5120),
          (4096, 11008), (3584, 18944), (5120, 13824), (1024, 8192)]
TILES = [(m, n) for m in (8, 16, 32, 64) for n in (256, 224, 160, 128, 96, 64, 32)]


def suggest(program, descriptor, sizes):
    """Its tile_m and tile_n."""
    done = subprocess.run([program, "suggest", descriptor, "--sizes", sweeps.numbers(sizes)], capture_output=True,
                          text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    fields = dict(field.split("=") for field in done.stdout.strip().partition(":")[2].split(",") if field)
    return int(fields.get("tile_m", 16)), int(fields.get("tile_n", 256))


def with_tiles(descriptor, tile_m, tile_n):
    return f"{descriptor}{',' if ':' in descriptor else ':'}tile_m={tile_m},tile_n={tile_n}"


def is_worth_it(rows, tile_m):
    """Tiles of 8 rows only up to 16 rows, and none of twice the rows or more."""
    return tile_m < 2 * max(rows, 8) and (tile_m >= 16 or rows <= 16)


def main():
    arguments = sys.argv[1:]
    if len(arguments) not in (1, 2, 4):
        sys.exit(__doc__)
    program = arguments[0]
    descriptor = arguments[1] if len(arguments) > 1 else "w4a16_gemm"
    shapes = [tuple(map(int, arguments[2:]))] if len(arguments) == 4 else SHAPES
    rows = []
    for n, k in shapes:
        for m in ROWS:
            sizes = {"m": m, "n": n, "k": k}
            label = f"{n} x {k} M={m:<3}"
            times = {}
            for tile_m, tile_n in TILES:
                if not is_worth_it(m, tile_m):
                    continue
                result = sweeps.measure(program, with_tiles(descriptor, tile_m, tile_n), sizes)
                if result is None:
                    continue
                times[tile_m, tile_n] = result["microseconds"]
                rows.append({**sizes, "tile_m": tile_m, "tile_n": tile_n, "measured": result})
                sweeps.report(label, f"{tile_m} x {tile_n}", result)
            best = min(times, key=times.get)
            suggested = suggest(program, descriptor, sizes)
            loss = f"{times[suggested] / times[best] - 1:+.1%}" if suggested in times else "not timed"
            print(f"{label} suggested {suggested[0]} x {suggested[1]}: {loss} beside {best[0]} x {best[1]}",
                  file=sys.stderr)
    sweeps.write(rows)


if __name__ == "__main__":
    main()
