"""Tests the pictures of `cubit explain --svg`: pictures_test.py <cubit>. Needs only Python's standard library.

Every file is well-formed XML that states its size and holds exactly the cells of its subject. The labels of fragments
agree with the formulas of the PTX ISA, which this file repeats independently of the tables that the pictures are drawn
from.
"""

import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

SVG = "{http://www.w3.org/2000/svg}"
INT4 = "gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4"  # rows of 80 bytes, 16 of them header
NARROW = "gqa_decode:heads_per_kv=8,kv=int4_rows"  # rows of 68 bytes, padded; copies with conflicts
WIDE = "gqa_decode:heads_per_kv=8"  # rows of 256 bytes, swizzled
program = ""


def draw(folder, descriptor, architecture="sm_80"):
    environment = dict(os.environ, CUBIT_COMPILE="never", CUBIT_CACHE_DIR=folder + "/cache")
    command = [program, "explain", descriptor, "--arch", architecture, "--svg", folder + "/pictures"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {path.name: ElementTree.parse(path).getroot() for path in Path(folder, "pictures").glob("*.svg")}, done


def of_class(root, name):
    return [element for element in root.iter(SVG + "rect") if name in element.get("class", "").split()]


def texts(root):
    return [element.text for element in root.iter(SVG + "text")]


def labels_of(root):
    """{(row, column): "lane 5, r1.0"}, read from the tooltips of the cells."""
    found = {}
    for cell in of_class(root, "cell"):
        place, holder = cell.find(SVG + "title").text.split(": ")
        row, column = (int(part.split()[1]) for part in place.split(", "))
        assert (row, column) not in found, place
        found[row, column] = holder
    return found


def m16n8k16(operand, lane, i):
    """PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type": (row, column) of element i of a lane."""
    group, thread = lane >> 2, lane % 4
    if operand == "A":
        return (group + (8 if i & 2 else 0), 2 * thread + (i & 1) + (8 if i >= 4 else 0))
    if operand == "B":
        return (2 * thread + (i & 1) + (8 if i >= 2 else 0), group)
    return (group + (8 if i >= 2 else 0), 2 * thread + (i & 1))


class Pictures(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def draw(self, descriptor):
        return draw(self.folder.name, descriptor)[0]

    def test_every_picture_says_its_size_and_stays_inside(self):
        for name, root in self.draw(NARROW).items():
            width, height = float(root.get("width")), float(root.get("height"))
            self.assertEqual(root.get("viewBox"), f"0 0 {width:.0f} {height:.0f}")
            boxes = [box for box in root.iter(SVG + "rect") if box.get("x")]
            self.assertTrue(boxes, name)
            for box in boxes:
                self.assertLessEqual(float(box.get("x")) + float(box.get("width")), width + 0.01, name)
                self.assertLessEqual(float(box.get("y")) + float(box.get("height")), height + 0.01, name)

    def test_fragments_are_labelled_as_the_manual_says(self):
        pictures = self.draw(INT4)
        for operand, elements, bits in (("A", 8, 16), ("B", 4, 16), ("C", 4, 32)):
            root = pictures[f"fragment-mma.m16n8k16-{operand}-{bits}-bit.svg"]
            wanted = {}
            for lane in range(32):
                for i in range(elements):
                    register = f"r{i}" if bits == 32 else f"r{i // 2}.{i % 2}"
                    wanted[m16n8k16(operand, lane, i)] = f"lane {lane}, {register}"
            self.assertEqual(len(of_class(root, "cell")), 32 * elements)
            self.assertEqual(labels_of(root), wanted)
            shown = Counter(texts(root))
            for lane in range(32):
                self.assertEqual(shown[f"T{lane}"], elements)

    def test_a_stage_shows_each_word_once(self):
        for descriptor, rows, row_bytes in ((INT4, 32, 80), (NARROW, 32, 80), (WIDE, 32, 256)):
            words = of_class(self.draw(descriptor)["tile-stage.svg"], "word")
            self.assertEqual(len(words), rows * row_bytes // 4, descriptor)
            self.assertEqual(len({(word.get("x"), word.get("y")) for word in words}), len(words), descriptor)

    def test_an_access_shows_every_word_that_its_lanes_touch(self):
        # Of 32 lanes with 16 bytes: copies, key words and value words. Of 16 lanes: the headers of keys and values. 16
        # bytes of four groups per row, shared by the four lanes that hold the row: scales of 8 rows, for keys and
        # values.
        stage = self.draw(INT4)["tile-stage.svg"]
        self.assertEqual(len(of_class(stage, "touch")), 3 * 32 * 4 + 2 * 16 * 4 + 2 * 8 * 4)
        self.assertEqual(of_class(stage, "waits"), [])

    def test_conflicts_are_outlined_and_named(self):
        # Headers of one word, 80 bytes apart, for 32 rows: each of eight banks serves four rows, and three of them
        # wait.
        stage = self.draw(NARROW)["tile-stage.svg"]
        self.assertEqual(len(of_class(stage, "waits")), 24)
        remarks = [text for text in texts(stage) if "conflict degree" in text]
        self.assertEqual(len(remarks), 1)
        self.assertIn("conflict degree 4", remarks[0])

    def test_the_memory_map_has_a_box_for_every_stage_of_every_warp(self):
        root = self.draw(INT4)["shared-memory.svg"]
        regions = [region.find(SVG + "title").text for region in of_class(root, "region")]
        stages = [region for region in regions if ": stage " in region]
        self.assertEqual(len(stages) % 4, 0)
        self.assertEqual([owner for owner in texts(root) if owner.startswith("warp ")],
                         ["warp 0", "warp 1", "warp 2", "warp 3"])
        total = int(texts(root)[0].split(": ")[1].split()[0])
        ends = [int(region.split(":")[0].split(" … ")[1]) + 1 for region in regions]
        self.assertEqual(max(ends), total)

    def test_barriers_lie_behind_the_stages(self):
        root = draw(self.folder.name, INT4 + ",family=sm90", "sm_90a")[0]["shared-memory.svg"]
        regions = [region.find(SVG + "title").text for region in of_class(root, "region")]
        stages = [region for region in regions if ": stage " in region]
        barriers = [region for region in regions if ": barriers: " in region]
        # Two barriers for each stage, for each of the four entries of the work queue, and for the 2-CTA cluster.
        self.assertEqual([region.split(": ")[2] for region in barriers], [f"{16 * (len(stages) + 5)} bytes"])

    def test_layouts_show_every_address_once(self):
        def interleaved(inside):
            return lambda row, column: column // 32 * 1024 + inside(row, column % 32)

        # The bits of the offset in a block, from the lowest: c0 c1 r1 r2 c2 c3 c4 r0 r3 r4, and c0 … c4 r0 r3 r4 r1 r2.
        formulas = {
            "row": lambda row, column: 64 * row + column,
            "column": lambda row, column: 32 * column + row,
            "col32": interleaved(lambda row, c: 32 * row + c),
            "col4-4r2-8c": interleaved(
                lambda row, c: c % 4 + row // 2 % 4 * 4 + c // 4 * 16 + row % 2 * 128 + row // 8 * 256),
            "col32-2r-4r4": interleaved(lambda row, c: c + row % 2 * 32 + row // 8 * 64 + row // 2 % 4 * 256),
        }
        pictures = self.draw("convert_layout")
        self.assertEqual(set(pictures), {f"layout-{name}.svg" for name in formulas})
        for name, formula in formulas.items():
            root = pictures[f"layout-{name}.svg"]
            whole = {(row, column): f"address {formula(row, column)}" for row in range(32) for column in range(64)}
            self.assertEqual(labels_of(root), whole)
            self.assertEqual(len(set(whole.values())), 32 * 64)
            self.assertEqual(len(of_class(root, "zoomed")), 4 * 16)
            zoomed = [str(column) for column in range(16)]
            for row in range(4):
                zoomed += [str(row)] + [str(formula(row, column)) for column in range(16)]
            first = texts(root).index("The first 4 x 16 elements with their addresses") + 1
            self.assertEqual(texts(root)[first:first + len(zoomed)], zoomed)

    def test_a_plan_without_layouts_says_so(self):
        pictures, done = draw(self.folder.name, "stream_read")
        self.assertEqual(pictures, {})
        self.assertIn("nothing to draw", done.stderr)


if __name__ == "__main__":
    program = sys.argv.pop(1)
    unittest.main()
