"""Calibration without files: ranges of arrays in memory, the written scales, and statistics for the command line."""

import json
import os
import subprocess
import threading
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from cubit._checkpoint import _floats
from cubit._safetensors import entries
from cubit.calibration import Calibration
from cubit.errors import Error, InvalidArgumentError


def batches(count=4, dtype=np.float32):
    random = np.random.default_rng(2)
    return [(random.standard_normal((5, 7, 32)) * (1 + np.arange(32) / 8)).astype(dtype) for _ in range(count)]


def collected(layers):
    calibration = Calibration()
    for layer, some in layers.items():
        for batch in some:
            calibration.add(layer, batch)
    return calibration


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ml_dtypes.bfloat16])
def test_the_range_of_minmax_is_exact(dtype):
    some = batches(dtype=dtype)
    whole = np.stack([batch.astype(np.float64) for batch in some])
    calibration = collected({"up": some})
    symmetric = calibration.ranges("minmax")["up"]
    assert symmetric["high"] == np.abs(whole).max() and symmetric["scale"] == symmetric["high"] / 127
    both = calibration.ranges("minmax", "int8_asymmetric")["up"]
    assert (both["low"], both["high"]) == (whole.min(), whole.max())
    assert calibration.ranges("minmax", "e4m3")["up"]["scale"] == np.abs(whole).max() / 448


def test_the_least_error_is_that_of_the_method_mse():
    some = batches()
    ranges = {method: collected({"up": some}).ranges(method, percentile=99)["up"]
              for method in ("minmax", "mse", "percentile")}
    values = np.stack(some).astype(np.float64)

    def error(scale):
        return ((np.clip(np.rint(values / scale), -127, 127) * scale - values)**2).mean() / (values**2).mean()

    measured = {method: error(one["scale"]) for method, one in ranges.items()}
    assert measured["mse"] == min(measured.values()) and ranges["percentile"]["high"] < ranges["minmax"]["high"]
    assert measured["mse"] == pytest.approx(ranges["mse"]["error"], rel=0.05)


def test_strided_arrays_and_threads_give_the_same_statistics():
    some = batches(8)
    threaded = Calibration(threads=2)
    workers = [threading.Thread(target=threaded.add, args=("up", batch[:, ::2])) for batch in some]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    assert threaded.ranges() == collected({"up": [batch[:, ::2].copy() for batch in some]}).ranges()


def test_scales_are_written_with_the_names_of_compressed_tensors(tmp_path):
    calibration = collected({"layers.0.up": batches(), "layers.0.down": batches(1)})
    calibration.write_scales(tmp_path / "scales.safetensors", method="minmax")
    written = entries(str(tmp_path / "scales.safetensors"))
    assert sorted(written) == ["layers.0.down.input_scale", "layers.0.up.input_scale"]
    expected = np.float32(calibration.ranges("minmax")["layers.0.up"]["scale"])
    assert _floats(written["layers.0.up.input_scale"]) == expected


@pytest.mark.skipif("TOOL" not in os.environ, reason="the command-line tool is not built")
def test_the_command_line_continues_with_saved_statistics(tmp_path):
    calibration = collected({"up": batches()})
    calibration.save(tmp_path / "statistics.safetensors")
    done = subprocess.run([os.environ["TOOL"], "calibrate", "--merge", tmp_path / "statistics.safetensors", "--json"],
                          capture_output=True, text=True, check=True)
    assert f'{calibration.ranges()["up"]["scale"]}' in done.stdout and json.loads(done.stdout)


def test_mistakes_give_one_sentence(tmp_path):
    calibration = collected({"up": batches()})
    with pytest.raises(Error, match=r"16 channels.*32"):
        calibration.add("up", np.zeros((3, 16), np.float32))
    with pytest.raises(InvalidArgumentError, match="method"):
        calibration.ranges("median")
    with pytest.raises(InvalidArgumentError, match="down has type float64: cubit has no such type"):
        calibration.add("down", np.zeros((3, 16)))
    with pytest.raises(Error, match="I32"):
        calibration.add("down", np.zeros((3, 16), np.int32))
    with pytest.raises(Error, match="nowhere"):
        calibration.write_scales(tmp_path / "nowhere" / "scales.safetensors")
    calibration.add("up", np.full((1, 32), np.nan, np.float32))
    with pytest.raises(Error, match=r"layer up, .*not finite"):
        calibration.ranges()
    with pytest.raises(InvalidArgumentError, match="up has type complex64: cubit has no such type"):
        calibration.add("up", SimpleNamespace(dtype="complex64", shape=(1,)))
