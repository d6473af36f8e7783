#!/usr/bin/env python3
"""Times w8a8_gemm and its peers in one process, over sizes.

  bench/peers/byte_sweep.py path/to/cubit --output sweep.json [--only TEXT] [--rounds 7] [--time-limit 300]

int8: cubit's fp16 outputs with a scale per token and per channel and a bias, against cuBLASLt's s8 outputs with one
scale (the best of its candidates) and cuBLASLt's s32 outputs (torch._int_mm). e4m3: cubit against torch._scaled_mm by
rows, with and without use_fast_accum. Each cell alternates the contenders over rounds. A round is the median of up to 3
replays of a CUDA graph whose launches use copies of the tensors that together exceed the L2 cache. Before a cell is
timed, cubit's outputs are compared with a product in double precision.

The file is written after each cell. Needs torch.
"""

import argparse
import ctypes
import gc
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import cublas_lt
import cubit_library
import gemm_sweep
import measure
import results
import sweep_cells
from cubit_library import sized
from graph import Graph

SQUARE = 8192
INT8 = "w8a8_gemm:bias=true"
# (descriptor, m, n, k)
CELLS = ([(INT8, m, SQUARE, SQUARE) for m in (8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 1)]
         + [(INT8, 4096, 4096, 4096), (INT8, 2048, 1920, 1920)]
         + [(f"w8a8_gemm:{fields}", SQUARE, SQUARE, SQUARE) for fields in ("output=int8", "output=int32")]
         + [(f"w8a8_gemm:element=fp8_e4m3,output=bf16{fields}", size, size, size)
            for size in (8192, 4096) for fields in ("", ",accumulate=promoted")])
MOST_ERROR = {"fp16": 3e-4, "bf16": 1.2e-2}  # relative to the norm of a row; e4m3 with accumulate=fast included


class ByteGemmArguments(ctypes.Structure):
    """cubit_w8a8_gemm_arguments"""

    operator = "w8a8_gemm"
    _fields_ = [("size", ctypes.c_size_t),
                *((name, ctypes.c_void_p) for name in ("activations", "weights", "activation_scales", "weight_scales",
                                                       "output_scale", "bias", "residual", "output")),
                *((name, ctypes.c_int64) for name in ("activation_stride", "residual_stride", "output_stride")),
                *((name, ctypes.c_int32) for name in ("m", "n", "k", "decomposition", "splits", "constant_weights")),
                *((name, ctypes.c_void_p) for name in ("activation_zeros", "weight_sums", "second_scale",
                                                       "second_output")),
                ("second_stride", ctypes.c_int64)]


def name_of(descriptor, m, n, k):
    return f"{descriptor} M={m} N={n} K={k}"


class Cell:
    """The tensors of one case, in copies that together exceed the L2 cache."""

    def __init__(self, torch, descriptor, m, n, k, facts):
        self.descriptor, self.m, self.n, self.k = descriptor, m, n, k
        self.is_fp8 = "fp8" in descriptor
        bytes_read = m * k + n * k
        count = results.copies_for(bytes_read, bytes_read, facts["l2_bytes"], facts["memory_bytes"])
        self.tensors = [(self._bytes(torch, m, k), self._bytes(torch, n, k)) for _ in range(count)]
        self.token_scales = torch.rand(m, device="cuda") * 1e-3 + 1e-4
        self.channel_scales = torch.rand(n, device="cuda") * 1e-3 + 1e-4
        self.bias = torch.randn(n, device="cuda", dtype=torch.half)
        self.output_scale = torch.ones(1, device="cuda")
        kind = {"output=int8": torch.int8, "output=int32": torch.int32, "output=bf16": torch.bfloat16}
        self.output_type = next((kind[field] for field in kind if field in descriptor), torch.half)
        self.output = torch.empty(m, n, device="cuda", dtype=self.output_type)

    def _bytes(self, torch, rows, k):
        if self.is_fp8:
            return torch.randn(rows, k, device="cuda", dtype=torch.half).to(torch.float8_e4m3fn)
        return torch.randint(-128, 128, (rows, k), dtype=torch.int8, device="cuda")

    def check(self, torch):
        """The relative error of the rows in `output`; raises WrongResult."""
        rows = torch.linspace(0, self.m - 1, min(self.m, sweep_cells.CHECKED_ROWS), device="cuda").long().unique()
        activations, weights = self.tensors[0]
        sums = activations[rows].double() @ weights.double().t()
        if self.output_type == torch.int32:
            expected = sums
        else:
            expected = sums * self.token_scales[rows, None].double() * self.channel_scales.double()
        if "bias=true" in self.descriptor:
            expected = expected + self.bias.double()
        got = self.output[rows].double()
        if self.output_type == torch.int8:
            wrong = (got - expected.round().clamp(-128, 127)).abs().max().item()
            most = 1  # ties of fp32
        else:
            wrong = ((got - expected).norm() / expected.norm()).item()
            most = 0 if self.output_type == torch.int32 else MOST_ERROR["bf16" if self.is_fp8 else "fp16"]
        if not wrong <= most:
            raise gemm_sweep.WrongResult(f"wrong result: error {wrong:.1e}")
        return wrong


def cubit_launches(torch, kernel, cell, workspace):
    """`workspace`: a list with one tensor, which grows."""
    kernel.prepare()
    pointers = {"bias": cell.bias, "activation_scales": cell.token_scales, "weight_scales": cell.channel_scales,
                "output_scale": cell.output_scale}
    if "bias=true" not in cell.descriptor:
        del pointers["bias"]
    if cell.output_type != torch.int8:
        del pointers["output_scale"]
    if cell.output_type == torch.int32:
        pointers = {}
    arguments = [sized(ByteGemmArguments, activations=activations.data_ptr(), weights=weights.data_ptr(),
                       output=cell.output.data_ptr(), activation_stride=cell.k, output_stride=cell.n, m=cell.m,
                       n=cell.n, k=cell.k, **{name: tensor.data_ptr() for name, tensor in pointers.items()})
                 for activations, weights in cell.tensors]
    needed = kernel.workspace_bytes(arguments[0])
    if needed > len(workspace[0]):
        workspace[0] = torch.zeros(needed, dtype=torch.uint8, device="cuda")
    return gemm_sweep.launchers(torch, kernel, arguments, workspace[0])


def lt_launches(torch, cell, has_bytes):
    """The fastest candidate of cuBLASLt."""
    product = cublas_lt.Product(torch, cell.m, cell.n, cell.k, has_bytes)
    output = torch.empty(cell.m, cell.n, device="cuda", dtype=torch.int8 if has_bytes else torch.int32)
    of = lambda algorithm: [lambda pair=pair: product.launch(algorithm, *pair, output) for pair in cell.tensors]
    times = []
    for index, algorithm in enumerate(product.algorithms):
        try:
            times.append((Graph(torch, of(algorithm)).replay_round(), index))
        except RuntimeError:  # a candidate that does not run
            continue
    torch.cuda.synchronize()
    best = min(times, key=lambda one: one[0]())[1]
    return of(product.algorithms[best])


def scaled_mm_launches(torch, cell, is_fast):
    scales = cell.token_scales[:, None], cell.channel_scales[None, :]
    return [lambda a=a, w=w: torch._scaled_mm(a, w.t(), *scales, out_dtype=torch.bfloat16, use_fast_accum=is_fast)
            for a, w in cell.tensors]


def peers_of(torch, cell):
    """Functions that make a peer's launches."""
    if cell.is_fp8:
        is_fast = "promoted" not in cell.descriptor
        return {f"torch._scaled_mm, use_fast_accum={is_fast}": lambda: scaled_mm_launches(torch, cell, is_fast)}
    return {"cuBLASLt s8 to s8, one scale": lambda: lt_launches(torch, cell, True),
            "cuBLASLt s8 to s32": lambda: lt_launches(torch, cell, False)}


def measure_cell(torch, library, device, case, facts, rounds, workspace):
    cell = Cell(torch, *case, facts)
    kernel = library.kernel(cell.descriptor, device["architecture"])
    launches = cubit_launches(torch, kernel, cell, workspace)
    launches[0]()
    torch.cuda.synchronize()
    entry = {**facts, "name": name_of(*case), "descriptor": cell.descriptor, "m": cell.m, "n": cell.n, "k": cell.k,
             "copies": len(cell.tensors), "relative_error": cell.check(torch), "skipped": {}}
    graphs = {sweep_cells.CUBIT: Graph(torch, launches)}
    for name, make in peers_of(torch, cell).items():
        try:
            graphs[name] = Graph(torch, make())
        except Exception as error:  # a peer that fails must not end the run of the others
            entry["skipped"][name] = gemm_sweep.reason(torch, error)
    reads = sweep_cells.alternate({name: graph.replay_round for name, graph in graphs.items()}, rounds)
    torch.cuda.synchronize()
    entry["rounds"] = {name: [read() for read in of_name] for name, of_name in reads.items()}
    entry["microseconds"] = {name: results.median(of_name) for name, of_name in entry["rounds"].items()}
    own = entry["rounds"][sweep_cells.CUBIT]
    entry["ratios"] = {name: sweep_cells.ratio(own, of_name) for name, of_name in entry["rounds"].items()
                       if name != sweep_cells.CUBIT}
    return entry


def main():
    begin = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the program cubit; libcubit of the same build is measured")
    parser.add_argument("--output", required=True, help="the JSON file to write")
    parser.add_argument("--library", help="libcubit.so; default: next to the program")
    parser.add_argument("--only", default="", help="cells whose name contains this")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--time-limit", type=float, default=float("inf"), metavar="SECONDS")
    options = parser.parse_args()
    import torch

    torch.cuda.init()
    torch.manual_seed(1)
    gc.collect()
    gc.freeze()
    library = cubit_library.Library(options.library or gemm_sweep.library_of(options.program))
    library.check_arguments(ByteGemmArguments)
    device = library.devices()[0]
    facts = {**measure.facts_of(torch), "driver": device["driver_version"], "arch": device["architecture"],
             "commit": gemm_sweep.commit_of(options.program)}
    torch.mm(*(torch.ones(16, 16, device="cuda", dtype=torch.half) for _ in range(2)))  # loads cuBLASLt
    entries, workspace = [], [torch.zeros(cubit_library.ZEROED_WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")]
    chosen = [case for case in CELLS if options.only in name_of(*case)]
    with ThreadPoolExecutor() as pool:  # compiles every kernel before anything is timed
        list(pool.map(lambda descriptor: library.kernel(descriptor, device["architecture"]), {one[0] for one in chosen}))
    print(f"{time.monotonic() - begin:6.1f} s  compiled", flush=True)
    for case in chosen:
        name = name_of(*case)
        if time.monotonic() - begin > options.time_limit:
            break
        try:
            entry = measure_cell(torch, library, device, case, facts, options.rounds, workspace)
        except Exception as error:  # a cell that fails must not end the run
            print(f"{name}: {gemm_sweep.reason(torch, error)}", flush=True)
            continue
        entries.append(entry)
        results.write(entries, options.output)
        times = ", ".join(f"{peer} {value:.1f} us ({entry['ratios'].get(peer, 1):.3f})"
                          for peer, value in entry["microseconds"].items())
        print(f"{time.monotonic() - begin:6.1f} s  {name}: {times}", flush=True)
        torch.cuda.empty_cache()
    if len(entries) == 0:
        sys.exit("byte_sweep.py: nothing was measured")


if __name__ == "__main__":
    main()
