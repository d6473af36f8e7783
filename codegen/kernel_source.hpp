// A kernel as pure text: everything the compiler is given, plus what a loader must know. No I/O, no clock, no device.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/architecture.hpp"
#include "codegen/include_scanner.hpp"

namespace cubit::codegen {

struct Header {
  std::string name;  ///< as written in #include "name"
  std::string text;
  auto operator<=>(const Header&) const = default;
};

/// Headers that many kernels include, each scanned for its own includes once: that scan would otherwise be most of the
/// time that a kernel's source takes.
class HeaderLibrary {
 public:
  /// Throws as includes_of does, and Failure(invalid_argument) for two headers of one name or one named plan.cuh.
  explicit HeaderLibrary(std::vector<Header> headers);
  const std::vector<Header>& headers() const { return headers_; }
  /// nullptr where there is none of that name.
  const Header* find(std::string_view name) const;
  /// Of one of headers().
  const std::vector<Include>& includes(const Header& header) const {
    return includes_[static_cast<std::size_t>(&header - headers_.data())];
  }

 private:
  std::vector<Header> headers_;
  std::vector<std::vector<Include>> includes_;  // of each
};

/// What a launch of the kernel may assume; known before it is compiled, not part of the compiler's input.
struct LaunchFacts {
  int threads = 0;                  ///< per block
  int dynamic_shared_memory = 0;    ///< bytes; above 48 KiB the loader raises the function's limit
  int cluster_blocks = 1;           ///< at most; above 8 the loader allows the function a size that is not portable
  bool waits_for_previous = false;  ///< it runs griddepcontrol.wait before it touches memory
  int shared_memory_limit = 0;      ///< of static and dynamic: so much a launch may ask for, for fewer blocks per SM

  bool operator==(const LaunchFacts&) const = default;
};

/// What the compiler makes: a cubin for a GPU, or PTX, with line information, for the CPU device.
enum class Code { cubin, ptx };

struct KernelSource {
  std::string descriptor;     ///< canonical text or a user's name; for messages, not part of the key
  std::string template_name;  ///< "sm80_gqa_decode.cuh"; the program is compiled as "/cubit/<template_name>"
  std::string template_text;
  std::vector<Header> headers;       ///< exactly the transitive includes, plan.cuh among them, sorted by name
  std::vector<std::string> options;  ///< compiler options beside the target, in order
  std::string target;                ///< an Architecture's name
  std::string entry_point;           ///< an extern "C" __global__ function of the template
  LaunchFacts launch;
  Code code = Code::cubin;
  bool callers_own = false;  ///< no descriptor makes it: for messages, not part of the key
};

/// The headers that `text` includes, directly or through others, picked from `library` and `own` and sorted by name.
/// Throws Failure(invalid_argument) naming the first `#include "x"` that is not available or any `#include <x>`:
/// templates include nothing but what they are given. So does anything else that would make the compiler's input more
/// than these texts: see codegen/include_scanner.hpp.
std::vector<Header> include_closure(const Header& text, const HeaderLibrary& library, std::span<const Header> own = {});

/// "file:line" of the template lines that end in `// access: <name>`: where the kernel makes an access of its plan.
std::vector<std::string> access_places(const KernelSource& source, std::string_view name);

/// The options of every kernel: C++17, ptxas report on, and of CUDA's own names those of the language, not of its
/// runtime (--minimal): an operator that wants textures takes that out of its source's options.
std::vector<std::string> default_options();

/// Template + plan header + cubit's own device headers (templates/) + the caller's, assembled for one architecture.
/// `extra` wins no name clash: a header that cubit ships may not be replaced (Failure(invalid_argument)).
KernelSource assemble(std::string_view descriptor, const Header& kernel_template, std::string plan_header,
                      const Architecture& architecture, std::string entry_point, LaunchFacts launch,
                      const HeaderLibrary& library, std::span<const Header> extra = {});

}  // namespace cubit::codegen
