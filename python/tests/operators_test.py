"""Every operator on tiny problems: made-up inputs go through the Python call, and the results are compared with the
references of libcubit_check, which compute in double precision."""

import numpy as np
import pytest

import cubit
from problems import Problem

CASES = [
    ("gqa_decode:heads_per_kv=2", {"batch": 2, "context": 20, "kv_heads": 2, "lse": 1}),
    ("gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4", {"batch": 2, "context": 40, "ragged": 1}),
    ("gqa_decode:kv=int8_split,cache=paged", {"batch": 2, "context": 20, "kv_heads": 2}),
    ("gqa_decode:kv=fp8_e4m3,scales=group,groups=2", {"batch": 2, "context": 20}),
    ("gqa_decode:heads_per_kv=2,query_tokens=3,mask=tree,alibi=true", {"batch": 2, "context": 20}),
    ("kv_append", {"batch": 2, "tokens": 5, "kv_heads": 2, "ragged": 1}),
    ("kv_append:rotary=half_split,value_dim=64", {"batch": 2, "tokens": 3, "scattered": 1}),
    ("kv_append:kv=int8_split,cache=paged", {"batch": 2, "tokens": 3, "kv_heads": 2}),
    ("kv_append:kv=int8_split,scales=group,groups=2,value=int4_rows", {"batch": 2, "tokens": 3}),
    ("kv_gather", {"batch": 2, "tokens": 5, "kv_heads": 2, "ragged": 1}),
    ("kv_gather:kv=int8_split,scales=token,cache=paged", {"batch": 2, "tokens": 5, "kv_heads": 2}),
    ("merge", {"parts": 3, "rows": 4, "heads": 2, "lse": 1}),
    ("convert_layout:from=col32,to=row", {"rows": 3, "columns": 64}),
    ("dequantize:input=int32,weight_scale=channel,bias=true,layout=col32", {"rows": 3, "columns": 64}),
    ("gate_quantize:output=unquantised,input=bf16", {"rows": 3, "columns": 64}),
    ("norm_quantize:residual=true,bias=true,scheme=asymmetric", {"rows": 3, "columns": 64}),
    ("quantize", {"rows": 3, "columns": 64}),
    ("quantize:output=fp8_e4m3,scale=tensor,layout=col32", {"rows": 3, "columns": 64}),
    ("stream_copy", {"bytes": 4096}),
    ("stream_read", {"bytes": 4096}),
    ("w4_quantize", {"n": 16, "k": 256}),
    ("w4_quantize:format=awq,group_size=all", {"n": 16, "k": 256, "errors": 0}),
    ("w4a16_gemm:activation_order=true,bias=true,tile_m=16,tile_n=64", {"m": 3, "n": 64, "k": 256}),
    ("w4a16_gemm:format=awq,function=silu_gate,residual=true,tile_m=16,tile_n=64", {"m": 3, "n": 64, "k": 256}),
    ("w4a16_gemm:format=dense,tile_m=64,bias=true", {"m": 3, "n": 64, "k": 264}),
    ("w4a16_gemm:layers=3,bias=true,tile_m=16,tile_n=32", {"m": 3, "n": 64, "n_2": 32, "n_3": 32, "k": 256}),
    ("w8a8_gemm:bias=true,tile_m=16", {"m": 3, "n": 64, "k": 48}),
    ("w8a8_gemm:output=int32,tile_m=16", {"m": 3, "n": 64, "k": 48}),
    ("w8a8_gemm:element=fp8_e4m3,output=fp8_e4m3,function=silu_gate,tile_m=16", {"m": 3, "n": 64, "k": 48}),
    ("weight_sums", {"n": 5, "k": 48}),
]
# Numbers that shapes do not determine, or, as max_length, only bound.
LAUNCH_NUMBERS = {"max_length", "softmax_scale", "epsilon", "soft_cap", "window", "kept_tokens"}


def test_every_operator_has_a_case():
    assert {descriptor.partition(":")[0] for descriptor, _ in CASES} == set(cubit.operators())


@pytest.mark.parametrize(("descriptor", "sizes"), CASES, ids=[descriptor for descriptor, _ in CASES])
def test_results_are_those_of_the_reference(descriptor, sizes):
    problem = Problem(descriptor, **sizes)
    needs_hopper = "format=dense" in descriptor or "element=fp8_e4m3" in descriptor
    kernel = cubit.get(descriptor, cpu_architecture="sm_90a" if needs_hopper else "sm_80")
    numbers = {name: value for name, value in problem.numbers(kernel.table).items() if name in LAUNCH_NUMBERS}
    if kernel.table.operator == "kv_gather":
        numbers["tokens"] = problem.outputs["key"].shape[1]
    updated = {name: array for name, array in problem.outputs.items() if kernel.table.by_name[name].kind == "updated"}
    inputs = {name: array.copy() for name, array in (problem.inputs | updated).items()}
    wanted = {one.name: True for one in kernel.table.outputs if one.optional and one.name in problem.outputs}
    made = kernel(**inputs, **numbers, **wanted)
    outputs = {name: inputs[name] for name in problem.outputs if name in inputs}  # written in place
    if isinstance(made, dict):
        outputs |= made
    elif made is not None:
        outputs[next(one.name for one in kernel.table.outputs if not one.optional)] = made
    for name, array in problem.outputs.items():
        assert outputs[name].shape == array.shape and outputs[name].dtype == array.dtype, name
        assert outputs[name].flags.c_contiguous, name
    error, tolerance, worst = problem.error(outputs)
    assert error <= tolerance, worst


def test_sizes_are_inferred_as_the_problem_has_them():
    for descriptor, sizes in CASES:
        problem = Problem(descriptor, **sizes)
        kernel = cubit.get(descriptor)
        expected = problem.numbers(kernel.table)
        facts = {name: cubit._cpu.Facts(array.shape, cubit._cpu.type_of(name, array))
                 for name, array in (problem.inputs | problem.outputs).items()}
        given = {name: value for name, value in expected.items() if name in LAUNCH_NUMBERS}
        sizes_of_plan = kernel.table.plan(facts, given).sizes
        for name, value in expected.items():
            assert np.float32(sizes_of_plan[name]) == np.float32(value), (descriptor, name)
