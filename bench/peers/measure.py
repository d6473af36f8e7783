#!/usr/bin/env python3
"""Times an operator's peers on the cases of `cubit bench`, and cubit itself in the same run.

  bench/peers/measure.py path/to/cubit --output results.json [--operator w4a16_gemm] [--only TEXT] [--without-cubit]

A time is the median of 15 CUDA-graph replays of about 800 us over copies of the inputs that exceed the L2 cache. Each
entry also has the time of a plain copy that moves the same number of bytes. Needs torch; measures the other peers that
are installed. The JSON has the entries of `cubit bench --json` with an additional field "peer"; compare.py prints a
table.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from importlib import metadata
from types import SimpleNamespace

import results
from peers import PEERS, Unsupported


def warmed_stream(torch, launches):
    """A stream on which every function of `launches` has run once. A first launch compiles, tunes and allocates, which
    must not be captured."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())  # the inputs were made on this stream
    with torch.cuda.stream(stream):
        for launch in launches:
            launch()
    stream.synchronize()
    return stream


def capture(torch, stream, launches, rounds):
    """A graph that launches all of `launches` in rotation, `rounds` times."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(rounds):
            for launch in launches:
                launch()
    return graph


def enqueue(torch, graph):
    """Replays the graph without waiting. Returns the events before and after the replay."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    graph.replay()
    end.record()
    return begin, end


def replay(torch, graph):
    """Replays the graph and returns the microseconds of the replay."""
    begin, end = enqueue(torch, graph)
    end.synchronize()
    return begin.elapsed_time(end) * 1000


def time_launches(torch, launches):
    """(microseconds per launch, launches of the graph). The graph launches all of `launches` in rotation, equally
    often."""
    stream = warmed_stream(torch, launches)
    graph = capture(torch, stream, launches, 1)
    rounds = results.rounds_for([replay(torch, graph) for _ in range(3)][-1])
    if rounds > 1:
        graph = capture(torch, stream, launches, rounds)
    count = rounds * len(launches)
    return results.median([replay(torch, graph) for _ in range(results.REPLAYS)]) / count, count


def make_cache(torch, case):
    """[batch, context, kv_heads, row] of made-up rows; the time does not depend on their content."""
    shape = (case.batch, case.context, case.kv_heads)
    if case.kv != "int4_rows":
        rows = torch.randn(*shape, results.HEAD_DIM, dtype=torch.bfloat16, device="cuda")
        return rows.to(torch.float8_e4m3fn) if case.kv == "fp8_e4m3" else rows
    rows = torch.randint(0, 256, (*shape, case.row_bytes()), dtype=torch.uint8, device="cuda")
    header = torch.tensor([0.25, -2.0], dtype=torch.float16, device="cuda").view(torch.uint8)
    rows[..., : 4 * case.groups] = header.repeat(case.groups)
    return rows


def gemm_tensors(torch, case, _lengths):
    activations, weights = (torch.randn(rows, case.k, dtype=torch.float16, device="cuda") for rows in (case.m, case.n))
    return SimpleNamespace(activations=activations, weights=weights)


def attention_tensors(torch, case, lengths):
    query = torch.randn(case.batch, case.query_heads(), results.HEAD_DIM, dtype=torch.bfloat16, device="cuda")
    return SimpleNamespace(query=query, key=make_cache(torch, case), value=make_cache(torch, case), lengths=lengths)


TENSORS = {"gqa_decode": attention_tensors, "w4a16_gemm": gemm_tensors}


def copy_floor(torch, bytes_read, copies):
    """The time of a plain copy that reads half of the bytes and writes the other half."""
    half = max(bytes_read // 2 // 16 * 16, 16)
    buffers = [torch.zeros(2, half, dtype=torch.uint8, device="cuda") for _ in range(copies)]
    launches = [lambda buffer=buffer: buffer[1].copy_(buffer[0]) for buffer in buffers]
    return time_launches(torch, launches)[0]


def first_line(error):
    return (str(error) or repr(error)).splitlines()[0]


def measure_case(torch, case, facts):
    """Measures all peers on one case. Returns one entry per peer."""
    lengths = case.lengths(random.Random(1).random)
    bytes_read = case.bytes_read(lengths)
    copies = results.copies_for(bytes_read, case.stored_bytes(), facts["l2_bytes"], facts["memory_bytes"])
    tensors = [TENSORS[case.operator](torch, case, lengths) for _ in range(copies)]
    floor = copy_floor(torch, bytes_read, copies)
    entries = []
    for name, prepare in PEERS[case.operator].items():
        try:
            variants = zip(*(prepare(torch, case, each) for each in tensors))
            timing = min(time_launches(torch, launches) for launches in variants)
            entries.append(results.measured(case, name, facts, lengths, timing, floor, copies))
        except ImportError:
            entries.append(results.skipped(case, name, "not installed"))
        except Unsupported as reason:
            entries.append(results.skipped(case, name, str(reason)))
        except Exception as error:  # a peer that fails must not end the run of the other peers
            entries.append(results.skipped(case, name, f"failed: {first_line(error)}"))
    return entries


def installed_peers():
    """{package: version} of the installed peers."""
    versions = {}
    for package in ("flashinfer-python", "xformers", "fbgemm-gpu-genai", "humming-kernels"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            pass
    return versions


def driver_version():
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    return subprocess.run(query, check=True, capture_output=True, text=True).stdout.strip()


def facts_of(torch):
    properties = torch.cuda.get_device_properties(0)
    return {"device": properties.name, "driver_version": driver_version(), "l2_bytes": properties.L2_cache_size,
            "memory_bytes": properties.total_memory, "torch": torch.__version__, "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(), **installed_peers()}


def cubit_entries(program, operator, only):
    """cubit's own entries, read from its JSON file. The exit code is ignored, because a failed case has an entry
    too."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [program, "bench", operator, "--json", file.name] + (["--only", only] if only else [])
        subprocess.run(command, stdout=subprocess.DEVNULL)
        text = open(file.name, encoding="utf-8").read()
    return json.loads(text) if text else []


def measure_all(cases, entries, measure, path):
    """Adds the entries that `measure` gives for each case, and writes all of them to `path` after each case. An
    interrupted run keeps what it measured."""
    results.write(entries, path)
    for number, case in enumerate(cases, 1):
        if sys.stderr.isatty():
            print(f"case {number} of {len(cases)}: {case.name} {case.descriptor}", file=sys.stderr)
        entries += measure(case)
        results.write(entries, path)
    return entries


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the program cubit")
    parser.add_argument("--output", required=True, help="the JSON file to write")
    parser.add_argument("--operator", default="gqa_decode", choices=results.CASES)
    parser.add_argument("--only", default="", help="cases whose group, name or descriptor contains this")
    parser.add_argument("--without-cubit", action="store_true", help="time the peers alone")
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        sys.exit("measure.py: torch is not installed; the peers are timed through it")
    if not torch.cuda.is_available():
        sys.exit("measure.py: torch sees no GPU; nothing was timed")
    facts = facts_of(torch)
    entries = [] if options.without_cubit else cubit_entries(options.program, options.operator, options.only)
    cases = [case for case in results.cases_of(options.program, options.operator)
             if any(options.only in text for text in (case.group, case.name, case.descriptor))]

    def measure(case):
        torch.cuda.empty_cache()  # frees the memory of the previous case
        return measure_case(torch, case, facts)

    print(results.table(measure_all(cases, entries, measure, options.output)))


if __name__ == "__main__":
    main()
