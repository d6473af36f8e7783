// Opens libcuda.so.1 once and fills the table of entry points from the list in driver.hpp.
#include "runtime/cuda/driver.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "base/error.hpp"
#include "runtime/dynamic_library.hpp"

namespace cubit::runtime::cuda {
namespace {

using GetProcAddress = Result (*)(const char* name, void** function, int version, unsigned long long flags,
                                  int* status);

constexpr const char* kDriverLibrary = "libcuda.so.1";
constexpr const char* kRemedy = "install an NVIDIA driver of CUDA 12.0 or newer";
constexpr const char* kForkRule = "CUDA does not work in a process that was forked after its parent had started CUDA";
constexpr const char* kForkRemedy = "fork before the first use of a GPU, or start a new program (in Python, \"spawn\")";

/// The result of opening the driver: a usable driver, or the reason why there is none.
struct Opened {
  std::optional<DynamicLibrary> library;
  Driver driver;
  std::string trouble;
  const char* remedy = kRemedy;
  const Opened* replaced = nullptr;  ///< the driver before a test replaced it; kept, because devices refer to it
};

std::string describe(const Driver& driver, Result result) {
  const char* name = nullptr;
  const char* text = nullptr;
  driver.cuGetErrorName(result, &name);
  driver.cuGetErrorString(result, &text);
  if (name == nullptr) return fmt::format("error {}", result);
  return text == nullptr ? name : fmt::format("{} ({})", name, text);
}

/// Returns the reason of a failure, or "".
std::string resolve(Driver& driver, GetProcAddress get_proc_address) {
  std::string missing;
  const auto find = [&](const char* name, int version) -> void* {
    void* address = nullptr;
    int status = 0;
    return get_proc_address(name, &address, version, kLegacyStream, &status) == kSuccess ? address : nullptr;
  };
#define CUBIT_RESOLVE(function, version, parameters) \
  driver.function = reinterpret_cast<Result(*) parameters>(find(#function, version));
#define CUBIT_REQUIRE(function, version, parameters) \
  CUBIT_RESOLVE(function, version, parameters)       \
  if (driver.function == nullptr && missing.empty()) missing = #function;
  CUBIT_CUDA_FUNCTIONS(CUBIT_REQUIRE)
  CUBIT_CUDA_OPTIONAL_FUNCTIONS(CUBIT_RESOLVE)
#undef CUBIT_REQUIRE
#undef CUBIT_RESOLVE
  return missing.empty() ? "" : fmt::format("the driver has no {} and is too old or damaged", missing);
}

std::string start(Opened& opened, const std::string& path) {
  std::string why;
  opened.library = DynamicLibrary::open(path, why);
  if (!opened.library) return fmt::format("{} cannot be opened ({})", path, why);
  const auto get_proc_address = reinterpret_cast<GetProcAddress>(opened.library->symbol("cuGetProcAddress_v2"));
  if (get_proc_address == nullptr) return fmt::format("{} is older than CUDA 12.0", path);
  if (std::string trouble = resolve(opened.driver, get_proc_address); !trouble.empty()) return trouble;
  opened.driver.cuDriverGetVersion(&opened.driver.version);
  opened.driver.process = ::getpid();
  const Result result = opened.driver.cuInit(0);
  if (result == kNotInitialized) {  // the program, or a library that it uses, initialised CUDA before the fork
    opened.remedy = kForkRemedy;
    return kForkRule;
  }
  return result == kSuccess ? "" : fmt::format("cuInit failed with {}", describe(opened.driver, result));
}

// The one driver of the process. The fast path is one acquire load. Opening the driver and replacing it in a test take
// the mutex.
std::mutex g_opening;
std::atomic<const Opened*> g_opened{nullptr};

const Opened* open(const std::string& path, const Opened* replaced) {
  auto opened = std::make_unique<Opened>();
  opened->replaced = replaced;
  opened->trouble = start(*opened, path);
  return opened.release();
}

const Opened& opened() {
  if (const Opened* ready = g_opened.load(std::memory_order_acquire)) return *ready;
  const std::lock_guard lock(g_opening);
  if (g_opened.load(std::memory_order_relaxed) == nullptr) {
    g_opened.store(open(kDriverLibrary, nullptr), std::memory_order_release);
  }
  return *g_opened.load(std::memory_order_relaxed);
}

}  // namespace

const Driver& driver() {
  const Opened& state = opened();
  if (!state.trouble.empty()) throw Failure(Status::driver_unavailable, "the CUDA driver", state.trouble, state.remedy);
  return state.driver;
}

int driver_version() noexcept try { return opened().driver.version; } catch (...) {
  return 0;
}

std::string driver_trouble() {
  const Opened& state = opened();
  return state.trouble.empty() && state.driver.process != ::getpid() ? kForkRule : state.trouble;
}

void check(const Driver& driver, Result result, const char* call) {
  if (result == kSuccess) return;
  if (driver.process != ::getpid()) throw Failure(Status::device_error, call, kForkRule, kForkRemedy);
  throw Failure(Status::device_error, call, fmt::format("the CUDA driver reports {}", describe(driver, result)));
}

void use_driver_library(const std::string& path) {
  const std::lock_guard lock(g_opening);
  g_opened.store(open(path, g_opened.load(std::memory_order_relaxed)), std::memory_order_release);
}

}  // namespace cubit::runtime::cuda
