// Gets kernels for descriptor texts and remembers them by text: text ► specialisation ► source ► engine ► kernel.
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
#include <vector>

#include "ops/operator.hpp"
#include "runtime/engine.hpp"

namespace cubit::ops {

struct KernelSet;

/// A kernel together with the Specialisation that encodes its launches, or a set of kernels. The struct has its own
/// reference count, so that the C API can pass a handle as a plain pointer, and a request that is answered from memory
/// allocates nothing.
struct OperatorKernel {
  const std::uint64_t id = next_id();                    ///< unique in the process, never reused
  std::string descriptor;                                ///< canonical text, or a user's name
  std::shared_ptr<runtime::Kernel> kernel;               ///< null for a set
  std::shared_ptr<const Specialisation> specialisation;  ///< null for a set and for a user's own KernelSource
  std::shared_ptr<const KernelSet> set;                  ///< null for one kernel

  bool has_operator() const noexcept { return specialisation != nullptr || set != nullptr; }
  std::size_t member_count() const noexcept;
  /// A set's member, or this kernel, which is its own only member.
  const OperatorKernel& member(std::size_t index) const noexcept;

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

/// The workspace and the stream of an operator's launch.
struct LaunchPlace {
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  runtime::Stream stream = nullptr;
  bool overlap = false;  ///< let the kernel begin before the previous kernel has ended, if the kernel can wait for it
};

/// The workspace that a launch of `kernel`, which has an operator, needs on `device`; of a set, what any member needs
/// that this launch or a smaller one takes. `arguments` may be an older or a newer caller's: see KnownArguments.
/// Throws as Specialisation::workspace_bytes does.
std::size_t workspace_bytes(const OperatorKernel& kernel, const runtime::Device& device, const void* arguments);

/// The index of the member of `kernel`, which has an operator, that launch() takes for these arguments.
std::size_t chosen_member(const OperatorKernel& kernel, const runtime::Device& device, const void* arguments);

/// Launches `kernel`, which has an operator, unless there is nothing to do. A launch that this thread has recently made
/// twice is not encoded again, see RecentLaunches. Only a thread's first launches allocate memory, for tables. Throws
/// as Specialisation::encode, Device::encode and Kernel::launch do.
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
  /// Passes ownership of the reference count to the caller.
  const OperatorKernel* detach() noexcept { return std::exchange(kernel_, nullptr); }

 private:
  const OperatorKernel* kernel_ = nullptr;
};

/// The kernels that one descriptor names, in the order of Operator::members(), and the choice among them.
struct KernelSet {
  std::vector<KernelHandle> members;  ///< two or more; each is the handle that its own text gets
  std::shared_ptr<const MemberChoice> choice;
};

inline std::size_t OperatorKernel::member_count() const noexcept { return set == nullptr ? 1 : set->members.size(); }
inline const OperatorKernel& OperatorKernel::member(std::size_t index) const noexcept {
  return set == nullptr ? *this : *set->members[index];
}

/// Maps descriptor texts to kernels. Thread-safe.
class Session {
 public:
  /// Number and length of the remembered spellings other than canonical texts. These limits bound the memory that a
  /// million spellings of one descriptor can take. A request in a spelling beyond them costs a parse.
  static constexpr std::size_t kMaxAliases = 4096;
  static constexpr std::size_t kMaxAliasLength = 1024;

  explicit Session(runtime::Settings settings, runtime::LogSink log);

  /// The kernel of a descriptor, or the set of kernels that the descriptor names. A set's members are made in parallel.
  /// All spellings of one descriptor give the same kernel. A request in a remembered spelling costs one hash lookup
  /// under a shared lock.
  KernelHandle get(std::string_view text, const codegen::Architecture& architecture,
                   codegen::Code code = codegen::Code::cubin);
  /// The kernel of a descriptor for a device. If no store has the code and the engine may not or cannot compile it, a
  /// GPU gets PTX that a store holds for an older architecture, with a warning. The driver compiles the PTX when the
  /// kernel is loaded. The newest such architecture is taken that has all kernels of the descriptor.
  KernelHandle get_for(std::string_view text, const runtime::DeviceFacts& device);
  /// The kernel of a user's own source, without a Specialisation.
  KernelHandle get(const codegen::KernelSource& source);

  /// True if get() of the same arguments would compile nothing: all kernels of the descriptor are in memory or in a
  /// store. Throws as get() does for a wrong descriptor.
  bool is_cached(std::string_view text, const codegen::Architecture& architecture,
                 codegen::Code code = codegen::Code::cubin);

  /// True if get_for() of the same arguments would compile nothing. PTX of an older architecture counts if get_for()
  /// would take it; the call then reads the PTX.
  bool is_cached_for(std::string_view text, const runtime::DeviceFacts& device);

  /// The sources of the descriptor's kernels: of all members of a set.
  static std::vector<codegen::KernelSource> sources(std::string_view text, const codegen::Architecture& architecture,
                                                    codegen::Code code = codegen::Code::cubin);

  /// Makes the kernels of every descriptor, all members of sets included, for every device and loads them there, on
  /// several threads. If jobs fail, the first failure in the order of the arguments is thrown after all jobs have
  /// ended; its text names descriptor and device. If kernels are missing and the engine may not compile, one failure
  /// names all of them.
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
  KernelHandle make_set(std::string_view canonical, const std::vector<std::string>& members, const Operator& op,
                        const codegen::Architecture& architecture, codegen::Code code);
  KernelHandle find_substitute(std::string_view text, const runtime::DeviceFacts& device) const;
  bool remember_substitute(const SpellingView& request, const KernelHandle& kernel);
  KernelHandle make_substitute(std::string_view text, const runtime::DeviceFacts& device);
  KernelHandle remember(const SpellingView& canonical, const KernelHandle& kernel);
  void remember_alias(const SpellingView& spelling, const KernelHandle& kernel);

  runtime::Engine engine_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<Spelling, KernelHandle, Hash, Equal> kernels_;
  std::size_t aliases_ = 0;
  std::unordered_map<Spelling, KernelHandle, Hash, Equal> substitutes_;  ///< PTX of older architectures, by the request
};

}  // namespace cubit::ops
