// conformance_record [--all] FILE: runs every case on the first GPU and records the results.
//
// The program needs only the driver (libcuda.so.1, opened at run time), which also compiles the cases. A kernel that
// the driver refuses is recorded with the reason. --all keeps the bits of every result. conformance_record --ptx FOLDER
// writes every kernel's PTX, for ptxas.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "tests/conformance/recording.hpp"

namespace cubit::conformance {
namespace {

/// The driver's entry points that the program uses. cuda.h defines macros for the names with _v2.
class Driver {
 public:
  using Pointer = unsigned long long;

  Driver() : library_(dlopen("libcuda.so.1", RTLD_NOW)) {
    if (library_ == nullptr) throw std::runtime_error("libcuda.so.1 cannot be opened: is there a driver?");
    check("cuInit", call<unsigned>("cuInit", 0U));
    int device = 0;
    check("cuDeviceGet", call<int*, int>("cuDeviceGet", &device, 0));
    char name[128] = {};
    check("cuDeviceGetName", call<char*, int, int>("cuDeviceGetName", name, sizeof name, device));
    device_name = name;
    int version = 0;
    check("cuDriverGetVersion", call<int*>("cuDriverGetVersion", &version));
    driver_version = std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
    device_ = device;
    open_context();
  }

  /// A fault makes the context unusable. A new context keeps the next case unaffected.
  void recover() {
    call<int>("cuDevicePrimaryCtxReset_v2", device_);
    open_context();
  }

  /// Returns the kernel's output. Throws std::runtime_error with the driver's message.
  std::vector<std::byte> run(const Case& given) {
    void* const module = load(given);
    void* kernel = nullptr;
    check("cuModuleGetFunction", call<void**, void*, const char*>("cuModuleGetFunction", &kernel, module, "kernel"));
    std::vector<std::byte> output(given.output_bytes, kUnwritten);
    Pointer src = copy_of(given.input);
    Pointer dst = copy_of(output);
    void* parameters[] = {&src, &dst};
    using U = unsigned;
    check("cuLaunchKernel",
          call<void*, U, U, U, U, U, U, U, void*, void**, void**>(
              "cuLaunchKernel", kernel, given.blocks, 1, 1, given.threads, 1, 1, 0, nullptr, parameters, nullptr));
    check("cuCtxSynchronize", call<>("cuCtxSynchronize"));
    check("cuMemcpyDtoH", call<void*, Pointer, std::size_t>("cuMemcpyDtoH_v2", output.data(), dst, output.size()));
    check("cuMemFree", call<Pointer>("cuMemFree_v2", src));
    check("cuMemFree", call<Pointer>("cuMemFree_v2", dst));
    check("cuModuleUnload", call<void*>("cuModuleUnload", module));
    return output;
  }

  std::string device_name;
  std::string driver_version;

 private:
  void open_context() {
    void* context = nullptr;
    check("cuDevicePrimaryCtxRetain", call<void**, int>("cuDevicePrimaryCtxRetain", &context, device_));
    check("cuCtxSetCurrent", call<void*>("cuCtxSetCurrent", context));
  }

  template <class... Arguments>
  int call(const char* name, Arguments... arguments) {
    void* const entry = dlsym(library_, name);
    if (entry == nullptr) throw std::runtime_error(std::string(name) + " is not in libcuda.so.1");
    return reinterpret_cast<int (*)(Arguments...)>(entry)(arguments...);
  }

  void check(const std::string& what, int status) {
    if (status == 0) return;
    const char* text = nullptr;
    call<int, const char**>("cuGetErrorString", status, &text);
    throw std::runtime_error(what + ": " + (text == nullptr ? std::to_string(status) : text));
  }

  void* load(const Case& given) {
    std::string log(4096, '\0');
    int options[] = {5, 6};  // CU_JIT_ERROR_LOG_BUFFER and its size
    void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
    void* module = nullptr;
    const int status = call<void**, const void*, unsigned, int*, void**>("cuModuleLoadDataEx", &module,
                                                                         given.kernel.c_str(), 2, options, values);
    if (status != 0) throw std::runtime_error("refused: " + std::string(log.c_str()));
    return module;
  }

  Pointer copy_of(const std::vector<std::byte>& bytes) {
    Pointer memory = 0;
    check("cuMemAlloc", call<Pointer*, std::size_t>("cuMemAlloc_v2", &memory, bytes.size() + 16));
    check("cuMemcpyHtoD",
          call<Pointer, const void*, std::size_t>("cuMemcpyHtoD_v2", memory, bytes.data(), bytes.size()));
    return memory;
  }

  void* library_;
  int device_ = 0;
};

Recording record(const Cases& cases, bool all) {
  Driver driver;
  Recording recording{.device = driver.device_name, .driver = driver.driver_version};
  for (const Case& given : cases) {
    try {
      const std::vector<std::byte> output = driver.run(given);
      if (const std::string difference = given.model ? difference_from_model(given, output) : ""; !difference.empty())
        std::printf("%s: %s\n", given.name.c_str(), difference.c_str());
      recording.cases[given.name] = recorded(given, output, all);
    } catch (const std::exception& failure) {
      std::printf("%s: %s\n", given.name.c_str(), failure.what());
      recording.cases[given.name] = {.identity = given.identity(), .refused = failure.what()};
      driver.recover();
    }
  }
  return recording;
}

void write_kernels(const Cases& cases, const std::string& folder) {
  std::ofstream names(folder + "/names");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    std::ofstream(folder + "/" + std::to_string(i) + ".ptx") << cases[i].kernel;
    names << i << " " << cases[i].name << "\n";
  }
}

int run(int count, char** words) {
  if (count < 2) throw std::runtime_error("usage: conformance_record [--all] FILE | --ptx FOLDER");
  Cases cases;
  for (const Kind& kind : kKinds) kind.add(cases);
  const std::string path = words[count - 1];
  if (std::strcmp(words[1], "--ptx") == 0) {
    write_kernels(cases, path);
    return 0;
  }
  const Recording recording = record(cases, std::strcmp(words[1], "--all") == 0);
  write_recording(recording, path);
  std::size_t bytes = 0;
  for (const Case& given : cases) bytes += given.output_bytes;
  std::printf("%zu cases, %zu bytes of results, on %s, driver %s\n", recording.cases.size(), bytes,
              recording.device.c_str(), recording.driver.c_str());
  return recording.cases.size() == cases.size() ? 0 : 1;
}

}  // namespace
}  // namespace cubit::conformance

int main(int count, char** words) {
  try {
    return cubit::conformance::run(count, words);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "conformance_record: %s\n", failure.what());
    return 1;
  }
}
