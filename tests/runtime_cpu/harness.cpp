// Implements the harness: makes kernel text, runs it, and collects results.
#include "tests/runtime_cpu/harness.hpp"

#include <fmt/format.h>

#include <cstring>

#include "base/error.hpp"

namespace cubit::tests {
namespace {

constexpr const char* kKernel = R"(.version 8.7
.target sm_90a
.address_size 64
{declarations}
.visible .entry kernel(.param .u64 kernel_input, .param .u64 kernel_output) {directives}
{{
  .reg .pred %p<16>;
  .reg .b16 %s<16>;
  .reg .b32 %r<32>, %t;
  .reg .b64 %d<32>, %in, %out;
  .reg .f32 %f<16>;
  .reg .f64 %g<16>;
  ld.param.u64 %in, [kernel_input];
  ld.param.u64 %out, [kernel_output];
  mov.u32 %t, %tid.x;
{body}
  ret;
}}
)";

constexpr std::uint32_t kUnwritten = 0xcdcdcdcd;

template <class T>
std::vector<T> apply_in(const std::string& body, const std::vector<std::array<T, 3>>& rows) {
  constexpr std::size_t kWords = sizeof(T) / 4;
  std::vector<std::array<T, 3>> padded = rows;
  padded.resize((rows.size() + kLanes - 1) / kLanes * kLanes, rows.front());
  std::vector<std::uint32_t> input(padded.size() * 3 * kWords);
  std::memcpy(input.data(), padded.data(), input.size() * 4);
  const Case given{.body = body, .blocks = static_cast<unsigned>(padded.size() / kLanes)};
  const auto output = run(given, input, padded.size() * kWords);
  std::vector<T> results(rows.size());
  std::memcpy(results.data(), output.data(), results.size() * sizeof(T));
  return results;
}

std::string rows_body(const std::string& instruction, int bytes, char letter) {
  std::string text = fmt::format(R"(
  mov.u32 %r31, %ctaid.x;
  mad.lo.u32 %r31, %r31, 32, %t;
  mad.wide.u32 %in, %r31, {0}, %in;
  mad.wide.u32 %out, %r31, {1}, %out;
)",
                                 3 * bytes, bytes);
  for (int i = 0; i < 3; ++i) {
    text += fmt::format("  ld.global.b{} %{}{}, [%in+{}];\n", 8 * bytes, letter, i, i * bytes);
  }
  return text + instruction + fmt::format("\n  st.global.b{} [%out], %{}3;\n", 8 * bytes, letter);
}

}  // namespace

std::string kernel_text(const Case& given) {
  return fmt::format(fmt::runtime(kKernel), fmt::arg("declarations", given.declarations),
                     fmt::arg("directives", given.directives), fmt::arg("body", given.body));
}

std::vector<std::uint32_t> run(const Case& given, std::vector<std::uint32_t> input, std::size_t words) {
  const auto program = runtime::cpu::load_program(kernel_text(given), "kernel");
  // Aligned for vector loads and 16-byte copies.
  const auto input_memory = runtime::cpu::allocate_aligned(input.size() * 4);
  const auto output_memory = runtime::cpu::allocate_aligned(words * 4);
  if (!input.empty()) std::memcpy(input_memory.get(), input.data(), input.size() * 4);
  std::vector<std::uint32_t> output(words, kUnwritten);
  std::memcpy(output_memory.get(), output.data(), words * 4);
  const std::array<const void*, 2> parameters = {input_memory.get(), output_memory.get()};
  runtime::cpu::execute(*program, {.grid = {given.blocks, given.rows, 1},
                                   .block = {given.threads, 1, 1},
                                   .cluster = given.cluster,
                                   .dynamic_shared_bytes = given.dynamic_shared,
                                   .patience = given.patience,
                                   .parameters = std::as_bytes(std::span(parameters)),
                                   .check = given.check});
  std::memcpy(output.data(), output_memory.get(), words * 4);
  return output;
}

std::string failure_of(const Case& given, std::vector<std::uint32_t> input, std::size_t words) {
  try {
    run(given, std::move(input), words);
  } catch (const Failure& failure) {
    return failure.given() + ": " + failure.rule();
  }
  return "";
}

std::vector<std::uint32_t> results_of(const std::string& instruction, const std::vector<Row>& rows) {
  return apply_in<std::uint32_t>(rows_body(instruction, 4, 'r'), rows);
}

std::vector<std::uint64_t> wide_results_of(const std::string& instruction, const std::vector<WideRow>& rows) {
  return apply_in<std::uint64_t>(rows_body(instruction, 8, 'd'), rows);
}

std::vector<Row> rows_of(const std::vector<std::uint32_t>& corners, int operands) {
  std::vector<Row> rows;
  for (const std::uint32_t a : corners) {
    for (const std::uint32_t b : corners) {
      if (operands == 2) rows.push_back({a, b, 0});
      if (operands < 3) continue;
      for (const std::uint32_t c : corners) rows.push_back({a, b, c});
    }
  }
  return rows;
}

const std::vector<std::uint32_t>& integer_corners() {
  static const std::vector<std::uint32_t> kCorners = {
      0,          1,          2,          3,          7,          31,         32,         33,
      255,        256,        0x7fff,     0x8000,     0xffff,     0x10000,    0x12345678, 0x7ffffffe,
      0x7fffffff, 0x80000000, 0x80000001, 0xdeadbeef, 0xfffffff9, 0xfffffffe, 0xffffffff};
  return kCorners;
}

const std::vector<std::uint32_t>& float_corners() {
  static const std::vector<std::uint32_t> kCorners = {
      0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff, 0x00800000, 0x80800000,
      0x00800001, 0x33800000, 0x3effffff, 0x3f000000, 0x3f7fffff, 0x3f800000, 0x3f800001, 0xbf800000,
      0x40000000, 0x40490fdb, 0xc0490fdb, 0x4b000001, 0x4f000000, 0xcf000000, 0x4f800000, 0x5f000000,
      0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001, 0x7f800001};
  return kCorners;
}

}  // namespace cubit::tests
