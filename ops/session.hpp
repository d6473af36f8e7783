// An engine that understands descriptor texts: text ► specialisation ► source ► engine ► kernel, remembered by text.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "ops/operator.hpp"
#include "runtime/engine.hpp"

namespace cubit::ops {

/// A kernel together with what knows how to launch it. It carries its own count, so that a handle can leave through the
/// C surface as a plain pointer and a request that is answered from memory allocates nothing.
struct OperatorKernel {
  const std::uint64_t id = next_id();  ///< no other kernel of the process had or will have it
  std::string descriptor;              ///< canonical text, or a user's name
  std::shared_ptr<runtime::Kernel> kernel;
  std::shared_ptr<const Specialisation> specialisation;  ///< null for a user's own KernelSource

  void retain() const noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() const noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  static std::uint64_t next_id() noexcept {
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  mutable std::atomic<std::size_t> references_{0};
};

/// Where a launch of an operator's goes.
struct LaunchPlace {
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  runtime::Stream stream = nullptr;
  bool overlap = false;  ///< begin before the kernel ahead has ended, where the kernel can wait for it
};

/// The workspace that a launch of `kernel`, which has a specialisation, needs on `device`. `arguments` may be an older
/// or a newer caller's: see KnownArguments. Throws as Specialisation::workspace_bytes does.
std::size_t workspace_bytes(const OperatorKernel& kernel, const runtime::Device& device, const void* arguments);

/// Launches `kernel`, which has a specialisation, unless there is nothing to do: a launch that this thread has made
/// twice of late is not made anew, see RecentLaunches, whose first allocates; no other launch does. Throws as
/// Specialisation::encode, Device::encode and Kernel::launch do.
void launch(const OperatorKernel& kernel, runtime::Device& device, const void* arguments, const LaunchPlace& place);

/// Owns one count of an OperatorKernel.
class KernelHandle {
 public:
  KernelHandle() = default;
  explicit KernelHandle(const OperatorKernel* kernel) noexcept : kernel_(kernel) { kernel_->retain(); }
  KernelHandle(const KernelHandle& other) noexcept : kernel_(other.kernel_) {
    if (kernel_ != nullptr) kernel_->retain();
  }
  KernelHandle(KernelHandle&& other) noexcept : kernel_(std::exchange(other.kernel_, nullptr)) {}
  KernelHandle& operator=(KernelHandle other) noexcept {
    std::swap(kernel_, other.kernel_);
    return *this;
  }
  ~KernelHandle() {
    if (kernel_ != nullptr) kernel_->release();
  }

  const OperatorKernel* get() const noexcept { return kernel_; }
  const OperatorKernel* operator->() const noexcept { return kernel_; }
  const OperatorKernel& operator*() const noexcept { return *kernel_; }
  explicit operator bool() const noexcept { return kernel_ != nullptr; }
  /// Hands the count to the caller.
  const OperatorKernel* detach() noexcept { return std::exchange(kernel_, nullptr); }

 private:
  const OperatorKernel* kernel_ = nullptr;
};

class Session {
 public:
  /// Spellings other than the canonical one that are remembered, and how long such a text may be. What is beyond costs
  /// a parse per request; a million spellings of one descriptor cost no more memory than these.
  static constexpr std::size_t kMaxAliases = 4096;
  static constexpr std::size_t kMaxAliasLength = 1024;

  explicit Session(runtime::Settings settings, runtime::LogSink log);

  /// One hash lookup under a shared lock when `text` was asked for before in exactly this spelling. Any spelling of one
  /// descriptor gives the same kernel.
  KernelHandle get(std::string_view text, const codegen::Architecture& architecture,
                   codegen::Code code = codegen::Code::cubin);
  KernelHandle get(const codegen::KernelSource& source);

  /// Gets every descriptor for every device's architecture and loads it there, on a few threads. Of several failures
  /// the first in the order of the arguments is thrown, after all have ended; its text names descriptor and device.
  void prepare(std::span<const std::string_view> texts, std::span<runtime::Device* const> devices);

  runtime::Engine& engine() { return engine_; }
  std::size_t remembered_aliases() const;

 private:
  struct SpellingView {
    const codegen::Architecture* architecture;
    std::string_view text;
    codegen::Code code;
  };
  struct Spelling {
    const codegen::Architecture* architecture;
    std::string text;
    codegen::Code code;
    operator SpellingView() const noexcept { return {architecture, text, code}; }
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(const SpellingView& spelling) const noexcept {
      return std::hash<std::string_view>{}(spelling.text) ^ std::hash<const void*>{}(spelling.architecture) ^
             static_cast<std::size_t>(spelling.code);
    }
  };
  struct Equal {
    using is_transparent = void;
    bool operator()(const SpellingView& a, const SpellingView& b) const noexcept {
      return a.architecture == b.architecture && a.code == b.code && a.text == b.text;
    }
  };

  KernelHandle find(const SpellingView& spelling);
  KernelHandle make(std::string_view canonical, const Operator& op, const codegen::Architecture& architecture,
                    codegen::Code code);
  void remember_alias(const SpellingView& spelling, const KernelHandle& kernel);

  runtime::Engine engine_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<Spelling, KernelHandle, Hash, Equal> kernels_;
  std::size_t aliases_ = 0;
};

}  // namespace cubit::ops
