// The table of the operators' problems. A new operator adds one row here and a folder.
#include <fmt/format.h>

#include <string>

#include "base/error.hpp"
#include "check/convert_layout/problem.hpp"
#include "check/dequantize/problem.hpp"
#include "check/gate_quantize/problem.hpp"
#include "check/gqa_decode/problem.hpp"
#include "check/kv_append/problem.hpp"
#include "check/kv_gather/problem.hpp"
#include "check/merge/problem.hpp"
#include "check/norm_quantize/problem.hpp"
#include "check/problem.hpp"
#include "check/quantize/problem.hpp"
#include "check/stream_buffer.hpp"
#include "check/w4_quantize/problem.hpp"
#include "check/w4a16_gemm/problem.hpp"
#include "check/w8a8_gemm/problem.hpp"
#include "check/weight_sums/problem.hpp"

namespace cubit::check {
namespace {

template <class Row>
std::vector<Row> none() {
  return {};
}

constexpr OperatorProblems kTable[] = {
    {"convert_layout", convert_layout::random_help, convert_layout::bench_cases, none<Decomposition>,
     convert_layout::make_problem, convert_layout::make_random_problem},
    {"dequantize", dequantize::random_help, dequantize::bench_cases, none<Decomposition>, dequantize::make_problem,
     dequantize::make_random_problem},
    {"gate_quantize", gate_quantize::random_help, gate_quantize::bench_cases, none<Decomposition>,
     gate_quantize::make_problem, gate_quantize::make_random_problem},
    {"gqa_decode", gqa_decode::random_help, gqa_decode::bench_cases, none<Decomposition>, gqa_decode::make_problem,
     gqa_decode::make_random_problem, gqa_decode::fit},
    {"kv_append", kv_append::random_help, kv_append::bench_cases, none<Decomposition>, kv_append::make_problem,
     kv_append::make_random_problem},
    {"kv_gather", kv_gather::random_help, kv_gather::bench_cases, none<Decomposition>, kv_gather::make_problem,
     kv_gather::make_random_problem},
    {"merge", merge::random_help, merge::bench_cases, none<Decomposition>, merge::make_problem,
     merge::make_random_problem},
    {"norm_quantize", norm_quantize::random_help, norm_quantize::bench_cases, none<Decomposition>,
     norm_quantize::make_problem, norm_quantize::make_random_problem},
    {"quantize", quantize::random_help, quantize::bench_cases, none<Decomposition>, quantize::make_problem,
     quantize::make_random_problem},
    {"stream_copy", stream_random_help, none<BenchCase>, none<Decomposition>, make_stream_copy_problem,
     make_random_stream_copy_problem},
    {"stream_read", stream_random_help, none<BenchCase>, none<Decomposition>, make_stream_read_problem,
     make_random_stream_read_problem},
    {"w4_quantize", w4_quantize::random_help, w4_quantize::bench_cases, none<Decomposition>, w4_quantize::make_problem,
     w4_quantize::make_random_problem},
    {"w4a16_gemm", w4a16_gemm::random_help, w4a16_gemm::bench_cases, w4a16_gemm::decompositions,
     w4a16_gemm::make_problem, w4a16_gemm::make_random_problem, w4a16_gemm::fit},
    {"w8a8_gemm", w8a8_gemm::random_help, w8a8_gemm::bench_cases, w8a8_gemm::decompositions, w8a8_gemm::make_problem,
     w8a8_gemm::make_random_problem},
    {"weight_sums", weight_sums::random_help, weight_sums::bench_cases, none<Decomposition>, weight_sums::make_problem,
     weight_sums::make_random_problem}};

}  // namespace

std::span<const OperatorProblems> operator_problems() { return kTable; }

const OperatorProblems& find_problems(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(':'));
  std::string known;
  for (const OperatorProblems& row : kTable) {
    if (row.name == name) return row;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  throw Failure(Status::invalid_argument, fmt::format("descriptor \"{}\"", text.substr(0, 200)),
                fmt::format("there is no operator \"{}\"", name.substr(0, 100)), fmt::format("accepted: {}", known));
}

}  // namespace cubit::check
