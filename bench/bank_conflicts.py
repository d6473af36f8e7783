#!/usr/bin/env python3
"""Compares three counts of bank conflicts: the plan's proof, the CPU device's counters, and a GPU profiler's counters.

bench/bank_conflicts.py PROGRAM > bench/results/bank_conflicts_h200.json
PROGRAM is cubit, with libcubit_cpu in the folder of its library. ncu must have permission to read the GPU's counters.
Each count is the number of shared-memory wavefronts per request of an instruction, because devices choose different
splits, and the number of requests depends on the splits.
"""

import csv
import io
import json
import re
import subprocess
import sys

SIZES = "batch=4,context=1024,kv_heads=2"
DESCRIPTORS = [
    "gqa_decode:heads_per_kv=8",
    "gqa_decode:heads_per_kv=3,head_dim=64,query=fp16,output=fp16,kv=fp16",
    "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4",
    "gqa_decode:heads_per_kv=8,kv=int4_rows",
]
# Kinds of access, each with patterns for the profiler's instructions and for PTX. Loads through generic pointers may
# also read global memory.
KINDS = {
    "cp.async": (r"LDGSTS", r"cp\.async"),
    "ldmatrix.x4": (r"LDSM\.16\.M88\.4", r"ldmatrix\S*\.x4\.shared"),
    "ldmatrix.x4.trans": (r"LDSM\.16\.MT88\.4", r"ldmatrix\S*\.x4\.trans"),
    "ldmatrix.x2": (r"LDSM\.16\.M88\.2", r"ldmatrix\S*\.x2\.shared"),
    "ldmatrix.x2.trans": (r"LDSM\.16\.MT88\.2", r"ldmatrix\S*\.x2\.trans"),
    "loads of 16 bytes": (r"LDS\.128", r"ld\.shared\.v4"),
    "stores of 16 bytes": (r"STS\.128", r"st\.shared\.v4"),
    "stores of 4 bytes": (r"STS$", r"st\.(volatile\.)?shared\.[bfsu]\d+"),
}


def run(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def profiled(program, descriptor):
    """{kind: [requests, wavefronts]} from ncu's source counters."""
    text = run(["ncu", "--clock-control", "none", "--set", "none", "--section", "SourceCounters", "--page", "source",
                "--csv", "--print-source", "sass", program, "run", descriptor, "--random", SIZES])
    lines = text.splitlines()
    header = next(i for i, line in enumerate(lines) if line.startswith('"Address"'))
    counts = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines[header:]))):
        words = [word for word in row["Source"].split() if not word.startswith("@")]
        wavefronts = float((row["L1 Wavefronts Shared"] or "0").replace(",", ""))
        for kind, (sass, _) in KINDS.items():
            if words and wavefronts and re.match(sass, words[0]):
                count = counts.setdefault(kind, [0, 0])
                count[0] += int(float(row["Instructions Executed"].replace(",", "")))
                count[1] += int(wavefronts)
    return counts


def counted(program, descriptor):
    """{kind: [requests, wavefronts]} from the CPU device's counters."""
    text = run([program, "run", descriptor, "--random", SIZES, "--device", "cpu", "--arch", "sm_90a", "--counters",
                "--json"])
    counts = {}
    for launch in json.loads(text)["counters"]:
        for site in launch["shared"]:
            for kind, (_, ptx) in KINDS.items():
                if re.match(ptx, site["opcode"]):
                    count = counts.setdefault(kind, [0, 0])
                    count[0] += site["requests"]
                    count[1] += site["wavefronts"]
    return counts


def commit_of(program):
    """The commit of the program, from its version text: "cubit 0.1.0 (0123456789ab)"."""
    return re.search(r"\((.*)\)", run([program, "--version"])).group(1)


def main():
    program = sys.argv[1]
    devices = json.loads(run([program, "devices", "--json"]))["devices"]
    result = {"device": devices[0]["description"], "driver": devices[0]["driver_version"], "commit": commit_of(program),
              "profiler": run(["ncu", "--version"]).splitlines()[-1], "sizes": SIZES, "cases": []}
    for descriptor in DESCRIPTORS:
        gpu, cpu = profiled(program, descriptor), counted(program, descriptor)
        rows = [{"access": kind, "cpu_requests": cpu[kind][0], "cpu_wavefronts": cpu[kind][1],
                 "gpu_requests": gpu[kind][0], "gpu_wavefronts": gpu[kind][1],
                 "cpu_per_request": round(cpu[kind][1] / cpu[kind][0], 3),
                 "gpu_per_request": round(gpu[kind][1] / gpu[kind][0], 3)}
                for kind in KINDS if kind in cpu and kind in gpu]
        result["cases"].append({"descriptor": descriptor, "accesses": rows})
    json.dump(result, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
