"""Measures what a launch from Python costs above the same launch from C, with tensors of PyTorch on a GPU.

    PYTHONPATH=build/release/python python3 bench/python_launch.py build/release/tools/cubit [--json FILE]

Roads that are compared, all with the same tensors, shapes and stream:
  c                 cubit_kernel_launch in a loop of C
  out=              kernel(query=…, out=output) through tvm-ffi
  tvm-ffi           the launch of out= without Python's part: names and the search for the launcher
  by position       kernel.positional("query", …)(query, …)
  new output        kernel(query=…), which allocates the output
  torch operator    torch.ops.cubit.gqa_decode in eager mode
  ctypes            addresses by data_ptr(), the struct by struct.pack_into, cubit_kernel_launch by ctypes
Each number is the best of several medians: microseconds of the calling thread for one call. The queue of the stream is
empty before each round and never full.
"""

import argparse
import ctypes
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import torch

import cubit
import cubit.torch
from cubit import _launch, _library
from cubit._arrays import facts_of

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench/peers"))

import gemm_sweep  # noqa: E402
import measure  # noqa: E402

DESCRIPTOR = "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4"
CALLS, ROUNDS = 100, 50
LOOP = """
#include <cubit/cubit.h>
#include <time.h>
double seconds(cubit_kernel* kernel, const void* arguments, const cubit_launch* launch, int calls) {
  struct timespec from, to;
  clock_gettime(CLOCK_MONOTONIC, &from);
  for (int i = 0; i < calls; ++i) cubit_kernel_launch(kernel, arguments, launch);
  clock_gettime(CLOCK_MONOTONIC, &to);
  return (to.tv_sec - from.tv_sec) + 1e-9 * (to.tv_nsec - from.tv_nsec);
}
"""


def microseconds(round_: Callable[[], float]) -> float:
    """The median of rounds, each of which returns the seconds of CALLS calls."""
    found = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        found.append(round_() / CALLS * 1e6)
    return statistics.median(found)


def looped(call: Callable[[], object]) -> Callable[[], float]:
    def round_() -> float:
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        return time.perf_counter() - start
    return round_


def c_loop() -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "loop.c", Path(folder) / "loop.so"
        source.write_text(LOOP, encoding="utf-8")
        library = next(iter(_library.FOLDER.glob("libcubit.so.*")))
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-I{ROOT / 'include'}", source, "-o", target, library],
                       check=True)
        loop = ctypes.CDLL(str(target))
    loop.seconds.restype = ctypes.c_double
    return loop


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures what a launch from Python costs.")
    parser.add_argument("program", type=Path, help="the program cubit of the same build, which states its commit")
    parser.add_argument("--json", type=Path, help="write the times to this file")
    options = parser.parse_args()
    tensors = {"query": torch.randn(4, 8, 128, device="cuda", dtype=torch.bfloat16),
               "key": torch.zeros(4, 64, 1, 80, device="cuda", dtype=torch.uint8),
               "value": torch.zeros(4, 64, 1, 80, device="cuda", dtype=torch.uint8),
               "lengths": torch.full((4,), 64, device="cuda", dtype=torch.int32)}
    kernel = cubit.get(DESCRIPTOR)
    output = kernel(**tensors)
    query, key, value, lengths = tensors.values()
    table, device = kernel.table, _library.device("cuda:0")
    handle = _library.kernel(table.descriptor, _launch.architecture_of("cuda:0"))
    plan = table.plan({name: facts_of(name, one) for name, one in (tensors | {"output": output}).items()}, {})
    offsets = {one.name: one.offset for one in table.tensors}
    struct = (ctypes.c_char * len(plan.struct)).from_buffer(plan.struct)
    for name, one in (tensors | {"output": output}).items():
        ctypes.c_void_p.from_buffer(plan.struct, offsets[name]).value = one.data_ptr()
    workspace = torch.zeros(max(_library.workspace_bytes(handle, bytes(struct), device), 256), device="cuda",
                            dtype=torch.uint8)
    how = _library.Launch(ctypes.sizeof(_library.Launch), device.pointer, None, workspace.data_ptr(),
                          workspace.numel(), 0)
    fields = {name: ctypes.c_void_p.from_buffer(plan.struct, offsets[name]) for name in (*tensors, "output")}
    launch = _library.library().cubit_kernel_launch
    shapes: dict[object, bool] = {}

    def by_ctypes() -> None:
        key_of_shapes = (query.shape, query.stride(), key.shape, key.stride(), value.shape, value.stride(),
                         lengths.shape, output.shape, output.stride())
        shapes.setdefault(key_of_shapes, True)
        fields["query"].value, fields["key"].value = query.data_ptr(), key.data_ptr()
        fields["value"].value, fields["lengths"].value = value.data_ptr(), lengths.data_ptr()
        fields["output"].value = output.data_ptr()
        how.stream = torch._C._cuda_getCurrentRawStream(0)
        launch(handle.pointer, struct, ctypes.byref(how))

    kernel(query=query, key=key, value=value, lengths=lengths, out=output)
    launcher = kernel._launchers["query", "key", "value", "lengths", "output"]
    attend = kernel.positional("query", "key", "value", "lengths", "output")
    operator = torch.ops.cubit.gqa_decode.default
    loop = c_loop()
    roads = {
        "c": lambda: loop.seconds(handle.pointer, struct, ctypes.byref(how), CALLS),
        "out=": looped(lambda: kernel(query=query, key=key, value=value, lengths=lengths, out=output)),
        "tvm-ffi": looped(lambda: launcher.function(launcher.handle, 0, query, key, value, lengths, output)),
        "by position": looped(lambda: attend(query, key, value, lengths, output)),
        "new output": looped(lambda: kernel(query=query, key=key, value=value, lengths=lengths)),
        "torch operator": looped(lambda: operator(DESCRIPTOR, query=query, key=key, value=value, lengths=lengths)),
        "ctypes": looped(by_ctypes),
        "torch.empty alone": looped(lambda: torch.empty(4, 8, 128, device="cuda", dtype=torch.bfloat16)),
    }
    best = {name: min(microseconds(road) for _ in range(3)) for name, road in roads.items()}
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {DESCRIPTOR}")
    for name, one in best.items():
        print(f"{name:18} {one:6.2f} us, above c {one - best['c']:6.2f} us")
    if options.json:
        facts = {**measure.facts_of(torch), "tvm_ffi": version("apache-tvm-ffi"),
                 "commit": gemm_sweep.commit_of(options.program), "descriptor": DESCRIPTOR}
        entries = [{**facts, "name": name, "microseconds": one} for name, one in best.items()]
        options.json.write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
