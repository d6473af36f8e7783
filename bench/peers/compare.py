#!/usr/bin/env python3
"""Prints cubit and its peers as one table: compare.py FILE.json…

The files come from measure.py and `cubit bench --json`.
"""

import json
import sys

import results


def main(paths):
    if not paths:
        sys.exit(__doc__)
    entries = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            entries += json.load(file)
    if any("name" not in entry for entry in entries):
        sys.exit("compare.py: an entry has no case name; write the file with cubit bench gqa_decode --json FILE")
    print(results.table(entries))


if __name__ == "__main__":
    main(sys.argv[1:])
