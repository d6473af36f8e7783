"""Tests the parts of bench/peers that need neither torch nor a GPU: peers_test.py <source root> <cubit>.

The cases come from the real program, and the expected statistics are computed by hand. The peers run without torch,
which shows that a missing package gives an entry and no failure.
"""

import itertools
import json
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(sys.argv[1])
PROGRAM = sys.argv[2] if len(sys.argv) > 2 else None
sys.path.insert(0, str(ROOT / "bench/peers"))
import measure  # noqa: E402
import peers  # noqa: E402
import results  # noqa: E402

ROW = {"group": "g", "name": "B=2", "descriptor": "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4",
       "sizes": {"batch": 2.0, "context": 16.0, "kv_heads": 3.0}}
BF16 = dict(ROW, descriptor="gqa_decode", sizes={"batch": 2, "context": 16})
FP8 = dict(BF16, descriptor="gqa_decode:heads_per_kv=8,kv=fp8_e4m3")
GEMM = {"group": "g", "name": "M=3", "descriptor": "w4a16_gemm", "sizes": {"m": 3.0, "n": 64.0, "k": 32.0}}
RAGGED = dict(ROW, sizes={"batch": 4, "context": 1024, "kv_heads": 1, "ragged": 1})
FACTS = {"device": "a GPU", "l2_bytes": 1000, "memory_bytes": 10**9}


class Cases(unittest.TestCase):
    def test_a_row_becomes_sizes_and_format(self):
        case = results.case_of(ROW)
        self.assertEqual((case.batch, case.context, case.kv_heads, case.query_heads()), (2, 16, 3, 24))
        self.assertEqual((case.kv, case.groups, case.row_bytes(), case.ragged), ("int4_rows", 4, 80, False))
        self.assertEqual(results.case_of(BF16).row_bytes(), 256)
        self.assertEqual(results.case_of(FP8).row_bytes(), 128)

    def test_bytes_and_operations_by_hand(self):
        case = results.case_of(ROW)
        self.assertEqual(case.bytes_read([16, 16]), 2 * 32 * 3 * 80 + 2 * 2 * 24 * 128)
        self.assertEqual(case.operations([16, 16]), 4 * 32 * 24 * 128)
        self.assertEqual(results.case_of(RAGGED).bytes_read([1, 0, 2, 3]), 2 * 6 * 80 + 2 * 4 * 8 * 128 + 16)

    def test_other_head_dims_are_refused(self):
        with self.assertRaisesRegex(ValueError, "only head_dim 128"):
            results.case_of(dict(ROW, descriptor="gqa_decode:head_dim=64"))

    def test_ragged_lengths_have_an_empty_and_a_full_sequence(self):
        lengths = results.case_of(RAGGED).lengths(itertools.cycle([0.0, 0.5, 0.25, 0.999]).__next__)
        self.assertEqual(lengths, [1, 0, 1024, int(1024**0.999)])
        self.assertEqual(results.case_of(ROW).lengths(None), [16, 16])

    def test_a_shape_of_a_gemm_is_one_case_in_whatever_tiles(self):
        others = dict(GEMM, descriptor="w4a16_gemm:format=awq"), dict(GEMM, sizes={"m": 4, "n": 64, "k": 32})
        cases = results.gemm_cases([GEMM, *others])
        self.assertEqual([(case.m, case.n, case.k) for case in cases], [(3, 64, 32), (4, 64, 32)])
        self.assertEqual((cases[0].bytes_read([]), cases[0].operations([])), (2 * 32 * (3 + 64), 2 * 3 * 64 * 32))

    def test_a_shape_that_is_in_two_tables_is_one_case_and_lengths_on_the_device_are_none(self):
        again = dict(ROW, group="another")
        on_device = dict(ROW, sizes=dict(ROW["sizes"], lengths=1.0))
        wide = dict(ROW, descriptor="gqa_decode:head_dim=256")
        cases = results.attention_cases([ROW, again, on_device, wide, BF16])
        self.assertEqual([(case.group, case.kv) for case in cases], [("g", "int4_rows"), ("g", "bf16")])

    @unittest.skipUnless(PROGRAM, "without the program")
    def test_the_programs_own_table_of_gemms_is_understood(self):
        cases = results.cases_of(PROGRAM, "w4a16_gemm")
        self.assertEqual(len(cases), len({(case.m, case.n, case.k) for case in cases}))
        self.assertIn((128, 8192, 8192), {(case.m, case.n, case.k) for case in cases})

    @unittest.skipUnless(PROGRAM, "without the program")
    def test_the_programs_own_table_is_understood(self):
        cases = results.cases_of(PROGRAM, "gqa_decode")
        self.assertEqual(len(cases), len({(case.group, case.name, case.descriptor) for case in cases}))
        self.assertTrue(any(case.ragged for case in cases))
        self.assertEqual({case.kv for case in cases}, {"bf16", "int4_rows", "fp8_e4m3"})


class Statistics(unittest.TestCase):
    def test_median(self):
        self.assertEqual(results.median([5, 1, 3]), 3)
        self.assertEqual(results.median([9.0]), 9.0)
        with self.assertRaises(ValueError):
            results.median([])

    def test_copies_pass_the_cache_within_a_quarter_of_the_memory(self):
        self.assertEqual(results.copies_for(100, 100, 100, 10**6), 17)
        self.assertEqual(results.copies_for(10**6, 10**6, 100, 10**9), 1)
        self.assertEqual(results.copies_for(100, 100, 100, 1200), 3)
        self.assertEqual(results.copies_for(1, 1, 10**6, 10**9), results.MOST_COPIES)
        self.assertEqual(results.copies_for(100, 10**9, 100, 1), 1)

    def test_a_graph_takes_about_as_long_whatever_a_round_takes(self):
        for microseconds in (20.0, 100.0, 399.0, 801.0):
            self.assertAlmostEqual(results.rounds_for(microseconds) * microseconds, results.GRAPH_MICROSECONDS, delta=210)
        self.assertEqual(results.rounds_for(5000.0), 1)
        self.assertEqual(results.rounds_for(0.0), results.MOST_ROUNDS)


class Entries(unittest.TestCase):
    def test_an_entry_has_the_fields_of_cubit_bench(self):
        case = results.case_of(ROW)
        entry = results.measured(case, "peer", FACTS, [16, 16], (20.0, 40), 10.0, 4)
        self.assertEqual(entry["bytes"], case.bytes_read([16, 16]))
        self.assertAlmostEqual(entry["gigabytes_per_second"], entry["bytes"] / 20e3)
        self.assertEqual((entry["floor_share"], entry["launches"], entry["past_l2"]), (0.5, 40, True))
        for field in ("group", "name", "descriptor", "device", "microseconds", "floor_microseconds", "operations"):
            self.assertIn(field, entry)

    def test_the_table_judges_all_by_cubits_floor(self):
        case = results.case_of(ROW)
        slow = results.measured(case, "slow", FACTS, [16, 16], (40.0, 20), 30.0, 4)
        fast = results.measured(case, "fast", FACTS, [16, 16], (20.0, 40), 30.0, 4)
        own = {key: value for key, value in fast.items() if key != "peer"} | {"microseconds": 12.5,
                                                                              "floor_microseconds": 10.0}
        text = results.table([slow, results.skipped(case, "absent", "not installed"), fast, own])
        lines = text.splitlines()
        self.assertEqual([line.split()[-1] for line in lines[1:4]], ["80.0%", "50.0%", "25.0%"])
        self.assertIn("cubit", lines[1])
        self.assertTrue(lines[4].endswith("not installed"))
        alone = results.table([slow]).splitlines()[1]
        self.assertTrue(alone.endswith("75.0%"), alone)

    def test_shares_of_other_bytes_are_of_their_own_floor(self):
        case = results.case_of(RAGGED)
        peer = results.measured(case, "peer", FACTS, [1, 0, 2, 3], (20.0, 40), 10.0, 4)
        own = {key: value for key, value in peer.items() if key != "peer"} | {"bytes": 1, "floor_microseconds": 1.0}
        self.assertTrue(results.table([peer, own]).splitlines()[2].endswith("50.0%"))


class Measuring(unittest.TestCase):
    """measure_case with a clock that always says 7 and tensors that are names."""

    def setUp(self):
        self.known = peers.PEERS["gqa_decode"]
        self.of_attention = {}
        for patch in (
                mock.patch.object(measure, "time_launches", lambda torch, launches: (launches[0](), 40)),
                mock.patch.object(measure, "copy_floor", lambda torch, bytes_read, copies: 5.0),
                mock.patch.dict(measure.TENSORS, dict.fromkeys(
                    measure.TENSORS, lambda torch, case, lengths: types.SimpleNamespace(lengths=lengths))),
                mock.patch.dict(peers.PEERS, {"gqa_decode": self.of_attention})):
            patch.start()
            self.addCleanup(patch.stop)

    def test_the_fastest_variant_counts_and_nothing_that_fails_stops_the_rest(self):
        def absent(torch, case, tensors):
            raise ImportError("no module")

        def unable(torch, case, tensors):
            raise peers.Unsupported("it takes no lengths")

        def broken(torch, case, tensors):
            raise RuntimeError("CUDA error\nand more")

        self.of_attention.update({"absent": absent, "unable": unable, "broken": broken,
                                  "good": lambda torch, case, tensors: [lambda: 9.0, lambda: 7.0, lambda: 8.0]})
        entries = measure.measure_case(None, results.case_of(ROW), FACTS)
        self.assertEqual([entry.get("skipped") for entry in entries],
                         ["not installed", "it takes no lengths", "failed: CUDA error", None])
        self.assertEqual((entries[3]["microseconds"], entries[3]["floor_microseconds"]), (7.0, 5.0))

    def test_a_failure_in_the_third_case_leaves_the_entries_of_two(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "results.json")
            cases = [types.SimpleNamespace(name=name, descriptor="d") for name in ("A", "B", "bad", "C")]

            def measured(case):
                self.assertEqual(len(json.loads(path.read_text())), cases.index(case) + 1)
                if case.name == "bad":
                    raise KeyboardInterrupt
                return [{"name": case.name}]

            with self.assertRaises(KeyboardInterrupt):
                measure.measure_all(cases, [{"name": "cubit's own"}], measured, path)
            self.assertEqual([entry["name"] for entry in json.loads(path.read_text())], ["cubit's own", "A", "B"])
            self.assertEqual([file.name for file in path.parent.iterdir()], ["results.json"])

    def test_a_gemm_has_peers_of_its_own(self):
        case = results.gemm_cases([GEMM])[0]
        with mock.patch.dict(peers.PEERS["w4a16_gemm"], {"good": lambda torch, case, tensors: [lambda: 7.0]}, clear=True):
            entry, = measure.measure_case(None, case, FACTS)
        self.assertEqual((entry["peer"], entry["microseconds"], entry["bytes"]), ("good", 7.0, case.bytes_read([])))

    def test_every_peer_refuses_what_it_cannot_do_before_it_needs_a_gpu(self):
        for name, prepare in self.known.items():
            with self.subTest(name), self.assertRaises((ImportError, peers.Unsupported)):
                prepare(None, results.case_of(RAGGED), types.SimpleNamespace(lengths=[1, 0, 2, 3]))

    def test_a_cache_of_bytes_is_refused_by_all_that_have_none(self):
        modules = ("torch", "torch.nn", "torch.nn.attention", "torch.nn.functional", "xformers", "xformers.ops", "fbgemm_gpu",
                   "fbgemm_gpu.experimental", "fbgemm_gpu.experimental.gen_ai")
        with mock.patch.dict(sys.modules, {name: mock.MagicMock() for name in modules}):
            for name, prepare in self.known.items():
                if name.startswith("FlashInfer"):
                    continue
                with self.subTest(name), self.assertRaisesRegex(peers.Unsupported, "16-bit caches only|bytes"):
                    prepare(None, results.case_of(FP8), types.SimpleNamespace(lengths=[16, 16]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
