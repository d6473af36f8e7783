// The CPU device against an H200, case by case: one test per kind. Where a rule allows an error, the largest that was
// seen is printed and is a property of the test's result.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "base/error.hpp"
#include "runtime/cpu/program.hpp"
#include "tests/conformance/deviation.hpp"
#include "tests/conformance/product.hpp"
#include "tests/conformance/recording.hpp"

namespace cubit::conformance {
namespace {

std::vector<std::byte> run_on_cpu(const Case& given) {
  namespace cpu = runtime::cpu;
  const auto program = cpu::load_program(given.kernel, "kernel");
  const auto input = cpu::allocate_aligned(given.input.size());
  const auto output = cpu::allocate_aligned(given.output_bytes);
  std::memcpy(input.get(), given.input.data(), given.input.size());
  std::vector<std::byte> bytes(given.output_bytes, kUnwritten);
  std::memcpy(output.get(), bytes.data(), bytes.size());
  const std::array<const void*, 2> parameters = {input.get(), output.get()};
  cpu::execute(*program, {.grid = {given.blocks, 1, 1},
                          .block = {given.threads, 1, 1},
                          .parameters = std::as_bytes(std::span(parameters))});
  std::memcpy(bytes.data(), output.get(), bytes.size());
  return bytes;
}

/// Empty, or how the two differ.
std::string difference(const Case& given, const Recorded& gpu, const std::vector<std::byte>& cpu) {
  const std::vector<std::byte> bytes = comparable(given, cpu);
  if (gpu.bits.empty()) {
    const std::vector<std::uint32_t> parts = hashes_of_parts(bytes);
    std::string list;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (i >= gpu.parts.size() || parts[i] != gpu.parts[i]) list += fmt::format(" {}", i);
    }
    return list.empty() ? "" : fmt::format("differs in parts{} of {}", list, kParts);
  }
  if (gpu.bits.size() != bytes.size())
    return fmt::format("{} bytes are recorded, {} came out", gpu.bits.size(), bytes.size());
  return first_difference(given, gpu.bits, bytes);
}

void report(const Case& given, const std::string& largest) {
  fmt::print("{:48} {}\n", given.name, largest);
  testing::Test::RecordProperty(given.name, largest);
}

/// What tensor cores give is not the exact product, but it is near it.
void check_product(const Case& given, const std::vector<std::byte>& bytes) {
  const std::vector<double> errors = product_errors(given, bytes);
  if (errors.empty()) return;
  const double largest = *std::max_element(errors.begin(), errors.end());
  EXPECT_LE(largest, 1) << "of the bound from the exact product";
  report(given, fmt::format("{:.3f} of the bound from the exact product", largest));
}

void check(const Case& given, const Recording& recording) {
  std::vector<std::byte> bytes;
  try {
    bytes = run_on_cpu(given);
  } catch (const Failure& failure) {
    FAIL() << failure.given() << ": " << failure.rule();
  }
  const auto row = recording.cases.find(given.name);
  ASSERT_NE(row, recording.cases.end()) << "nothing is recorded of it: run conformance_record on an H200";
  ASSERT_EQ(row->second.identity, given.identity()) << "the case is not the one recorded: run conformance_record again";
  ASSERT_EQ(row->second.refused, "") << "the GPU's driver does not take it";
  EXPECT_EQ(difference(given, row->second, bytes), "");
  if (given.rule.kind == Rule::Kind::matrix) return check_product(given, bytes);
  if (given.rule.kind == Rule::Kind::near) report(given, largest_deviation(given, row->second.bits, bytes));
}

class OnH200 : public testing::TestWithParam<Kind> {};

TEST_P(OnH200, IsWhatTheCpuDeviceDoes) {
  Recording recording;
  EXPECT_NO_THROW(recording = read_recording(CUBIT_RECORDING)) << "write it with conformance_record on an H200";
  Cases cases;
  GetParam().add(cases);
  for (const Case& given : cases) {
    SCOPED_TRACE(given.name);
    check(given, recording);
  }
}

INSTANTIATE_TEST_SUITE_P(Conformance, OnH200, testing::ValuesIn(kKinds),
                         [](const auto& given) { return std::string(given.param.name); });

/// Names are the keys of the recording.
TEST(Cases, HaveNamesOfTheirOwn) {
  std::map<std::string, int> names;
  for (const Kind& kind : kKinds) {
    Cases cases;
    kind.add(cases);
    for (const Case& given : cases) EXPECT_EQ(++names[given.name], 1) << given.name;
  }
}

}  // namespace
}  // namespace cubit::conformance
