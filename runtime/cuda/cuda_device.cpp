// Facts of CUDA devices, and the registry of CUDA contexts.
#include "runtime/cuda/cuda_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "base/error.hpp"
#include "runtime/cuda/context.hpp"
#include "runtime/cuda/driver.hpp"
#include "runtime/kernel.hpp"

namespace cubit::runtime {
namespace cuda {
namespace {

int attribute(const Driver& driver, int name, DeviceHandle device) {
  int value = 0;
  check(driver, driver.cuDeviceGetAttribute(&value, name, device), "cuDeviceGetAttribute");
  return value;
}

/// Returns 0 if the driver does not report the attribute.
int attribute_if_known(const Driver& driver, int name, DeviceHandle device) {
  int value = 0;
  return driver.cuDeviceGetAttribute(&value, name, device) == kSuccess ? value : 0;
}

/// Memory transfers two bits per wire and memory clock cycle.
void add_memory_facts(DeviceFacts& facts, const Driver& driver, DeviceHandle device) {
  facts.memory_bus_bits = attribute_if_known(driver, kGlobalMemoryBusWidth, device);
  const std::int64_t kilohertz = attribute_if_known(driver, kMemoryClockRate, device);
  facts.memory_bytes_per_second = 2 * 1000 * kilohertz * facts.memory_bus_bits / 8;
}

/// The driver compiles PTX for a GPU that is newer than cubit's table.
void add_architecture(DeviceFacts& facts, int major, int minor) {
  facts.capability = major * 10 + minor;
  const auto rows = codegen::architectures();
  const bool is_known = std::any_of(
      rows.begin(), rows.end(), [&](const codegen::Architecture& row) { return row.capability == facts.capability; });
  facts.code = is_known ? codegen::Code::cubin : codegen::Code::ptx;
  facts.architecture =
      is_known ? &codegen::architecture_of_device(major, minor) : &codegen::ptx_architecture_of_device(major, minor);
}

DeviceFacts facts_of(const Driver& driver, DeviceHandle device) {
  DeviceFacts facts;
  char name[256] = {};
  check(driver, driver.cuDeviceGetName(name, sizeof name - 1, device), "cuDeviceGetName");
  facts.name = name;
  add_architecture(facts, attribute(driver, kCapabilityMajor, device), attribute(driver, kCapabilityMinor, device));
  facts.multiprocessors = attribute(driver, kMultiprocessorCount, device);
  facts.clock_khz = attribute(driver, kClockRate, device);
  add_memory_facts(facts, driver, device);
  facts.l2_bytes = static_cast<std::size_t>(attribute(driver, kL2CacheSize, device));
  check(driver, driver.cuDeviceTotalMem(&facts.memory_bytes, device), "cuDeviceTotalMem");
  facts.driver_version = driver.version;
  return facts;
}

DeviceHandle device_handle(const Driver& driver, int ordinal) {
  int count = 0;
  check(driver, driver.cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (ordinal < 0 || ordinal >= count) {
    throw Failure(Status::invalid_argument, fmt::format("CUDA device {}", ordinal), "there is no such device",
                  count == 0 ? "this machine has no CUDA device" : fmt::format("give 0 to {}", count - 1));
  }
  DeviceHandle device = 0;
  check(driver, driver.cuDeviceGet(&device, ordinal), "cuDeviceGet");
  return device;
}

unsigned long long context_id(const Driver& driver, Context context) {
  unsigned long long id = 0;
  check(driver, driver.cuCtxGetId(context, &id), "cuCtxGetId");
  return id;
}

/// All contexts that cubit has met, each in its slot. The driver does not report the end of a context. A slot is
/// therefore reused when its handle appears with a new id, or, once all slots are taken, when the driver no longer
/// knows the slot's context by its id.
class Registry {
 public:
  std::shared_ptr<ContextDevice> find_or_add(const Driver& driver, Context context, unsigned long long id,
                                             DeviceHandle device) {
    const std::lock_guard lock(mutex_);
    for (const Slot& slot : slots_) {
      if (slot.device && slot.device->stands_for(driver, id)) return slot.device;
    }
    const std::size_t index = vacant(driver, context);
    Slot& slot = slots_[index];
    slot.device = std::make_shared<ContextDevice>(static_cast<int>(index), slot.generation, driver, context, id,
                                                  facts_of(driver, device));
    ++slot.generation;
    return slot.device;
  }

 private:
  struct Slot {
    std::shared_ptr<ContextDevice> device;
    std::uint64_t generation = 0;
  };

  std::size_t vacant(const Driver& driver, Context context) const {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].device && slots_[i].device->uses_handle(driver, context)) return i;
    }
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (!slots_[i].device) return i;
    }
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].device->dead()) return i;
    }
    throw Failure(Status::unsupported, "this CUDA context",
                  fmt::format("cubit serves at most {} live contexts per process", kMaxDevices),
                  "destroy contexts that are not needed");
  }

  std::mutex mutex_;
  std::array<Slot, kMaxDevices> slots_;
};

/// The one registry of device state. It is never destroyed, because kernels may be released while the process exits.
Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

/// Releases the primary context. The device object stays in its slot, because other code may have the context current.
struct ReleasePrimary {
  std::shared_ptr<ContextDevice> device;
  const Driver* driver;
  DeviceHandle handle;
  void operator()(Device*) const { driver->cuDevicePrimaryCtxRelease(handle); }
};

/// The context that this thread used last. Context ids are never reused, so a match needs no lock.
struct LastContext {
  const Driver* driver = nullptr;
  unsigned long long id = 0;
  Device* device = nullptr;
};

[[noreturn]] void no_current_context() {
  throw Failure(Status::invalid_argument, "the current CUDA context", "no context is current on this thread",
                "make a context current (cudaSetDevice, cuCtxSetCurrent) or name a device");
}

Device& remember(LastContext& last, const Driver& driver, Context context, unsigned long long id) {
  DeviceHandle handle = 0;
  check(driver, driver.cuCtxGetDevice(&handle), "cuCtxGetDevice");
  last = {&driver, id, registry().find_or_add(driver, context, id, handle).get()};
  return *last.device;
}

}  // namespace
}  // namespace cuda

int cuda_driver_major() { return cuda::driver_version() / 1000; }

std::string cuda_trouble() {
  if (std::string trouble = cuda::driver_trouble(); !trouble.empty()) return trouble;
  return cuda_device_count() == 0 ? "the CUDA driver finds no device" : "";
}

int cuda_device_count() {
  if (!cuda::driver_trouble().empty()) return 0;
  int count = 0;
  return cuda::driver().cuDeviceGetCount(&count) == cuda::kSuccess ? count : 0;
}

DeviceFacts cuda_device_facts(int ordinal) {
  const cuda::Driver& driver = cuda::driver();
  return cuda::facts_of(driver, cuda::device_handle(driver, ordinal));
}

std::shared_ptr<Device> open_cuda_device(int ordinal) {
  const cuda::Driver& driver = cuda::driver();
  const cuda::DeviceHandle handle = cuda::device_handle(driver, ordinal);
  cuda::Context context = nullptr;
  cuda::check(driver, driver.cuDevicePrimaryCtxRetain(&context, handle), "cuDevicePrimaryCtxRetain");
  std::shared_ptr<cuda::ContextDevice> device;
  try {
    device = cuda::registry().find_or_add(driver, context, cuda::context_id(driver, context), handle);
  } catch (...) {
    driver.cuDevicePrimaryCtxRelease(handle);
    throw;
  }
  Device* const view = device.get();
  return {view, cuda::ReleasePrimary{std::move(device), &driver, handle}};  // also releases the context if this line
                                                                            // fails
}

Device& current_cuda_device() {
  thread_local cuda::LastContext last;
  const cuda::Driver& driver = cuda::driver();
  cuda::Context context = nullptr;
  cuda::check(driver, driver.cuCtxGetCurrent(&context), "cuCtxGetCurrent");
  if (context == nullptr) cuda::no_current_context();
  const unsigned long long id = cuda::context_id(driver, context);
  if (last.driver == &driver && last.id == id) return *last.device;
  return cuda::remember(last, driver, context, id);
}

}  // namespace cubit::runtime
