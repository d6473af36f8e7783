// Example: requests a kernel specialisation, shows what cubit decided, and launches the kernel once.
//
// request_kernel [DESCRIPTOR] requests any operator's kernel. Problems of libcubit_check stand in for the tensors of
// an engine: a problem has made-up data, the launch arguments, and a reference on the host that checks the result. A
// GPU is used where there is one, and otherwise the CPU device.
#include <cubit/check.hpp>
#include <cubit/cubit.hpp>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

constexpr int kSkipped = 77;  // the exit code that CTest takes for a skipped test

/// The name of a device, and what to request for it.
struct Place {
  std::string device, target;
};

Place place_to_run() {
  const auto devices = nlohmann::json::parse(cubit::devices());
  if (!devices["devices"].empty()) return {"cuda:0", devices["devices"][0]["target"]};
  return {devices["cpu"]["name"], devices["cpu"]["name"]};
}

cubit::Buffer zeros(const cubit::Device& device, std::size_t bytes) {
  cubit::Buffer buffer(device, bytes);
  device.fill_zero(buffer.data(), bytes);
  return buffer;
}

/// A problem's tensors in device memory, inputs first.
std::vector<cubit::Buffer> tensors_of(const cubit::Problem& problem, const cubit::Device& device) {
  std::vector<cubit::Buffer> tensors;
  for (const cubit_tensor& input : problem.inputs()) {
    tensors.emplace_back(device, cubit::tensor_bytes(input));
    device.upload(tensors.back().data(), input.data, tensors.back().bytes());
  }
  for (const cubit_tensor& output : problem.outputs()) tensors.push_back(zeros(device, cubit::tensor_bytes(output)));
  return tensors;
}

/// Compares the outputs, which are the last of the tensors, with the reference.
cubit::Problem::Comparison compare(const cubit::Problem& problem, const cubit::Device& device,
                                   const std::vector<cubit::Buffer>& tensors) {
  std::vector<std::vector<unsigned char>> results;
  std::vector<const void*> outputs;
  for (std::size_t i = problem.inputs().size(); i < tensors.size(); ++i) {
    results.emplace_back(tensors[i].bytes());
    device.download(results.back().data(), tensors[i].data(), tensors[i].bytes());
    outputs.push_back(results.back().data());
  }
  device.synchronise();
  return problem.compare(outputs);
}

/// Returns the exit code.
int run(const std::string& descriptor) {
  const Place place = place_to_run();
  const cubit::Device device(place.device);
  const cubit::Engine engine;
  const cubit::Kernel kernel = engine.get(descriptor, place.target);  // from a cache, or compiled once
  kernel.prepare(device);
  std::cout << kernel.describe() << "\n";

  const cubit::Problem problem = cubit::Problem::random(descriptor, {}, 1);
  const std::vector<cubit::Buffer> tensors = tensors_of(problem, device);
  std::vector<void*> addresses;
  for (const cubit::Buffer& tensor : tensors) addresses.push_back(tensor.data());
  const void* const arguments = problem.arguments(addresses);
  const cubit::Buffer workspace = zeros(device, kernel.workspace(arguments, &device));
  kernel.launch(arguments, {.device = &device, .workspace = workspace.data(), .workspace_bytes = workspace.bytes()});

  const cubit::Problem::Comparison result = compare(problem, device, tensors);
  std::cout << descriptor << " on " << place.device << ": error " << result.error << ", tolerance " << result.tolerance
            << ", worst at " << result.worst << "\n";
  return result.good() ? 0 : 1;
}

}  // namespace

int main(int count, char** names) try {
  return run(count > 1 ? names[1] : "gqa_decode:head_dim=64,heads_per_kv=4,kv=int4_rows,groups=2");
} catch (const cubit::Error& error) {
  std::cerr << error.what() << "\n";
  const bool is_missing = error.code() == CUBIT_COMPILER_UNAVAILABLE || error.code() == CUBIT_DRIVER_UNAVAILABLE;
  return is_missing ? kSkipped : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
