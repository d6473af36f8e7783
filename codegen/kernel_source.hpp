// A kernel as pure text: the compiler's complete input and the facts that a loader needs. No I/O, no clock, no device.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/architecture.hpp"
#include "codegen/include_scanner.hpp"

namespace cubit::codegen {

/// A named text that templates can include.
struct Header {
  std::string name;  ///< as written in #include "name"
  std::string text;
  auto operator<=>(const Header&) const = default;
};

/// Headers that many kernels include. The library scans each header for its own includes once, because scanning would
/// otherwise take most of the time of assembling a kernel source.
class HeaderLibrary {
 public:
  /// Throws what includes_of throws, and Failure(invalid_argument) if two headers have the same name or a header is
  /// named plan.cuh.
  explicit HeaderLibrary(std::vector<Header> headers);
  const std::vector<Header>& headers() const { return headers_; }
  /// Returns nullptr if there is no header of this name.
  const Header* find(std::string_view name) const;
  /// The includes of `header`, which must be an element of headers().
  const std::vector<Include>& includes(const Header& header) const {
    return includes_[static_cast<std::size_t>(&header - headers_.data())];
  }

 private:
  std::vector<Header> headers_;
  std::vector<std::vector<Include>> includes_;  // the includes of each header
};

/// Facts about launches of a kernel. They are known before compilation and are not part of the compiler's input.
struct LaunchFacts {
  int threads = 0;                  ///< threads per block
  int dynamic_shared_memory = 0;    ///< bytes; above 48 KiB the loader raises the function's limit
  int cluster_blocks = 1;           ///< maximum cluster size; above 8 the loader allows a non-portable size
  bool waits_for_previous = false;  ///< the kernel runs griddepcontrol.wait before it accesses memory
  int shared_memory_limit = 0;      ///< maximum of static plus dynamic bytes that a launch may request to get fewer
                                    ///< blocks per SM

  bool operator==(const LaunchFacts&) const = default;
};

/// What the compiler makes: a cubin for a GPU, or PTX with line information for the CPU device.
enum class Code { cubin, ptx };

/// Everything that makes a kernel: texts, options, target, and launch facts.
struct KernelSource {
  std::string descriptor;     ///< canonical text of the descriptor, or a user's name; for messages, not part of the key
  std::string template_name;  ///< "sm80_gqa_decode.cuh"; the program is compiled as "/cubit/<template_name>"
  std::string template_text;
  std::vector<Header> headers;       ///< exactly the transitive includes, with plan.cuh, sorted by name
  std::vector<std::string> options;  ///< compiler options in order, without the target
  std::string target;                ///< name of an Architecture
  std::string entry_point;           ///< name of an extern "C" __global__ function of the template
  LaunchFacts launch;
  Code code = Code::cubin;
  bool callers_own = false;  ///< a user's own kernel without a descriptor; for messages, not part of the key
};

/// Returns the headers that `text` includes directly or transitively, picked from `library` and `own` and sorted by
/// name. Throws Failure(invalid_argument), which names the first `#include "x"` that is not available or the first
/// `#include <x>`, because templates include only the headers given here. Everything else that would extend the
/// compiler's input beyond these texts is an error too; see codegen/include_scanner.hpp.
std::vector<Header> include_closure(const Header& text, const HeaderLibrary& library, std::span<const Header> own = {});

/// Returns "file:line" of each source line that ends in `// access: <name>`. These lines make the access `name` of the
/// plan.
std::vector<std::string> access_places(const KernelSource& source, std::string_view name);

/// The options of every kernel: C++17, ptxas report on, and only the language's declarations, not those of the CUDA
/// runtime (--minimal). An operator that uses textures removes --minimal from its source's options.
std::vector<std::string> default_options();

/// Assembles a template, its plan header, cubit's device headers and the caller's headers for one architecture. `extra`
/// may not replace a header that cubit ships; such a name clash throws Failure(invalid_argument).
KernelSource assemble(std::string_view descriptor, const Header& kernel_template, std::string plan_header,
                      const Architecture& architecture, std::string entry_point, LaunchFacts launch,
                      const HeaderLibrary& library, std::span<const Header> extra = {});

}  // namespace cubit::codegen
