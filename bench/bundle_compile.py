#!/usr/bin/env python3
"""Measures how a bundle is compiled: kernels per second, busy cores, CPU time outside of NVRTC, and the file's size.

bench/bundle_compile.py PROGRAM TIMER NVRTC [--list FILE] [--arch NAMES] [--jobs N] [--shard I/N] [--ptx] > RESULT.json

PROGRAM is cubit, TIMER is libnvrtc_timer.so of the build folder, and NVRTC is the real library. The list is that of
Llama-3-8B, for six architectures. Needs no GPU and no idle machine: times that threads waited for a core are reported
by themselves. Linux only. The object has these members:

  kernels_per_second        entries of the bundle by the wall time of the command
  cpu_share_outside_nvrtc   1 - nvrtc_cpu_seconds / cpu_seconds
  cores_busy                cpu_seconds / (wall_seconds * jobs)
  cores_wanted              as cores_busy, with the time that runnable threads waited for a core: what an idle machine
                            would show. Read every 50 ms, so the ends of threads are missed.
  bundle_bytes, ptx_bytes   the size of the file, and the compressed PTX in it
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ARCHITECTURES = "sm_80,sm_86,sm_89,sm_90a,sm_100a,sm_120"
NANO = 1e-9


def waits_of_threads(process, waits):
    """Updates the seconds that each thread of the process has waited for a core."""
    for task in Path(f"/proc/{process}/task").glob("*/schedstat"):
        try:
            waits[task.parent.name] = int(task.read_text().split()[1]) * NANO
        except (OSError, IndexError):  # the thread has ended
            pass


def run_and_measure(command, environment):
    """Runs the command. Returns its wall, CPU and waiting times, in seconds."""
    waits = {}
    start = time.monotonic()
    child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    while True:
        process, status, usage = os.wait4(child.pid, os.WNOHANG)
        if process:
            break
        waits_of_threads(child.pid, waits)
        time.sleep(0.05)
    wall = time.monotonic() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(command)}: exit code {child.returncode}")
    return wall, usage.ru_utime + usage.ru_stime, sum(waits.values())


def options_of(arguments):
    options = ["--file", arguments.list, "--arch", arguments.arch, "--jobs", str(arguments.jobs)]
    options += ["--shard", arguments.shard] if arguments.shard else []
    return options + (["--ptx"] if arguments.ptx else [])


def measure(arguments):
    with tempfile.TemporaryDirectory() as folder:
        bundle, times = f"{folder}/made.cubit", f"{folder}/times.json"
        places = [os.path.dirname(arguments.nvrtc), os.environ.get("LD_LIBRARY_PATH", "")]  # its builtins lie beside it
        environment = dict(os.environ, LD_LIBRARY_PATH=":".join(filter(None, places)), CUBIT_CACHE_DIR="", CUBIT_BUNDLES="", CUBIT_SYSTEM_CACHES="",
                           CUBIT_NVRTC=arguments.timer, NVRTC_TIMER_LIBRARY=arguments.nvrtc, NVRTC_TIMER_OUTPUT=times)
        command = [arguments.program, "compile", *options_of(arguments), "--bundle", bundle]
        wall, cpu, waiting = run_and_measure(command, environment)
        nvrtc = json.loads(Path(times).read_text())
        listed = subprocess.run([arguments.program, "bundle", "list", bundle, "--json"], check=True,
                                capture_output=True)
        rows = json.loads(listed.stdout)
        size = os.path.getsize(bundle)
    commit = subprocess.run([arguments.program, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    return {"cubit": commit, "cores": os.cpu_count(), "jobs": arguments.jobs, "list": Path(arguments.list).name,
            "architectures": arguments.arch.split(","), "shard": arguments.shard, "ptx": arguments.ptx,
            "kernels": len(rows), "nvrtc_compiles": nvrtc["compiles"], "wall_seconds": wall, "cpu_seconds": cpu,
            "nvrtc_cpu_seconds": nvrtc["cpu_seconds"], "waiting_seconds": waiting,
            "cpu_share_outside_nvrtc": 1 - nvrtc["cpu_seconds"] / cpu,
            "cores_busy": cpu / (wall * arguments.jobs), "cores_wanted": (cpu + waiting) / (wall * arguments.jobs),
            "kernels_per_second": len(rows) / wall, "bundle_bytes": size,
            "ptx_bytes": sum(row["bytes"] for row in rows if row["code"] == "ptx")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("timer")
    parser.add_argument("nvrtc")
    parser.add_argument("--list", default=str(ROOT / "examples/llama3_8b.txt"))
    parser.add_argument("--arch", default=ARCHITECTURES)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--shard")
    parser.add_argument("--ptx", action="store_true")
    print(json.dumps(measure(parser.parse_args()), indent=2))


if __name__ == "__main__":
    main()
