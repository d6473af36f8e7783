#!/usr/bin/env python3
"""Times gqa_decode with different numbers of splits, and with the number that cubit chooses.

bench/split_sweep.py PROGRAM [DESCRIPTOR] > sweep.json Needs a GPU. Prints a table to standard error. The results serve
to tune the constants of ops/gqa_decode/sm90/split.cpp, which makes the choice of family sm90. The default descriptor is
INT4 with 4 groups in family sm90.
"""

import sys

import sweeps

DESCRIPTOR = "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,family=sm90"
BATCHES = [1, 8, 16, 32, 64, 128, 256]
CONTEXT = 8192
CHOICES = [{}] + [{"splits": splits} for splits in (1, 2, 4, 8, 16, 33, 64)]


def name_of(choice):
    return str(choice["splits"]) if choice else "cubit's"


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    descriptor = sys.argv[2] if len(sys.argv) == 3 else DESCRIPTOR
    rows = []
    for batch in BATCHES:
        for choice in CHOICES:
            sizes = {"batch": batch, "context": CONTEXT, "kv_heads": 1, **choice}
            result = sweeps.measure(sys.argv[1], descriptor, sizes)
            if result is None:
                continue
            rows.append({"batch": batch, "context": CONTEXT, "choice": name_of(choice), "measured": result})
            sweeps.report(f"B={batch:<4}", name_of(choice), result)
    sweeps.write(rows)


if __name__ == "__main__":
    main()
