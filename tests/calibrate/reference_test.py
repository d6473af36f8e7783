"""Compares the statistics and ranges of libcubit_calibrate with NumPy: reference_test.py CALIBRATE_NUMBERS."""

import json
import math
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Callable

import numpy as np

import reference

PERCENTILE = 99.9
FORMATS = ("int8", "int8_asymmetric", "e4m3")
METHODS = ("minmax", "percentile", "entropy", "mse")


def data_sets() -> dict[str, np.ndarray]:
    random = np.random.default_rng(7)
    outliers = random.normal(0, 1, (500, 64))
    outliers[:, 5] *= 60
    skewed = np.maximum(random.normal(-0.5, 1, (400, 48)), -0.17)
    kept = random.random((640, 64)) < 0.1
    sets = {
        "normal": random.normal(0.1, 1.5, (640, 64)),
        "laplace": random.laplace(0, 1, (640, 64)),
        "uniform": random.uniform(-3, 3, (640, 64)),
        "outliers": outliers,
        "skewed": skewed,
        "relu": np.maximum(random.normal(-1.2816, 1, (640, 64)), 0),  # nine of ten values are zero
        "sparse": np.where(kept, random.normal(0, 1, kept.shape), 0),
        "positive": np.abs(random.normal(2, 0.5, (300, 16))),
        "constant": np.full((30, 8), 3.7),
        "zeros": np.zeros((3, 4)),
        "tiny": np.array([[0.5, -2.0, 0.25]]),
        "one": np.array([[-1.25]]),
        "small": random.normal(0, 1e-30, (64, 8)),
        "wide": random.normal(0, 1, (3, 9000)),
    }
    return {name: values.astype(np.float32) for name, values in sets.items()}


class Reference(unittest.TestCase):
    def run_on(self, values: np.ndarray, type_name: str = "F32", parts: int = 1) -> dict:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "values"
            file.write_bytes(values.tobytes())
            command = [PROGRAM, type_name, *map(str, values.shape), str(PERCENTILE), str(file), str(parts)]
            return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)

    def compare_statistics(self, values: np.ndarray, found: dict):
        exponent, counts = reference.histogram_of(values)
        self.assertEqual(found["histogram"]["exponent"], exponent)
        self.assertEqual(found["histogram"]["negative"][::-1] + found["histogram"]["positive"], counts.tolist())
        token_ranges = np.abs(values).max(axis=1)
        exponent, counts = reference.histogram_of(token_ranges)
        self.assertEqual(found["token_ranges"]["exponent"], exponent)
        self.assertEqual(found["token_ranges"]["positive"], counts[reference.BINS :].tolist())
        self.assertEqual((found["minimum"], found["maximum"]), (values.min(), values.max()))
        self.compare_moments(values, found["mean"], found["variance"])
        for channel, (low, high, mean, variance) in zip(values.T, found["channels"]):
            self.assertEqual((low, high), (channel.min(), channel.max()))
            self.compare_moments(channel, mean, variance)

    def compare_moments(self, values: np.ndarray, mean: float, variance: float):
        expected_mean, expected_variance = reference.exact_moments(values)
        size = float(np.abs(values).max())
        self.assertLessEqual(abs(mean - expected_mean), 1e-12 * max(abs(expected_mean), 1e-3 * size))
        self.assertLessEqual(abs(variance - expected_variance), 1e-12 * max(expected_variance, 1e-3 * size * size))

    def test_statistics(self):
        for name, values in data_sets().items():
            with self.subTest(data=name):
                self.compare_statistics(values, self.run_on(values))

    def test_statistics_of_double_precision(self):
        values = np.random.default_rng(3).normal(0, 1e5, (50, 70))
        self.compare_statistics(values, self.run_on(values, "F64"))

    def test_merged_parts_equal_one_pass(self):
        for name, values in data_sets().items():
            if len(values) < 7:
                continue
            with self.subTest(data=name):
                whole, merged = self.run_on(values), self.run_on(values, parts=7)
                channels = [found.pop("channels") for found in (whole, merged)]
                self.assertEqual(whole, merged)
                self.assertTrue(np.allclose(*channels, rtol=1e-15, atol=0))

    def test_ranges(self):
        for name, values in data_sets().items():
            if name == "wide":
                continue
            found = self.run_on(values)["ranges"]
            for form in FORMATS:
                for method in METHODS:
                    with self.subTest(data=name, format=form, method=method):
                        self.compare_range(values, found[form][method], method, form)

    def compare_range(self, values: np.ndarray, found: dict, method: str, form: str):
        low, high = reference.range_of(values, method, form, PERCENTILE, (found["low"], found["high"]))
        scale, zero_point = reference.scale_of(form, low, high)
        for name, expected in (("low", low), ("high", high), ("scale", scale)):
            self.assertLessEqual(abs(found[name] - expected), 1e-6 * abs(expected), name)
        self.assertEqual(found["zero_point"], zero_point)

    def test_a_spike_of_zeros_does_not_narrow_the_range_of_entropy(self):
        """The range is that of the values which are not zero. A range of the spike alone has an error above 0.3."""
        for name in ("relu", "sparse"):
            values = data_sets()[name]
            self.assertGreater(np.mean(values == 0), 0.89)
            dense = values[values != 0][:, None]
            for form in FORMATS:
                with self.subTest(data=name, format=form):
                    found, alone = (self.run_on(one)["ranges"][form] for one in (values, dense))
                    self.assertLess(found["entropy"]["error"], 0.001)
                    self.assertLess(found["entropy"]["clipped"], 0.001)
                    for end in ("low", "high"):
                        self.assertLess(abs(found["entropy"][end] - alone["entropy"][end]), 0.01 * values.max())

    def test_percentiles_of_raw_values(self):
        """A percentile of the histogram lies within one bin of the value with that rank."""
        for name, values in data_sets().items():
            with self.subTest(data=name):
                found = self.run_on(values)["ranges"]
                width = 2.0 ** reference.exponent_of(np.abs(values).max()) / reference.BINS
                kept = reference.kept_share(PERCENTILE)
                rank = lambda ordered, share: np.sort(ordered, axis=None)[math.ceil(share * ordered.size) - 1]
                self.assertLessEqual(abs(found["int8"]["percentile"]["high"] - rank(np.abs(values), kept)), width)
                low, high = -rank(-values, (1 + kept) / 2), rank(values, (1 + kept) / 2)
                self.assertLessEqual(abs(found["int8_asymmetric"]["percentile"]["low"] - min(low, 0)), width)
                self.assertLessEqual(abs(found["int8_asymmetric"]["percentile"]["high"] - max(high, 0)), width)

    def test_thresholds_of_raw_values(self):
        """A threshold of mse is within one bin of the best one for raw values, or loses as little to a thousandth.

        The best one comes from an own search over all thresholds. entropy is defined by bins, so raw values give it
        no threshold. In a bin with a spike, such as that of "skewed", raw values do not spread as mse assumes.
        """
        for name in ("normal", "laplace", "uniform", "outliers", "relu", "constant", "tiny"):
            values = data_sets()[name][:256]
            ranges = self.run_on(values)["ranges"]
            values = values.astype(np.float64)
            width = 2.0 ** reference.exponent_of(np.abs(values).max()) / reference.BINS
            for form in FORMATS:
                low, high = ranges[form]["mse"]["low"], ranges[form]["mse"]["high"]
                with self.subTest(data=name, format=form):
                    if form != "int8_asymmetric":
                        self.compare_threshold(high, np.abs(values).max(), width, lambda t: raw_error(values, form, -t, t))
                        continue
                    self.compare_threshold(high, values.max(), width, lambda t: raw_error(values, form, low, t))
                    self.compare_threshold(-low, -values.min(), width, lambda t: raw_error(values, form, -t, high))

    def compare_threshold(self, found: float, largest: float, width: float, loss: Callable[[float], float]):
        """All thresholds are the edges of bins and the largest value."""
        if largest <= 0:
            self.assertEqual(found, 0)
            return
        loss_at = lambda edge: loss(min(edge * width, largest)) if edge > 0 else math.inf
        losses = reference.losses_of(math.ceil(largest / width), math.ceil(found / width), loss_at)
        best = min(losses, key=losses.get)
        if abs(found - min(best * width, largest)) > width:
            self.assertLessEqual(loss(found), 1.001 * losses[best])

    def test_losses_of_raw_values(self):
        """The estimated error is that of the raw values, and no other range of the search does better on these."""
        for name in ("normal", "laplace", "uniform", "outliers"):
            values = data_sets()[name].astype(np.float64)
            square = np.mean(values**2)
            for form in ("int8", "e4m3"):
                with self.subTest(data=name, format=form):
                    found = self.run_on(values.astype(np.float32))["ranges"][form]["mse"]
                    error = raw_error(values, form, -found["high"], found["high"]) / square
                    self.assertLessEqual(abs(found["error"] - error), 0.02 * error)
                    largest = np.abs(values).max()
                    least = min(raw_error(values, form, -share * largest, share * largest) for share in np.linspace(0.05, 1, 96)) / square
                    self.assertLessEqual(error, 1.02 * least)


def raw_error(values: np.ndarray, form: str, low: float, high: float) -> float:
    levels, boundaries = reference.quantiser(form, low, high)
    return float(np.mean((values - levels[np.searchsorted(boundaries, values)]) ** 2))


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
