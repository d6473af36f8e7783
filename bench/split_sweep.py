#!/usr/bin/env python3
"""How many splits: what a launch may ask for, beside what cubit chooses.

bench/split_sweep.py PROGRAM [DESCRIPTOR] > sweep.json
Needs a GPU. Prints a table to standard error. The choice is that of ops/gqa_decode/split.cpp, whose constants this is for;
the default descriptor is INT4 with 4 groups in family sm90.
"""

import json
import subprocess
import sys

DESCRIPTOR = "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,family=sm90"
BATCHES = [1, 8, 16, 32, 64, 128, 256]
CONTEXT = 8192
CHOICES = [{}] + [{"splits": splits} for splits in (1, 2, 4, 8, 16, 33, 64)]


def measure(program, descriptor, batch, choice):
    """The benchmark's JSON object, or None where the launch is refused."""
    sizes = {"batch": batch, "context": CONTEXT, "kv_heads": 1, **choice}
    numbers = ",".join(f"{name}={value}" for name, value in sizes.items())
    done = subprocess.run([program, "run", descriptor, "--random", numbers, "--bench", "--json"],
                          capture_output=True, text=True)
    if done.returncode == 2:
        return None
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)["bench"]


def name_of(choice):
    return str(choice["splits"]) if choice else "cubit's"


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    descriptor = sys.argv[2] if len(sys.argv) == 3 else DESCRIPTOR
    rows = []
    for batch in BATCHES:
        for choice in CHOICES:
            result = measure(sys.argv[1], descriptor, batch, choice)
            if result is None:
                continue
            rows.append({"batch": batch, "context": CONTEXT, "choice": name_of(choice), "measured": result})
            print(f"B={batch:<4} {name_of(choice):14} {result['microseconds']:8.1f} us {result['floor_share']:4.0%}",
                  file=sys.stderr)
    json.dump(rows, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
