"""Functions that all sweeps share: one measurement by the program, and the list of all results on standard output."""

import json
import subprocess
import sys


def numbers(sizes):
    """The sizes as an option value of the command line."""
    return ",".join(f"{name}={value}" for name, value in sizes.items())


def run(program, *arguments):
    """Returns the program's output. A failure gives None and is reported; a refused descriptor or launch is no
    failure."""
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
    """Returns the benchmark's JSON object, or None if nothing was measured."""
    printed = run(program, "run", descriptor, "--random", numbers(sizes), "--bench", "--json")
    return None if printed is None else json.loads(printed)["bench"]


def report(label, choice, result):
    """Prints one line of the table after its measurement."""
    print(f"{label} {choice:14} {result['microseconds']:8.1f} us {result['floor_share']:4.0%}", file=sys.stderr)


def write(rows):
    """Prints all rows as JSON, one line per row."""
    if not rows:
        sys.exit("nothing was measured: every descriptor or launch was refused, or failed")
    print("[" + ",\n".join(json.dumps(row) for row in rows) + "]")
