// Example: an operator outside cubit's tree, with its own template, plan header and argument struct.
//
// The engine compiles, caches and launches the operator like cubit's own operators. The program checks the result bit
// by bit. Without a GPU the program uses the CPU device. Without libcubit_cpu the program only compiles the kernel for
// two architectures and prints its report.
#include "scale_and_add_arguments.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <cubit/cubit.hpp>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

constexpr int kRows = 37;
constexpr int kColumns = 1000;
constexpr int kThreads = 128;
constexpr int kSkipped = 77;  // the exit code that CTest takes for a skipped test

std::string read_beside(const std::string& name) {
  std::ifstream file(std::string(SCALE_AND_ADD_FOLDER) + "/" + name);
  if (!file) throw std::runtime_error(name + ": cannot be read in " + SCALE_AND_ADD_FOLDER);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The plan header holds everything that varies between specialisations. The template includes the plan header.
std::string plan_header() {
  return "#pragma once\nnamespace plan {\nconstexpr int kColumns = " + std::to_string(kColumns) +
         ";\nconstexpr int kThreads = " + std::to_string(kThreads) + ";\n}  // namespace plan\n";
}

cubit::Kernel compile(const cubit::Engine& engine, const std::string& architecture) {
  const std::string name = "scale_and_add:columns=" + std::to_string(kColumns);
  const std::string text = read_beside("scale_and_add.cuh");
  const std::string arguments = read_beside("scale_and_add_arguments.h");
  const std::string plan = plan_header();
  const cubit_header header{"scale_and_add_arguments.h", arguments.c_str()};
  cubit_source source{};
  source.size = sizeof source;
  source.name = name.c_str();
  source.template_name = "scale_and_add.cuh";
  source.template_text = text.c_str();
  source.plan_header = plan.c_str();
  source.headers = &header;
  source.header_count = 1;
  source.entry_point = "scale_and_add";
  source.threads = kThreads;
  cubit::Kernel kernel = engine.get(source, architecture);
  std::cout << kernel.describe() << "\n";
  return kernel;
}

/// fp16 bits of `value`, rounded to nearest, ties to even. `value` must be zero, or |value| in 2^-14 .. 65504.
std::uint16_t half_of(double value) {
  if (value == 0) return 0;
  const int unit = std::ilogb(value) - 10;  // the exponent of the last place
  const int significand = static_cast<int>(std::nearbyint(std::ldexp(std::fabs(value), -unit)));  // 1024 .. 2048
  const int bits = ((unit + 10 + 15) << 10) + (significand - 1024);
  return static_cast<std::uint16_t>(bits | (value < 0 ? 0x8000 : 0));
}

struct Case {
  std::vector<std::uint16_t> x, scale, addend, expected;
};

/// The numbers k / 64 are exact. Products are multiples of 2^-12, so sums need rounding, and no result is subnormal.
Case make_case() {
  std::uint32_t state = 1;
  const auto next = [&state] {
    state = state * 1664525u + 1013904223u;
    return static_cast<int>(state >> 20) - 2048;
  };
  Case result;
  for (int row = 0; row < kRows; ++row) {
    const int scale = next();
    result.scale.push_back(half_of(scale / 64.0));
    for (int column = 0; column < kColumns; ++column) {
      const int x = next();
      const int addend = next();
      result.x.push_back(half_of(x / 64.0));
      result.addend.push_back(half_of(addend / 64.0));
      result.expected.push_back(half_of(x / 64.0 * (scale / 64.0) + addend / 64.0));
    }
  }
  return result;
}

cubit::Buffer on_device(const cubit::Device& device, const std::vector<std::uint16_t>& values) {
  cubit::Buffer buffer(device, values.size() * sizeof values[0]);
  device.upload(buffer.data(), values.data(), buffer.bytes());
  return buffer;
}

/// Returns the number of elements that differ from the host's result.
int launch_and_compare(const cubit::Device& device, const cubit::Kernel& kernel) {
  const Case numbers = make_case();
  const cubit::Buffer x = on_device(device, numbers.x);
  const cubit::Buffer scale = on_device(device, numbers.scale);
  const cubit::Buffer addend = on_device(device, numbers.addend);
  const cubit::Buffer y(device, x.bytes());
  const ScaleAndAddArguments arguments{x.data(), scale.data(), addend.data(), y.data()};
  kernel.prepare(device);
  kernel.launch_raw(kRows, 1, 1, arguments, {.device = &device});
  std::vector<std::uint16_t> got(numbers.expected.size());
  device.download(got.data(), y.data(), y.bytes());
  device.synchronise();
  int wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) wrong += got[i] != numbers.expected[i];
  return wrong;
}

/// Returns the exit code.
int check(const cubit::Device& device, const cubit::Kernel& kernel) {
  const int wrong = launch_and_compare(device, kernel);
  std::cout << kRows * kColumns << " elements, " << wrong << " wrong\n";
  return wrong == 0 ? 0 : 1;
}

int run() {
  const cubit::Engine engine;
  const auto devices = nlohmann::json::parse(cubit::devices());
  if (!devices["devices"].empty())
    return check(cubit::Device("cuda:0"), compile(engine, devices["devices"][0]["target"]));
  std::cout << "no GPU (" << devices["trouble"].get<std::string>() << ")\n";
  for (const char* architecture : {"sm_80", "sm_90a"}) compile(engine, architecture);
  try {
    const std::string cpu = "cpu:sm_90a";
    return check(cubit::Device(cpu), compile(engine, cpu));
  } catch (const cubit::Error& error) {
    if (error.code() != CUBIT_DRIVER_UNAVAILABLE) throw;
    std::cout << "compiled only: " << error.what() << "\n";
    return 0;
  }
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const cubit::Error& error) {
    std::cerr << error.what() << "\n";
    return error.code() == CUBIT_COMPILER_UNAVAILABLE ? kSkipped : 1;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
