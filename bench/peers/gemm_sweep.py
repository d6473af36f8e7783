#!/usr/bin/env python3
"""Times w4a16_gemm, cuBLAS with fp16 weights and Humming in one process, over layer shapes and batch sizes.

  bench/peers/gemm_sweep.py path/to/cubit --output sweep.json [--svg sweep.svg] [--suggest] [--time-limit 300]

Each cell alternates the contenders over rounds. A round is the median of up to 3 replays of a CUDA graph of at least
about 800 us, whose launches use copies of the weights that together exceed the L2 cache. All contenders multiply by the
same weights: random 4-bit GPTQ words whose zeros are all 8. With --descriptor w4a16_gemm:format=dense cubit has the same
fp16 weights as cuBLAS. Before a cell is timed, its outputs are compared with an
fp32 product.

The file is written after each cell. A second run with the same file measures the cells that the file lacks. Needs
torch; Humming is measured if it is installed.
"""

import argparse
import contextlib
import gc
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import cubit_library
import measure
import results
import sweep_cells
import sweep_picture
from cubit_library import GemmArguments, Launch, StreamReadArguments, sized
from graph import Graph

MOST_ERROR = 2e-3  # of an fp16 output, relative to the norm of the fp32 product
# Fields that change a kernel's speed and not what it computes. All others would need other weights.
SPEED_FIELDS = {"tile_m", "tile_n", "family", "batch_invariant", "atomic_splits"}


class WrongResult(Exception):
    pass


def random_weights(torch, shape):
    """Makes the GPTQ tensors of one layer. GPTQ stores a zero minus one, so that nibbles of 7 are zeros of 8."""
    words = torch.randint(-(2**31), 2**31 - 1, (shape.k // 8, shape.n), dtype=torch.int32, device="cuda")
    groups = shape.k // sweep_cells.GROUP
    zeros = torch.full((groups, shape.n // 8), 0x77777777, dtype=torch.int32, device="cuda")
    scales = (torch.rand(groups, shape.n, device="cuda") * 0.01 + 0.005).half()
    return SimpleNamespace(words=words, zeros=zeros, scales=scales)


def dequantised(torch, weights):
    """The weights [k, n] in fp32."""
    shifts = torch.arange(8, device="cuda", dtype=torch.int32) * 4
    nibbles = ((weights.words[:, None, :] >> shifts[None, :, None]) & 15).reshape(-1, weights.words.shape[1])
    return (nibbles - 8).float() * weights.scales.float().repeat_interleave(sweep_cells.GROUP, 0)


def rows_of(dense):
    """The weights [n, k] in fp16, as torch.nn.Linear stores them."""
    return dense.half().t().contiguous()


def copies_of(tensors, count):
    """`count` lists of clones of the tensors. Clones of the same numbers are enough, because caches hold addresses."""
    return [[tensor.clone() for tensor in tensors] for _ in range(count)]


class Cubit:
    def __init__(self, torch, library, device, overlap, is_dense=False):
        self._is_dense = is_dense
        self._torch = torch
        self._library = library
        self._architecture = device["architecture"]
        self._overlap = overlap
        self._kernels = {}
        self._workspace = torch.zeros(cubit_library.ZEROED_WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")

    def kernel(self, descriptor):
        if descriptor not in self._kernels:
            self._kernels[descriptor] = self._library.kernel(descriptor, self._architecture)
        return self._kernels[descriptor]

    def load(self, _shape, weights, dense, count):
        tensors = (rows_of(dense),) if self._is_dense else (weights.words, weights.zeros, weights.scales)
        self._copies = copies_of(tensors, count)

    def unload(self):
        self._copies = None

    def launches(self, cell, x, y, count):
        kernel = self.kernel(cell.descriptor)
        kernel.prepare()
        members = ("weight",) if self._is_dense else ("qweight", "qzeros", "scales")
        arguments = [
            sized(GemmArguments, activations=x.data_ptr(), output=y.data_ptr(), activation_stride=cell.k,
                  output_stride=cell.n, m=cell.m, n=cell.n, k=cell.k,
                  **{member: tensor.data_ptr() for member, tensor in zip(members, tensors)})
            for tensors in self._copies[:count]]
        needed = kernel.workspace_bytes(arguments[0])
        if needed > len(self._workspace):
            self._workspace = self._torch.zeros(needed, dtype=self._torch.uint8, device="cuda")
        return launchers(self._torch, kernel, arguments, self._workspace, self._overlap)


def launchers(torch, kernel, arguments, workspace=None, overlap=False):
    """Functions that launch the kernel on torch's current stream, one for each arguments struct."""
    where = sized(Launch, overlap=int(overlap))
    if workspace is not None:
        where.workspace, where.workspace_bytes = workspace.data_ptr(), len(workspace)

    def launch(one):
        where.stream = torch.cuda.current_stream().cuda_stream
        kernel.launch(one, where)

    return [lambda one=one: launch(one) for one in arguments]


class Cublas:
    def __init__(self, torch):
        self._torch = torch

    def load(self, _shape, _weights, dense, count):
        self._copies = copies_of((rows_of(dense),), count)

    def unload(self):
        self._copies = None

    def launches(self, _cell, x, y, count):
        return [lambda weights=weights: self._torch.matmul(x, weights.t(), out=y)
                for weights, in self._copies[:count]]


class Humming:
    """Humming's layer for the same GPTQ tensors. Humming reads no zeros of a symmetric checkpoint."""

    CONFIG = {"quant_method": "gptq", "bits": 4, "group_size": sweep_cells.GROUP, "sym": True, "desc_act": False}

    def __init__(self, torch, rows):
        self._torch = torch
        self._rows = rows

    def _tuning(self, config):
        """Humming's own choice of kernels for all batch sizes, without the kernels that no row of the sweep uses. Its
        launcher always looks up a kernel for one row."""
        from humming.tune import get_heuristics_config

        intervals = get_heuristics_config(config)
        return json.dumps([each for each in intervals if any(each[0] < m <= each[1] for m in {1, *self._rows})])

    def compile(self, shape):
        """Compiles the kernels of the shape into Humming's cache, in threads of Humming."""
        from humming.kernel.humming import HummingKernel
        from humming.schema import BaseWeightSchema
        from humming.transform import prepare_layer_config

        half = self._torch.half
        schema = BaseWeightSchema.from_config(dict(self.CONFIG)).to_humming_schema(half)
        config = prepare_layer_config(shape.n, shape.k, schema, torch_dtype=half)
        HummingKernel.prepare_kernels(config.to_str(), None, self._tuning(config))

    def load(self, shape, weights, _dense, count):
        from humming.layer import HummingLayer

        with self._torch.device("cuda"):
            layer = HummingLayer(shape_n=shape.n, shape_k=shape.k, weight_config=dict(self.CONFIG),
                                 torch_dtype=self._torch.half)
        layer.load_from_tensors({"qweight": weights.words, "qzeros": weights.zeros, "scales": weights.scales})
        layer.transform()
        self._config = layer.humming_config
        self._chosen = self._tuning(self._config)
        self._copies = copies_of((layer.weight.data, layer.weight_scale.data, layer.locks), count)

    def unload(self):
        self._copies = None

    def launches(self, _cell, x, y, count):
        from humming.forward import humming_forward

        return [lambda weight=weight, scale=scale, locks=locks: humming_forward(
            self._config, inputs=x, weight=weight, weight_scale=scale, locks=locks, outputs=y,
            tuning_config=self._chosen) for weight, scale, locks in self._copies[:count]]


class ReadFloor:
    """The time of a plain read of the bytes that cubit reads: the best of 2, 4 and 8 blocks per SM."""

    def __init__(self, torch, library, device, facts):
        self._torch = torch
        self._facts = facts
        self._checksums = torch.zeros(StreamReadArguments.slots, dtype=torch.int32, device="cuda")
        self._arena = torch.zeros(0, dtype=torch.uint8, device="cuda")
        names = [f"stream_read:blocks_per_sm={blocks}" for blocks in (2, 4, 8)]
        self._kernels = {name: library.kernel(name, device["architecture"]) for name in names}
        for kernel in self._kernels.values():
            kernel.prepare()
        self.compiler = self._kernels[names[0]].describe()["compiler"]

    def measure(self, cell):
        """(microseconds, kernel)"""
        count = cell.bytes_read() // 16 * 16
        copies = results.copies_for(count, count, self._facts["l2_bytes"], self._facts["memory_bytes"])
        if copies * count > len(self._arena):
            self._arena = None
            self._arena = self._torch.zeros(copies * count, dtype=self._torch.uint8, device="cuda")
        arguments = [sized(StreamReadArguments, source=self._arena.data_ptr() + copy * count, bytes=count,
                           checksums=self._checksums.data_ptr()) for copy in range(copies)]
        times = []
        for name, kernel in self._kernels.items():
            microseconds = Graph(self._torch, launchers(self._torch, kernel, arguments)).replay_round()
            self._torch.cuda.synchronize()
            times.append((microseconds(), name))
        return min(times)


def relative_error(torch, launch, x, y, dense):
    """‖y - x · dense‖ / ‖x · dense‖ over at most CHECKED_ROWS rows of one launch."""
    rows = torch.linspace(0, len(x) - 1, min(len(x), sweep_cells.CHECKED_ROWS), device="cuda").long().unique()
    y.fill_(float("nan"))
    launch()
    expected = x[rows].float() @ dense
    error = ((y[rows].float() - expected).norm() / expected.norm()).item()
    if not error <= MOST_ERROR:  # a NaN is an error too
        raise WrongResult(f"wrong result: relative error {error:.1e}")
    return error


def reason(torch, error):
    """The text of an entry for a contender that failed. An error that leaves the device unusable ends the run."""
    torch.cuda.synchronize()
    if isinstance(error, ImportError):
        return "not installed"
    return str(error) if isinstance(error, WrongResult) else f"failed: {measure.first_line(error)}"


class Sweep:
    """Measures cells on torch's device."""

    def __init__(self, torch, contenders, floor, facts, rounds, descriptor=""):
        self._torch = torch
        self._descriptor = descriptor
        self._contenders = contenders
        self._floor = floor
        self._facts = facts
        self._rounds = rounds

    def load(self, shape, rows):
        """Makes the tensors of a shape."""
        torch = self._torch
        self._reasons = {}
        self._x = torch.randn(max(rows), shape.k, device="cuda", dtype=torch.half)
        self._y = torch.empty(max(rows), shape.n, device="cuda", dtype=torch.half)
        weights = random_weights(torch, shape)
        self._dense = dequantised(torch, weights)
        for name, contender in self._contenders.items():
            smallest = sweep_cells.cell_of(shape, min(rows), self._descriptor, name)
            try:
                contender.load(shape, weights, self._dense, sweep_cells.copies_for(smallest, self._facts))
            except Exception as error:  # a peer that fails must not end the run of the others
                self._reasons[name] = reason(torch, error)

    def unload(self):
        self._x = self._y = self._dense = None
        for contender in self._contenders.values():
            contender.unload()
        self._torch.cuda.empty_cache()

    def measure(self, shape, m, descriptor):
        """Times one cell and returns its entries."""
        torch = self._torch
        cell = sweep_cells.cell_of(shape, m, descriptor)
        x, y = self._x[:m], self._y[:m]
        graphs, measured, skipped = {}, {}, dict(self._reasons)
        for name, contender in self._contenders.items():
            if name in skipped:
                continue
            copies = sweep_cells.copies_for(sweep_cells.cell_of(shape, m, descriptor, name), self._facts)
            try:
                launches = contender.launches(cell, x, y, copies)
                accuracy = relative_error(torch, launches[0], x, y, self._dense)
                graphs[name] = Graph(torch, launches)
                measured[name] = {"relative_error": accuracy, "copies": copies, "launches": graphs[name].launches,
                                  "replays": graphs[name].replays}
            except Exception as error:  # as above
                skipped[name] = reason(torch, error)
        floor = self._floor.measure(cell)
        rounds = sweep_cells.alternate({name: graph.replay_round for name, graph in graphs.items()}, self._rounds)
        torch.cuda.synchronize()
        for name, reads in rounds.items():
            measured[name]["rounds"] = [read() for read in reads]
        return sweep_cells.entries_of(cell, self._facts, floor, measured, skipped)


def run(chosen, entries, sweep, descriptor_of, path, clock, deadline):
    """Measures the chosen cells until the deadline, and writes all entries to `path` after each cell. Stops before a
    cell that would end too late if it took as long as the slowest one. Returns whether all cells were measured."""
    slowest = 0
    for shape, rows in chosen:
        loaded = False
        for m in rows:
            begin = clock()
            if begin + slowest > deadline:
                return False
            if not loaded:
                sweep.load(shape, rows)
                loaded = True
            entries += sweep.measure(shape, m, descriptor_of(shape, m))
            results.write(entries, path)
            slowest = max(slowest, clock() - begin)
        sweep.unload()
        print(f"{clock():6.1f} s  {shape.label()}: {len(rows)} cells", file=sys.stderr, flush=True)
    return True


def compile_all(cubit, humming, descriptors, shapes):
    """Compiles every kernel before anything is timed, in parallel. A failure shows again when the kernel is used, and
    becomes the reason of that cell's entry."""

    def attempt(function, argument):
        with contextlib.suppress(Exception):
            function(argument)

    with ThreadPoolExecutor(os.cpu_count()) as pool, ThreadPoolExecutor(2) as shapes_pool:
        for descriptor in descriptors:
            pool.submit(attempt, cubit.kernel, descriptor)
        for shape in shapes:
            shapes_pool.submit(attempt, humming.compile, shape)


def known_entries(path, facts):
    """The entries of an earlier run with the same file, which must come from the same device and commit."""
    if not Path(path).exists():
        return []
    entries = json.loads(Path(path).read_text(encoding="utf-8"))
    for entry in entries:
        for fact in ("device", "commit"):
            if fact in entry and entry[fact] != facts[fact]:
                sys.exit(f"{path}: its cells have {fact} {entry[fact]} and this run has {facts[fact]}; "
                         "give another file")
    return entries


def commit_of(program):
    """The commit in "cubit 0.1.0 (368b384bb5a0)"."""
    text = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
    return text.split("(")[-1].rstrip(")\n")


def library_of(program):
    """libcubit of the build or installation that holds the program."""
    root = Path(program).resolve().parent.parent
    candidates = [root / folder / "libcubit.so" for folder in ("capi", "lib", "lib64")]
    return str(next((path for path in candidates if path.exists()), candidates[0]))


def only_speed_fields(descriptor):
    fields = [field for field in descriptor.partition(":")[2].split(",") if field and field != "format=dense"]
    others = {field.partition("=")[0] for field in fields} - SPEED_FIELDS
    if not descriptor.startswith("w4a16_gemm") or others:
        raise argparse.ArgumentTypeError(f"{descriptor}: the sweep has weights for w4a16_gemm with the fields "
                                         f"{', '.join(sorted(SPEED_FIELDS))}, and for format=dense")
    return descriptor


def options_of(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the program cubit; libcubit of the same build is measured")
    parser.add_argument("--output", required=True, help="the JSON file to write or to continue")
    parser.add_argument("--svg", help="the picture to draw from all cells of the file")
    parser.add_argument("--library", help="libcubit.so; default: next to the program")
    parser.add_argument("--descriptor", type=only_speed_fields, default="w4a16_gemm", help="default: w4a16_gemm")
    parser.add_argument("--suggest", action="store_true", help="take the descriptor of cubit suggest for each cell")
    parser.add_argument("--overlap", action="store_true", help="let cubit's launches begin before the previous ends")
    parser.add_argument("--shapes", metavar="NxK", nargs="+", help="default: 13 layers of Llama 3 and Qwen 3")
    parser.add_argument("--rows", metavar="M", nargs="+", type=int, default=sweep_cells.ROWS)
    parser.add_argument("--only", default="", help="cells whose layers or name (N=8192 K=8192 M=1) contain this")
    parser.add_argument("--rounds", type=int, default=7, help="alternating rounds of a cell, at least 5; default 7")
    parser.add_argument("--time-limit", type=float, default=float("inf"), metavar="SECONDS")
    options = parser.parse_args(arguments)
    if options.rounds < 5:
        parser.error("--rounds: a median ratio needs at least 5 rounds")
    if any(m < 1 for m in options.rows):
        parser.error("--rows: a number of rows is at least 1")
    try:
        shapes = [sweep_cells.shape_of(text) for text in options.shapes] if options.shapes else sweep_cells.SHAPES
    except ValueError as error:
        parser.error(f"--shapes: {error}")
    options.chosen = sweep_cells.selected(shapes, sorted(set(options.rows)), options.only)
    if not options.chosen:
        parser.error(f"--only: no cell contains {options.only}")
    return options


def main():
    begin = time.monotonic()
    options = options_of(None)
    try:
        import torch
    except ImportError:
        sys.exit("gemm_sweep.py: torch is not installed; the contenders are timed through it")
    if not torch.cuda.is_available():
        sys.exit("gemm_sweep.py: torch sees no GPU; nothing was timed")
    torch.cuda.init()
    torch.manual_seed(1)
    gc.collect()
    gc.freeze()  # torch collects garbage before each capture, which takes long with all of torch's objects
    library = cubit_library.Library(options.library or library_of(options.program))
    library.check_arguments(GemmArguments)
    library.check_arguments(StreamReadArguments)
    devices = library.devices()
    if not devices:
        sys.exit("gemm_sweep.py: cubit sees no GPU; cubit devices says why")
    device = devices[0]
    facts = {**measure.facts_of(torch), "driver": device["driver_version"], "arch": device["architecture"],
             "commit": commit_of(options.program), "overlap": options.overlap}
    entries = known_entries(options.output, facts)
    chosen = sweep_cells.without_measured(options.chosen, entries)

    def descriptor_of(shape, m):
        sizes = {"m": m, "n": shape.n, "k": shape.k}
        return library.suggest(options.descriptor, sizes, device) if options.suggest else options.descriptor

    all_rows = sorted({m for _, rows in options.chosen for m in rows})
    cubit = Cubit(torch, library, device, options.overlap, sweep_cells.is_dense(options.descriptor))
    humming = Humming(torch, all_rows)
    descriptors = sorted({descriptor_of(shape, m) for shape, rows in chosen for m in rows})
    compile_all(cubit, humming, descriptors, [shape for shape, _ in chosen])
    print(f"{time.monotonic() - begin:6.1f} s  compiled {len(descriptors)} kernels of cubit", file=sys.stderr)
    contenders = {sweep_cells.CUBIT: cubit, sweep_cells.CUBLAS: Cublas(torch), sweep_cells.HUMMING: humming}
    floor = ReadFloor(torch, library, device, facts)
    facts["compiler"] = floor.compiler
    sweep = Sweep(torch, contenders, floor, facts, options.rounds, options.descriptor)
    complete = run(chosen, entries, sweep, descriptor_of, options.output, lambda: time.monotonic() - begin,
                   options.time_limit)
    if options.svg:
        Path(options.svg).write_text(sweep_picture.picture(entries), encoding="utf-8")
    print(sweep_cells.table(entries))
    if not complete:
        print(f"The time limit was reached; run the command again to measure the rest of {options.output}.")


if __name__ == "__main__":
    main()
