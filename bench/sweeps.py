"""What sweeps share: one measurement by the program, and the list of all on standard output."""

import json
import subprocess
import sys


def numbers(sizes):
    """As the command line takes them."""
    return ",".join(f"{name}={value}" for name, value in sizes.items())


def measure(program, descriptor, sizes):
    """The benchmark's JSON object, or None where descriptor or launch are refused."""
    done = subprocess.run([program, "run", descriptor, "--random", numbers(sizes), "--bench", "--json"],
                          capture_output=True, text=True)
    if done.returncode == 2:
        return None
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)["bench"]


def report(label, choice, result):
    """One line of the table, as it is measured."""
    print(f"{label} {choice:14} {result['microseconds']:8.1f} us {result['floor_share']:4.0%}", file=sys.stderr)


def write(rows):
    """All rows as JSON."""
    json.dump(rows, sys.stdout, indent=1)
    print()
