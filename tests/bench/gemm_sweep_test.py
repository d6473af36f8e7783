"""Tests the parts of the comparison over batch sizes that need neither torch nor a GPU:
gemm_sweep_test.py <source root> <cubit> <libcubit>.

Times are made up, and the expected statistics are computed by hand. The C interface is called for real: a kernel
multiplies on the CPU device, through the same ctypes structs that a benchmark fills.
"""

import contextlib
import ctypes
import functools
import io
import json
import operator
import os
import random
import struct
import subprocess
import sys
import tempfile
import types
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path
from unittest import mock

ROOT, PROGRAM, LIBRARY = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
sys.path.insert(0, str(ROOT / "bench/peers"))
import byte_sweep  # noqa: E402
import cubit_library  # noqa: E402
import gemm_sweep  # noqa: E402
import results  # noqa: E402
import sweep_cells  # noqa: E402
import sweep_picture  # noqa: E402
from cubit_library import GemmArguments, Launch, StreamReadArguments, sized  # noqa: E402
from sweep_cells import CUBIT, CUBLAS, HUMMING, Shape  # noqa: E402

FACTS = {"device": "a GPU", "commit": "abc", "l2_bytes": 1000, "memory_bytes": 10**9, "overlap": True}
SMALL = Shape(64, 128, "")


def timing(*rounds):
    return {"rounds": list(rounds), "launches": 8, "replays": 3, "copies": 4, "relative_error": 1e-4}


def entries_at(m, skipped=None, shape=SMALL, **times):
    """Entries of one cell; `times` are the rounds of cubit, cublas and humming."""
    names = {"cubit": CUBIT, "cublas": CUBLAS, "humming": HUMMING}
    cell = sweep_cells.cell_of(shape, m, "w4a16_gemm")
    measured = {names[name]: timing(*rounds) for name, rounds in times.items()}
    return sweep_cells.entries_of(cell, FACTS, (2.0, "stream_read"), measured, skipped or {})


class Cells(unittest.TestCase):
    def test_the_sweep_has_the_rows_and_shapes_that_it_promises(self):
        self.assertEqual(sweep_cells.ROWS, [1, 2, 4, 8, 16, 17, 32, 33, 64, 65, 128, 129, 256, 257, 512, 1024, 2048,
                                            4096, 8192])
        sizes = {(shape.n, shape.k) for shape in sweep_cells.SHAPES}
        self.assertEqual(len(sizes), len(sweep_cells.SHAPES))
        self.assertLessEqual({(4096, 4096), (8192, 8192), (28672, 8192), (8192, 28672)}, sizes)
        self.assertTrue(all(sweep_cells.shape_of(shape.label()) == shape for shape in sweep_cells.SHAPES))

    def test_a_text_that_is_no_shape_is_refused(self):
        self.assertEqual(sweep_cells.shape_of("64x128"), SMALL)
        for text in ("64", "64x", "64x128x2", "-8x128", "0x128", "60x128", "64x100"):
            with self.subTest(text), self.assertRaises(ValueError):
                sweep_cells.shape_of(text)

    def test_bytes_by_hand(self):
        words, scales, zeros, activations = 64 * 128 // 2, 64 * 2, 64 // 2, 3 * 128 * 2
        read = [sweep_cells.cell_of(SMALL, 3, "d", peer).bytes_read() for peer in (CUBIT, HUMMING, CUBLAS)]
        self.assertEqual(read, [words + scales + zeros + activations, words + scales + activations,
                                64 * 128 * 2 + activations])
        self.assertEqual(sweep_cells.cell_of(SMALL, 3, "d").stored_bytes() - read[0], 3 * 64 * 2)
        dense = [sweep_cells.cell_of(SMALL, 3, "w4a16_gemm:format=dense", peer).bytes_read() for peer in (CUBIT, HUMMING)]
        self.assertEqual(dense, [read[2], read[1]])

    def test_only_selects_by_layer_and_by_size(self):
        shapes = [Shape(64, 128, "Model up"), Shape(128, 64, "Model down")]
        self.assertEqual(sweep_cells.selected(shapes, [1, 16], "up"), [(shapes[0], [1, 16])])
        self.assertEqual(sweep_cells.selected(shapes, [1, 16], "M=16"), [(shape, [16]) for shape in shapes])
        self.assertEqual(sweep_cells.selected(shapes, [1, 16], "nothing"), [])

    def test_cells_of_the_file_are_not_measured_again(self):
        chosen = [(SMALL, [1, 2, 4]), (Shape(128, 128, ""), [2])]
        entries = entries_at(2, cubit=[1.0]) + entries_at(4, {CUBIT: "failed"}) + entries_at(
            2, shape=Shape(128, 128, ""), cubit=[1.0])
        self.assertEqual(sweep_cells.without_measured(chosen, entries), [(SMALL, [1])])


class Rounds(unittest.TestCase):
    def test_contenders_alternate_and_take_turns_to_begin(self):
        calls = []
        contenders = {name: lambda name=name: calls.append(name) or len(calls) for name in "abc"}
        outcome = sweep_cells.alternate(contenders, 4)
        self.assertEqual("".join(calls), "abc" "bca" "cab" "abc")
        self.assertEqual(outcome, {"a": [1, 6, 8, 10], "b": [2, 4, 9, 11], "c": [3, 5, 7, 12]})
        self.assertEqual(sweep_cells.alternate({}, 5), {})

    def test_the_ratio_is_the_median_of_the_rounds_ratios(self):
        # The clock changes between rounds: the medians' ratio would be 20 / 10.
        self.assertEqual(sweep_cells.ratio([10.0, 20.0, 30.0], [10.0, 40.0, 5.0]), 1.0)

    def test_a_long_graph_is_replayed_once(self):
        self.assertEqual([sweep_cells.replays_for(us) for us in (800, 3000, 3001)], [3, 3, 1])

    def test_copies_pass_the_cache_together_with_activations_and_output(self):
        cell = sweep_cells.cell_of(SMALL, 1, "d")
        self.assertEqual(sweep_cells.copies_for(cell, FACTS), (16 * 1000 + cell.stored_bytes()) // cell.stored_bytes())
        self.assertEqual(sweep_cells.copies_for(sweep_cells.cell_of(SMALL, 8192, "d"), FACTS), 1)


class Entries(unittest.TestCase):
    def test_an_entry_has_rounds_median_and_ratio(self):
        cubit, peer = entries_at(2, cubit=[4.0, 5.0, 6.0], cublas=[8.0, 4.0, 5.0])
        self.assertNotIn("peer", cubit)
        self.assertNotIn("ratio", cubit)
        self.assertEqual((cubit["microseconds"], cubit["round_microseconds"]), (5.0, [4.0, 5.0, 6.0]))
        self.assertEqual(cubit["rounds"], 3)
        self.assertEqual((cubit["floor_microseconds"], cubit["floor_share"], cubit["floor_kernel"]),
                         (2.0, 0.4, "stream_read"))
        self.assertEqual((peer["peer"], peer["ratio"]), (CUBLAS, 1.2))
        self.assertEqual((cubit["overlap"], peer["overlap"]), (True, False))
        self.assertEqual(cubit["sizes"], {"m": 2, "n": 64, "k": 128})
        self.assertEqual(cubit["device"], "a GPU")
        self.assertAlmostEqual(peer["gigabytes_per_second"], peer["bytes"] / 5e3)

    def test_the_table_of_the_other_comparison_reads_the_entries(self):
        text = results.table(entries_at(2, {HUMMING: "not installed"}, cubit=[4.0], cublas=[8.0])).splitlines()
        self.assertEqual([line.split()[-1] for line in text[1:]], ["50.0%", "25.0%", "installed"])

    def test_cells_above_the_limits_are_marked_and_counted(self):
        entries = (entries_at(1, cubit=[10.3], cublas=[10.0]) + entries_at(2, cubit=[10.4], cublas=[10.0])
                   + entries_at(128, cubit=[12.0], cublas=[10.0]) + entries_at(4, {CUBIT: "failed: no"}, cublas=[1.0])
                   + entries_at(8, {HUMMING: "not installed"}, cubit=[5.0], cublas=[10.0]))
        text = sweep_cells.table(entries)
        row = next(line for line in text.splitlines() if line.startswith("64 x 128"))
        self.assertEqual(row.split()[3:], ["1.03", "1.04*", "0.50", "1.20**"])
        self.assertIn("2 of 4 cells (50.0%) are at most 1.03 and 1 above 1.15; the largest ratio is 1.200 at N=64 "
                      "K=128 M=128.", text)
        self.assertIn("faster in 1 of 3 cells with M <= 64", text)
        self.assertIn("Humming was not measured in 1 cells: not installed", text)
        self.assertIn("cubit was not measured at N=64 K=128 M=4: failed: no", text)
        slow = [line.split() for line in text.splitlines() if line.startswith("N=64 ")]
        self.assertEqual([(line[2], line[-2]) for line in slow], [("M=128", "1.200**"), ("M=2", "1.040*")])
        self.assertEqual(sweep_cells.table([]), "")


class Running(unittest.TestCase):
    """`run` with a sweep that notes its calls and with a clock that the test moves."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name, "sweep.json")
        self.now = 0.0
        self.calls = []
        self.chosen = [(SMALL, [1, 2]), (Shape(128, 128, ""), [1])]

    def measure(self, shape, m, descriptor):
        self.now += 10
        self.calls.append((shape.n, m, descriptor))
        return entries_at(m, shape=shape, cubit=[1.0])

    def sweep(self):
        return types.SimpleNamespace(load=lambda shape, rows: self.calls.append(("load", shape.n, rows)),
                                     unload=lambda: self.calls.append("unload"), measure=self.measure)

    def run_until(self, deadline, chosen, entries):
        with contextlib.redirect_stderr(io.StringIO()):
            return gemm_sweep.run(chosen, entries, self.sweep(), lambda shape, m: f"d{m}", self.path, lambda: self.now,
                                  deadline)

    def test_a_shape_is_loaded_once_and_each_cell_is_written(self):
        self.assertTrue(self.run_until(1000, self.chosen, []))
        self.assertEqual(self.calls, [("load", 64, [1, 2]), (64, 1, "d1"), (64, 2, "d2"), "unload", ("load", 128, [1]),
                                      (128, 1, "d1"), "unload"])
        self.assertEqual(len(json.loads(self.path.read_text())), 3)

    def test_the_run_stops_in_time_and_goes_on_later(self):
        entries = []
        self.assertFalse(self.run_until(29, self.chosen, entries))  # a third cell would end at 30
        self.assertEqual(json.loads(self.path.read_text()), entries)
        left = sweep_cells.without_measured(self.chosen, gemm_sweep.known_entries(self.path, FACTS))
        self.assertEqual(left, [self.chosen[1]])
        self.assertTrue(self.run_until(1000, left, entries))
        self.assertEqual([call[:2] for call in self.calls if call[0] in (64, 128)], [(64, 1), (64, 2), (128, 1)])

    def test_a_file_of_another_device_or_commit_is_refused(self):
        self.assertEqual(gemm_sweep.known_entries(self.path, FACTS), [])
        results.write(entries_at(1, cubit=[1.0]), self.path)
        for fact in ("device", "commit"):
            with self.subTest(fact), self.assertRaisesRegex(SystemExit, f"{fact} .* give another file"):
                gemm_sweep.known_entries(self.path, FACTS | {fact: "other"})


class Measuring(unittest.TestCase):
    """Sweep.measure with graphs that always take 7 us and a device that is never used."""

    def test_a_contender_that_fails_does_not_stop_the_others(self):
        def contender(launches):
            return types.SimpleNamespace(launches=launches)

        def absent(*_arguments):
            raise ImportError("no module")

        def broken(*_arguments):
            raise RuntimeError("out of memory\nand more")

        def check(_torch, launch, *_arguments):
            if launch == "wrong":
                raise gemm_sweep.WrongResult("wrong result: relative error 1.0e+00")
            return 1e-4

        graph = types.SimpleNamespace(launches=8, replays=3, replay_round=lambda: lambda: 7.0)
        torch = types.SimpleNamespace(cuda=types.SimpleNamespace(synchronize=lambda: None))
        contenders = {CUBIT: contender(lambda *_: ["right"]), "wrong": contender(lambda *_: ["wrong"]),
                      "absent": contender(absent), "broken": contender(broken)}
        floor = types.SimpleNamespace(measure=lambda cell: (2.0, "stream_read"))
        sweep = gemm_sweep.Sweep(torch, contenders, floor, FACTS, 5)
        sweep._x = sweep._y = range(16)
        sweep._dense, sweep._reasons = None, {}
        with mock.patch.object(gemm_sweep, "relative_error", check), \
                mock.patch.object(gemm_sweep, "Graph", lambda _torch, launches: graph):
            entries = sweep.measure(SMALL, 4, "w4a16_gemm:tile_m=8")
        self.assertEqual([(entry.get("peer"), entry.get("skipped")) for entry in entries],
                         [(None, None), ("wrong", "wrong result: relative error 1.0e+00"), ("absent", "not installed"),
                          ("broken", "failed: out of memory")])
        self.assertEqual(entries[0]["round_microseconds"], [7.0] * 5)
        self.assertEqual(entries[0]["descriptor"], "w4a16_gemm:tile_m=8")

    def test_options_are_checked(self):
        for arguments, text in ((["--rounds", "4"], "at least 5 rounds"), (["--rows", "0"], "at least 1"),
                                (["--shapes", "64"], "a shape is NxK"), (["--only", "zzz"], "no cell contains zzz"),
                                (["--descriptor", "w4a16_gemm:format=awq"], "has weights for"),
                                (["--descriptor", "gqa_decode"], "has weights for")):
            error = io.StringIO()
            with self.subTest(arguments), contextlib.redirect_stderr(error), self.assertRaises(SystemExit):
                gemm_sweep.options_of(["cubit", "--output", "x", *arguments])
            self.assertIn(text, error.getvalue())
        options = gemm_sweep.options_of(["cubit", "--output", "x", "--shapes", "64x128", "--rows", "2", "1", "2"])
        self.assertEqual(options.chosen, [(SMALL, [1, 2])])
        dense = "w4a16_gemm:format=dense,tile_m=64"
        self.assertEqual(gemm_sweep.options_of(["cubit", "--output", "x", "--descriptor", dense]).descriptor, dense)
        self.assertEqual(len(gemm_sweep.options_of(["cubit", "--output", "x"]).chosen), len(sweep_cells.SHAPES))

    def test_the_program_names_its_commit_and_its_library(self):
        version = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True).stdout
        self.assertIn(gemm_sweep.commit_of(PROGRAM), version)
        self.assertTrue(os.path.samefile(gemm_sweep.library_of(PROGRAM), LIBRARY))


class Pictures(unittest.TestCase):
    def elements(self, entries, name):
        return list(xml.fromstring(sweep_picture.picture(entries)).iter(f"{{http://www.w3.org/2000/svg}}{name}"))

    def test_each_shape_has_a_panel_with_a_line_for_each_contender(self):
        entries = []
        for shape in (SMALL, Shape(128, 128, "a < b & c")):
            for m in (1, 2, 8192):
                entries += entries_at(m, shape=shape, cubit=[3.0 * m], cublas=[4.0 * m], humming=[5.0 * m])
        entries += entries_at(4, {CUBIT: "failed"}, shape=Shape(256, 128, ""))  # a shape without a time has no panel
        self.assertEqual(len(self.elements(entries, "g")), 2)
        lines = [line.get("points").split() for line in self.elements(entries, "polyline")]
        self.assertEqual([len(line) for line in lines], [3] * 8)  # three contenders and the floor
        texts = [element.text for element in self.elements(entries, "text")]
        for label in (CUBIT, CUBLAS, HUMMING, "read floor"):
            self.assertEqual(texts.count(label), 2)
        self.assertIn("a < b & c", texts)
        self.assertIn("N = 64, K = 128", texts)

    def test_axes_are_logarithmic(self):
        entries = [entry for m in (1, 4, 16) for entry in entries_at(m, cubit=[10.0 * m])]
        line = self.elements(entries, "polyline")[-1]  # cubit is on top
        points = [tuple(map(float, point.split(","))) for point in line.get("points").split()]
        self.assertAlmostEqual(points[1][0] - points[0][0], points[2][0] - points[1][0], delta=0.11)
        self.assertAlmostEqual(points[0][1] - points[1][1], points[1][1] - points[2][1], delta=0.11)
        self.assertLess(points[2][1], points[0][1])

    def test_a_single_cell_can_be_drawn_and_none_cannot(self):
        self.assertEqual(len(self.elements(entries_at(1, cubit=[10.0]), "polyline")), 2)
        with self.assertRaisesRegex(ValueError, "no measured cell"):
            sweep_picture.picture(entries_at(1, {CUBIT: "failed"}))

    def test_labels_move_apart_and_keep_their_order(self):
        self.assertEqual(sweep_picture.spread([10, 50, 90], 12), [10, 50, 90])
        self.assertEqual(sweep_picture.spread([50, 50, 50], 10), [40, 50, 60])
        self.assertEqual(sweep_picture.spread([52, 48], 10), [55, 45])
        moved = sweep_picture.spread([10, 11, 12, 30, 31], 12)
        self.assertTrue(all(after - before >= 12 - 1e-9 for before, after in zip(moved, moved[1:])))
        self.assertAlmostEqual(sum(moved), 10 + 11 + 12 + 30 + 31)


class OnTheCpuDevice(unittest.TestCase):
    """Calls of the C interface, with memory of the CPU device in place of torch's."""

    ARCHITECTURE = "cpu:sm_80"

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        with mock.patch.dict(os.environ, {"CUBIT_CACHE_DIR": folder.name}):
            cls.library = cubit_library.Library(LIBRARY)

    def open_device(self):
        trouble = json.loads(self.library.text("cubit_devices"))["cpu"]["trouble"]
        if trouble:
            self.skipTest(trouble)  # a build without the CPU device
        self.device = ctypes.c_void_p()
        self.library.call("cubit_device_open", self.ARCHITECTURE.encode(), ctypes.byref(self.device))
        self.addCleanup(lambda: self.library._library.cubit_device_release(self.device))

    def kernel(self, descriptor):
        try:
            return self.library.kernel(descriptor, self.ARCHITECTURE)
        except cubit_library.CubitError as error:
            if error.status != cubit_library.COMPILER_UNAVAILABLE or os.environ.get("CUBIT_EXPECT_NVRTC"):
                raise
            self.skipTest(str(error))

    def memory(self, content):
        """Device memory with these bytes."""
        address = ctypes.c_void_p()
        self.library.call("cubit_device_allocate", self.device, ctypes.c_size_t(len(content)), ctypes.byref(address))
        self.addCleanup(lambda: self.library.call("cubit_device_free", self.device, address))
        self.library.call("cubit_device_upload", self.device, address, content, ctypes.c_size_t(len(content)), None)
        return address

    def content(self, address, count):
        host = ctypes.create_string_buffer(count)
        self.library.call("cubit_device_download", self.device, host, address, ctypes.c_size_t(count), None)
        self.library.call("cubit_device_synchronise", self.device, None)
        return host.raw

    def test_the_structs_are_those_of_the_library(self):
        self.library.check_arguments(GemmArguments)
        self.library.check_arguments(StreamReadArguments)
        self.library.check_arguments(byte_sweep.ByteGemmArguments)

    def test_a_struct_of_another_version_is_refused(self):
        short = type("Short", (ctypes.Structure,), {"operator": "stream_read", "_fields_": GemmArguments._fields_[:2]})
        swapped = type("Swapped", (ctypes.Structure,), {
            "operator": "stream_read", "_fields_": [StreamReadArguments._fields_[index] for index in (0, 2, 1, 3)]})
        for other in (short, swapped):
            with self.subTest(other.__name__), self.assertRaisesRegex(cubit_library.CubitError, "of this source tree"):
                self.library.check_arguments(other)

    def test_an_error_has_the_librarys_sentence(self):
        with self.assertRaisesRegex(cubit_library.CubitError, "no_such_operator"):
            self.library.kernel("no_such_operator", self.ARCHITECTURE)

    def test_a_suggestion_fills_in_the_tile(self):
        device = {"architecture": "sm_90a", "multiprocessors": 132, "memory_bytes_per_second": 0}
        suggested = self.library.suggest("w4a16_gemm", {"m": 1, "n": 4096, "k": 4096}, device)
        program = subprocess.run([PROGRAM, "suggest", "w4a16_gemm", "--sizes", "m=1,n=4096,k=4096", "--arch", "sm_90a",
                                  "--multiprocessors", "132"], capture_output=True, text=True)
        self.assertEqual(suggested, program.stdout.strip(), program.stderr)

    def test_a_gemm_multiplies(self):
        m, n, k = 3, 16, 256
        numbers = random.Random(1)
        words = [numbers.getrandbits(32) for _ in range(k // 8 * n)]
        scales = [struct.unpack("e", struct.pack("e", numbers.uniform(0.005, 0.015)))[0] for _ in range(k // 128 * n)]
        x = [struct.unpack("e", struct.pack("e", numbers.gauss(0, 1)))[0] for _ in range(m * k)]
        self.open_device()
        kernel = self.kernel("w4a16_gemm")
        output = self.memory(bytes(2 * m * n))
        arguments = sized(GemmArguments, activations=self.memory(struct.pack(f"{m * k}e", *x)),
                          qweight=self.memory(struct.pack(f"{len(words)}I", *words)),
                          qzeros=self.memory(struct.pack("I", 0x77777777) * (k // 128 * n // 8)),
                          scales=self.memory(struct.pack(f"{len(scales)}e", *scales)), output=output,
                          activation_stride=k, output_stride=n, m=m, n=n, k=k)
        count = kernel.workspace_bytes(arguments, self.device)
        launch = sized(Launch, device=self.device)
        if count:
            launch.workspace, launch.workspace_bytes = self.memory(bytes(count)), count
        kernel.prepare(self.device)
        kernel.launch(arguments, launch)
        y = struct.unpack(f"{m * n}e", self.content(output, 2 * m * n))
        # As `dequantised` computes the weights: nibbles of 8 consecutive k in a word, and zeros of 8.
        weights = [[((words[row // 8 * n + column] >> row % 8 * 4 & 15) - 8) * scales[row // 128 * n + column]
                    for column in range(n)] for row in range(k)]
        expected = [sum(x[i * k + row] * weights[row][j] for row in range(k)) for i in range(m) for j in range(n)]
        error = sum((a - b) ** 2 for a, b in zip(y, expected)) / sum(b * b for b in expected)
        self.assertLess(error**0.5, 1e-3)

    def test_a_plain_read_reads_every_word(self):
        numbers = random.Random(2)
        words = [numbers.getrandbits(32) for _ in range(4096)]
        self.open_device()
        kernel = self.kernel("stream_read:blocks_per_sm=2")
        checksums = self.memory(bytes(4 * StreamReadArguments.slots))
        arguments = sized(StreamReadArguments, source=self.memory(struct.pack(f"{len(words)}I", *words)),
                          bytes=4 * len(words), checksums=checksums)
        self.assertEqual(kernel.workspace_bytes(arguments, self.device), 0)
        kernel.launch(arguments, sized(Launch, device=self.device))
        slots = StreamReadArguments.slots
        read = struct.unpack(f"{slots}I", self.content(checksums, 4 * slots))
        self.assertEqual(functools.reduce(operator.xor, read), functools.reduce(operator.xor, words))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
