"""The examples of examples/python run; those that need PyTorch and a GPU say that they are skipped."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "python").glob("*.py"))


def test_there_are_examples():
    names = {path.stem for path in EXAMPLES}
    assert names >= {"calibrate", "jax_attention", "numpy_decode", "torch_decode", "torch_linear"}


@pytest.mark.parametrize("example", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_the_example_runs(example, tmp_path):
    text = example.read_text(encoding="utf-8")
    assert text.startswith('"""') and len(text.splitlines()) <= 150
    done = subprocess.run([sys.executable, "-B", example], capture_output=True, text=True, cwd=tmp_path)
    if done.stderr.startswith("skipped: "):
        compile(text, example, "exec")
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
