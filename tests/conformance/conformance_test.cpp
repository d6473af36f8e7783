// Compares the CPU device with an H200's recording and with an exact model if there is one, case by case: two tests per
// kind. If a rule allows an error, the test prints the largest error and stores it as a test property. Kinds with
// unrecorded cases end as skipped and name the cases.
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

/// `check`: the checker watches the kernel, to prove that the case itself is free of races.
std::vector<std::byte> run_on_cpu(const Case& given, bool check) {
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
                          .parameters = std::as_bytes(std::span(parameters)),
                          .check = check});
  std::memcpy(bytes.data(), output.get(), bytes.size());
  return bytes;
}

/// Returns "" or the difference between the two outputs.
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

/// A tensor core's result is not the exact product, but close to it.
void check_product(const Case& given, const std::vector<std::byte>& bytes) {
  const std::vector<double> errors = product_errors(given, bytes);
  if (errors.empty()) return;
  const double largest = *std::max_element(errors.begin(), errors.end());
  EXPECT_LE(largest, 1) << "of the bound from the exact product";
  report(given, fmt::format("{:.3f} of the bound from the exact product", largest));
}

/// Returns nothing, after a failure of the test, if the case cannot be executed.
std::vector<std::byte> output_of(const Case& given, bool check = false) {
  try {
    return run_on_cpu(given, check);
  } catch (const Failure& failure) {
    ADD_FAILURE() << failure.given() << ": " << failure.rule();
    return {};
  }
}

void check(const Case& given, const Recorded& row) {
  ASSERT_EQ(row.identity, given.identity()) << "the case is not the one recorded: run conformance_record again";
  ASSERT_EQ(row.refused, "") << "the GPU's driver does not take it";
  const std::vector<std::byte> bytes = output_of(given);
  EXPECT_EQ(difference(given, row, bytes), "");
  if (given.rule.kind == Rule::Kind::matrix) return check_product(given, bytes);
  if (given.rule.kind == Rule::Kind::near) report(given, largest_deviation(given, row.bits, bytes));
}

Cases cases_of(const Kind& kind) {
  Cases cases;
  kind.add(cases);
  return cases;
}

class OnH200 : public testing::TestWithParam<Kind> {};

TEST_P(OnH200, IsWhatTheCpuDeviceDoes) {
  Recording recording;
  EXPECT_NO_THROW(recording = read_recording(CUBIT_RECORDING)) << "write it with conformance_record on an H200";
  std::string unrecorded;
  for (const Case& given : cases_of(GetParam())) {
    SCOPED_TRACE(given.name);
    const auto row = recording.cases.find(given.name);
    if (row != recording.cases.end()) {
      check(given, row->second);
    } else {
      EXPECT_TRUE(given.model) << "there is neither a recording nor a model: run conformance_record on an H200";
      unrecorded += "\n  " + given.name;
    }
  }
  if (!unrecorded.empty()) GTEST_SKIP() << "not recorded yet, compared with a model only:" << unrecorded;
}

class Models : public testing::TestWithParam<Kind> {};

TEST_P(Models, GiveWhatTheCpuDeviceGives) {
  for (const Case& given : cases_of(GetParam())) {
    SCOPED_TRACE(given.name);
    ASSERT_TRUE(given.model);
    EXPECT_EQ(difference_from_model(given, output_of(given, true)), "");
  }
}

std::vector<Kind> kinds_with_models() {
  std::vector<Kind> kinds;
  std::copy_if(std::begin(kKinds), std::end(kKinds), std::back_inserter(kinds),
               [](const Kind& kind) { return kind.has_models; });
  return kinds;
}

constexpr auto kNameOf = [](const auto& given) { return std::string(given.param.name); };
INSTANTIATE_TEST_SUITE_P(Conformance, OnH200, testing::ValuesIn(kKinds), kNameOf);
INSTANTIATE_TEST_SUITE_P(Conformance, Models, testing::ValuesIn(kinds_with_models()), kNameOf);

/// Names are the keys of the recording, so they must be unique.
TEST(Cases, HaveNamesOfTheirOwn) {
  std::map<std::string, int> names;
  for (const Kind& kind : kKinds) {
    for (const Case& given : cases_of(kind)) EXPECT_EQ(++names[given.name], 1) << given.name;
  }
}

}  // namespace
}  // namespace cubit::conformance
