"""cubit.torch on two GPUs of one process: each thread gets the results of its own GPU, from the same kernels."""

import threading

import pytest

torch = pytest.importorskip("torch")
if torch.cuda.device_count() < 2:
    pytest.skip("PyTorch has fewer than two GPUs", allow_module_level=True)

import cubit  # noqa: E402
import cubit.torch as ct  # noqa: E402
from cubit.errors import InvalidArgumentError  # noqa: E402

ATTEND = "gqa_decode:heads_per_kv=8"
REPEATS = 50


def relative(got, expected):
    return float((got.float() - expected.float()).norm() / expected.float().norm())


class Work:
    """Attention and two matrix products, with data of one device, and what PyTorch computes from them."""

    def __init__(self, index):
        self.device = torch.device("cuda", index)
        random = torch.Generator(self.device).manual_seed(index)

        def normal(*shape, dtype=torch.bfloat16):
            return torch.randn(*shape, device=self.device, dtype=dtype, generator=random)

        self.query = normal(2, 16, 128)
        self.cache = [normal(2, 1000, 2, 128) for _ in range(2)]
        self.x = normal(20, 512)
        codes = torch.randint(-127, 128, (256, 512), device=self.device, dtype=torch.int8, generator=random)
        scales = torch.rand(256, device=self.device, generator=random) / 100 + 0.001
        self.weights = (codes, scales)
        k, v = (one.float().transpose(1, 2).repeat_interleave(8, 1) for one in self.cache)
        attended = torch.nn.functional.scaled_dot_product_attention(self.query.float()[:, :, None], k, v)[:, :, 0]
        self.expected = [attended, self.x.float() @ (codes.float() * scales[:, None]).T]

    def results(self):
        return [ct.gqa_decode(ATTEND, self.query, *self.cache), ct.w8a8_linear(self.x, *self.weights)]

    def check(self):
        results = self.results()
        for got, expected, most in zip(results, self.expected, (5e-3, 2e-2), strict=True):
            assert got.device == self.device
            assert relative(got, expected) < most
        return results


def test_threads_of_two_gpus_get_their_own_results():
    works = [Work(index) for index in range(2)]
    start = threading.Barrier(len(works))
    failures = []

    def repeat(work):
        try:
            first = work.check()
            start.wait(60)
            with torch.cuda.device(work.device), torch.cuda.stream(torch.cuda.Stream(work.device)):
                torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
                for _ in range(REPEATS):
                    assert all(map(torch.equal, work.results(), first))
        except BaseException as failure:
            failures.append(failure)
            raise

    threads = [threading.Thread(target=repeat, args=[work]) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_one_thread_uses_both_without_making_either_current():
    works = [Work(index) for index in range(2)]
    for _ in range(REPEATS):
        made = [work.results() for work in works]
    assert torch.cuda.current_device() == 0
    for work, results in zip(works, made, strict=True):
        assert all(map(torch.equal, results, work.check()))


def test_tensors_of_two_gpus_in_one_call_are_refused():
    here, there = Work(0), Work(1)
    with pytest.raises(InvalidArgumentError, match="give tensors of one device"):
        cubit.get(ATTEND)(query=here.query, key=there.cache[0], value=here.cache[1])
