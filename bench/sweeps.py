"""What sweeps share: one measurement by the program, and the list of all on standard output."""

import json
import subprocess
import sys


def numbers(sizes):
    """As the command line takes them."""
    return ",".join(f"{name}={value}" for name, value in sizes.items())


def run(program, *arguments):
    """What the program prints, or None after what it says of a failure; descriptors and launches that it refuses are none."""
    try:
        done = subprocess.run([program, *arguments], capture_output=True, text=True)
    except OSError as error:
        sys.exit(f"{program}: {error.strerror}")
    if done.returncode == 0:
        return done.stdout
    if done.returncode != 2:
        print(f"{' '.join(arguments)}: {done.stderr.strip()}", file=sys.stderr)
    return None


def measure(program, descriptor, sizes):
    """The benchmark's JSON object, or None."""
    printed = run(program, "run", descriptor, "--random", numbers(sizes), "--bench", "--json")
    return None if printed is None else json.loads(printed)["bench"]


def report(label, choice, result):
    """One line of the table, as it is measured."""
    print(f"{label} {choice:14} {result['microseconds']:8.1f} us {result['floor_share']:4.0%}", file=sys.stderr)


def write(rows):
    """All rows as JSON, a line each."""
    if not rows:
        sys.exit("nothing was measured: every descriptor or launch was refused, or failed")
    print("[" + ",\n".join(json.dumps(row) for row in rows) + "]")
