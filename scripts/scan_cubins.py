#!/usr/bin/env python3
"""Searches cubins for code that ptxas is known to compile wrongly.

    scripts/scan_cubins.py NVDISASM FOLDER

CUDA 13.0's ptxas makes one VIMNMX.RELU of max(0, min(a, b)) and of a comparison of the result with a or b. The predicate
of that instruction compares before it clamps, so the comparison is wrong for negative numbers. The script disassembles
every *.cubin of the folder, names each kernel that has such an instruction, and fails if there is one, or no cubin.
The source must compare before it clamps, as StageTokens::rows does.
"""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# The instruction writes two predicates behind its result; PT stands for none.
CLAMP = re.compile(r"\bVIMNMX(?:\.\w+)*\.RELU(?:\.\w+)* +U?R\w+, *(U?P\w+), *(U?P\w+),")


def wrong_instructions(code: str) -> list[str]:
    """The lines of a disassembly that clamp a number and write a predicate."""
    found = ((CLAMP.search(line), line) for line in code.splitlines())
    return [line.strip() for match, line in found if match and match.groups() != ("PT", "PT")]


def main() -> int:
    disassembler, folder = sys.argv[1:]
    cubins = sorted(Path(folder).glob("*.cubin"))

    def scan(cubin: Path) -> list[str]:
        return wrong_instructions(subprocess.run([disassembler, "-c", cubin], check=True, capture_output=True, text=True).stdout)

    with ThreadPoolExecutor() as pool:
        wrong = {cubin: lines for cubin, lines in zip(cubins, pool.map(scan, cubins)) if lines}
    for cubin, lines in wrong.items():
        print(f"{cubin.name}: ptxas compares a clamped number wrongly: {lines[0]}")
    print(f"{len(cubins)} cubins scanned, {len(wrong)} with a wrong comparison")
    return 0 if cubins and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
