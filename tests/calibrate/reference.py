"""Statistics and quantisation ranges in NumPy, written from the definitions in <cubit/calibrate.hpp> and
docs/calibration.md, and independent of the C++ code: no prefix sums, no closed forms per level, no merging."""

import math
from fractions import Fraction
from typing import Callable

import numpy as np

BINS = 4096  # of each sign


def exponent_of(largest: float) -> int:
    return max(-100, math.frexp(largest)[1]) if largest else -100


def histogram_of(values: np.ndarray) -> tuple[int, np.ndarray]:
    """The exponent, and the counts of the bins from -2^exponent to 2^exponent."""
    exponent = exponent_of(np.abs(values).max())
    edges = np.ldexp(np.arange(BINS + 1, dtype=np.float64), exponent) / BINS
    positive = np.histogram(values[values >= 0], edges)[0]
    negative = np.histogram(-values[values < 0], edges)[0]
    return exponent, np.concatenate([negative[::-1], positive])


def exact_moments(values: np.ndarray) -> tuple[float, float]:
    """Mean and variance by exactly rounded sums; the second pass subtracts the mean."""
    flat = values.astype(np.float64).ravel()
    mean = math.fsum(flat) / flat.size
    shifted = flat - mean
    return mean, (math.fsum(shifted * shifted) - math.fsum(shifted) ** 2 / flat.size) / flat.size


def level_shares(form: str) -> np.ndarray:
    if form == "int8_asymmetric":
        return np.arange(256) / 255.0
    if form == "int8":
        return np.arange(-127, 128) / 127.0
    codes = np.arange(0x7F)
    exponents, fractions = codes >> 3, codes & 7
    magnitudes = np.where(exponents == 0, np.ldexp(fractions.astype(float), -9), np.ldexp(8.0 + fractions, exponents - 10))
    shares = magnitudes / 448
    return np.concatenate([-shares[:0:-1], shares])


def quantiser(form: str, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """The levels of a range, and the boundaries between them."""
    shares = level_shares(form)
    middles = (shares[:-1] + shares[1:]) / 2
    if form == "int8_asymmetric":
        return low + (high - low) * shares, low + (high - low) * middles
    return high * shares, high * middles


def squared_error(counts: np.ndarray, form: str, low: float, high: float) -> float:
    """The mean of (x - q(x))² with values spread evenly in their bins. Each bin is cut at the boundaries inside."""
    levels, boundaries = quantiser(form, low, high)
    used = np.flatnonzero(counts)
    edges = np.union1d(np.concatenate([used, used + 1]) - BINS, boundaries)
    left, right = edges[:-1], edges[1:]
    bins = np.floor((left + right) / 2).astype(int) + BINS
    inside = (bins >= 0) & (bins < 2 * BINS)
    left, right, bins = left[inside], right[inside], bins[inside]
    level = levels[np.searchsorted(boundaries, (left + right) / 2)]
    a, b = left - level, right - level
    return float(np.sum(counts[bins] * (b**3 - a**3) / 3) / counts.sum())


def divergence(counts: np.ndarray, form: str, low: int, high: int) -> float:
    levels, boundaries = quantiser(form, low, high)
    inner = counts[low + BINS : high + BINS].astype(np.float64)
    p = inner.copy()
    p[0] += counts[: low + BINS].sum()
    p[-1] += counts[high + BINS :].sum()
    group = np.searchsorted(boundaries, np.arange(low, high) + 0.5, side="right")
    sums = np.bincount(group, inner, len(levels))
    filled = np.bincount(group, inner > 0, len(levels))
    q = np.where(inner > 0, (sums / np.maximum(filled, 1))[group], 0)
    if inner.sum() == 0 or np.any((p > 0) & (q == 0)):
        return math.inf
    at = p > 0
    p, q = p[at] / p.sum(), q[at] / inner.sum()
    return float(np.sum(p * np.log(p / q)))


def narrowest(losses: dict[int, float]) -> int:
    """The narrowest candidate that loses least to rounding, or the widest where all losses are infinite."""
    least = min(losses.values())
    if math.isinf(least):
        return max(losses)
    return min(candidate for candidate, loss in losses.items() if loss <= least + 1e-9 * least + 1e-12)


def losses_of(widest: int, found: int, loss: Callable[[int], float]) -> dict[int, float]:
    """The losses of every 64th candidate, of all candidates around the best of these, and of the one to check.

    The search does not begin at the candidate to check. All candidates would take minutes.
    """
    losses = {t: loss(t) for t in {*range(0, widest + 1, 64), widest}}
    best = min(losses, key=losses.get)
    for middle, reach in ((best, 63), (found, 1)):
        for t in range(max(0, middle - reach), min(widest, middle + reach) + 1):
            if t not in losses:
                losses[t] = loss(t)
    return losses


def without_spike_at_zero(counts: np.ndarray) -> np.ndarray:
    """Every range stores zeros exactly, so entropy counts the bin of zeros at most as its larger neighbour."""
    cut = counts.copy()
    cut[BINS] = min(counts[BINS], max(counts[BINS - 1], counts[BINS + 1]))
    return cut


def searched(counts: np.ndarray, method: str, form: str, found: tuple[int, int]) -> tuple[int, int]:
    """The best symmetric range. Of an asymmetric range, each end is the best one given the other end that was found."""
    if method == "entropy":
        counts = without_spike_at_zero(counts)
    used = np.flatnonzero(counts) - BINS
    lowest, highest = min(int(used[0]), 0), max(int(used[-1]) + 1, 0)

    def loss(low: int, high: int) -> float:
        if high <= low:
            return math.inf
        if method == "mse":
            return squared_error(counts, form, low, high)
        width = (high - low) // 2 if form == "int8_asymmetric" else high
        return divergence(counts, form, low, high) if width >= 128 else math.inf

    if form != "int8_asymmetric":
        width = narrowest(losses_of(max(-lowest, highest), found[1], lambda t: loss(-t, t)))
        return -width, width
    return (-narrowest(losses_of(-lowest, -found[0], lambda t: loss(-t, found[1]))),
            narrowest(losses_of(highest, found[1], lambda t: loss(found[0], t))))


def count_position(counts: np.ndarray, edges: np.ndarray, wanted: float) -> float:
    """The position that `wanted` values do not exceed, within evenly filled bins."""
    below = np.concatenate([[0], np.cumsum(counts)])
    at = int(np.flatnonzero((counts > 0) & (below[1:] >= wanted))[0])
    return float(edges[at] + (wanted - below[at]) / counts[at] * (edges[at + 1] - edges[at]))


def kept_share(percentile: float) -> Fraction:
    """The decimal number that was meant: 99.9% of 1000 values are 999, although 99.9 / 100 * 1000 > 999."""
    return Fraction(str(percentile)) / 100


def percentile_bins(counts: np.ndarray, form: str, percentile: float) -> tuple[float, float]:
    total, kept = int(counts.sum()), kept_share(percentile)
    if form == "int8_asymmetric":
        edges, wanted = np.arange(-BINS, BINS + 1), float((1 + kept) / 2 * total)
        return -count_position(counts[::-1], -edges[::-1], wanted), count_position(counts, edges, wanted)
    width = count_position(counts[BINS:] + counts[:BINS][::-1], np.arange(BINS + 1), float(kept * total))
    return -width, width


def range_of(values: np.ndarray, method: str, form: str, percentile: float, found: tuple[float, float]) -> tuple[float, float]:
    """The range of values before scale and zero point. `found` is the range to check; see losses_of."""
    low, high = float(values.min()), float(values.max())
    if method != "minmax" and low != high:
        exponent, counts = histogram_of(values)
        width = math.ldexp(1, exponent) / BINS
        if method == "percentile":
            bins = percentile_bins(counts, form, percentile)
        else:
            bins = searched(counts, method, form, (math.floor(found[0] / width), math.ceil(found[1] / width)))
        bound_low, bound_high = (low, high) if form == "int8_asymmetric" else (-max(-low, high), max(-low, high))
        low, high = max(bins[0] * width, bound_low), min(bins[1] * width, bound_high)
    if form != "int8_asymmetric":
        high = max(-low, high)
        low = -high
    return min(low, 0.0), max(high, 0.0)


def scale_of(form: str, low: float, high: float) -> tuple[float, int]:
    if low == high:
        return 1.0, 0
    if form == "int8":
        return high / 127, 0
    if form == "e4m3":
        return high / 448, 0
    scale = (high - low) / 255
    return scale, int(min(127, max(-128, math.floor(-128 - low / scale + 0.5))))
