// Calls NVRTC through a table of functions that are looked up by name, so that building cubit needs no NVRTC header.
#include "runtime/compiler/nvrtc.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>

#include "base/error.hpp"
#include "runtime/compiler/compile_error.hpp"
#include "runtime/compiler/load_nvrtc.hpp"
#include "runtime/dynamic_library.hpp"

namespace cubit::runtime {
namespace {

using Handle = struct NvrtcProgram*;

// All NVRTC functions that cubit calls, with name and signature as documented in nvrtc.h.
#define CUBIT_NVRTC_FUNCTIONS(X)                                                                  \
  X(nvrtcVersion, int, (int* major, int* minor))                                                  \
  X(nvrtcGetErrorString, const char*, (int result))                                               \
  X(nvrtcCreateProgram, int,                                                                      \
    (Handle * program, const char* source, const char* name, int count, const char* const* texts, \
     const char* const* names))                                                                   \
  X(nvrtcCompileProgram, int, (Handle program, int count, const char* const* options))            \
  X(nvrtcDestroyProgram, int, (Handle * program))                                                 \
  X(nvrtcGetProgramLogSize, int, (Handle program, std::size_t * size))                            \
  X(nvrtcGetProgramLog, int, (Handle program, char* log))                                         \
  X(nvrtcGetPTXSize, int, (Handle program, std::size_t * size))                                   \
  X(nvrtcGetPTX, int, (Handle program, char* ptx))                                                \
  X(nvrtcGetCUBINSize, int, (Handle program, std::size_t * size))                                 \
  X(nvrtcGetCUBIN, int, (Handle program, char* cubin))

struct Functions {
#define CUBIT_DECLARE(name, result, parameters) result(*name) parameters = nullptr;
  CUBIT_NVRTC_FUNCTIONS(CUBIT_DECLARE)
#undef CUBIT_DECLARE
};

/// The first version that knows all architectures and options that cubit uses.
constexpr CompilerVersion kOldest{12, 8, 0};
constexpr CompilerVersion kFirstWithCache{12, 9, 0};
constexpr const char* kNoCache = "--no-cache";
constexpr const char* kHowToGetOne =
    "install a CUDA toolkit (12.8 or newer) or NVIDIA's wheel nvidia-cuda-nvrtc, or name the library in CUBIT_NVRTC or "
    "its folder in CUBIT_NVRTC_DIR";

/// Looks up all functions. Returns nothing, with the reason in `why`, if cubit cannot use the library.
std::optional<Functions> resolve(const DynamicLibrary& library, std::string& why) {
  Functions functions;
#define CUBIT_RESOLVE(name, result, parameters)                                       \
  functions.name = reinterpret_cast<decltype(functions.name)>(library.symbol(#name)); \
  if (functions.name == nullptr) {                                                    \
    why = "it has no function " #name;                                                \
    return std::nullopt;                                                              \
  }
  CUBIT_NVRTC_FUNCTIONS(CUBIT_RESOLVE)
#undef CUBIT_RESOLVE
  return functions;
}

struct Opened {
  DynamicLibrary library;
  Functions functions;
  CompilerVersion release;  ///< the build number is not known yet
};

std::optional<Opened> open_candidate(const std::string& path, std::string& why) {
  auto library = DynamicLibrary::open(path, why);
  if (!library) return std::nullopt;
  auto functions = resolve(*library, why);
  if (!functions) return std::nullopt;
  CompilerVersion release;
  if (functions->nvrtcVersion(&release.major, &release.minor) != 0) {
    why = "the library does not report its version";
    return std::nullopt;
  }
  if (release < kOldest) {
    why = fmt::format("it is version {}.{}, older than {}.{}", release.major, release.minor, kOldest.major,
                      kOldest.minor);
    return std::nullopt;
  }
  return Opened{*library, *functions, release};
}

/// One NVRTC program; the destructor destroys it.
class Program {
 public:
  Program(const Functions& functions, const std::string& text, const std::string& name,
          std::span<const codegen::Header> headers)
      : functions_(functions) {
    std::vector<const char*> names;
    std::vector<const char*> texts;
    for (const codegen::Header& header : headers) {
      names.push_back(header.name.c_str());
      texts.push_back(header.text.c_str());
    }
    result_ = functions_.nvrtcCreateProgram(&handle_, text.c_str(), name.c_str(), static_cast<int>(headers.size()),
                                            texts.data(), names.data());
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (handle_ != nullptr) functions_.nvrtcDestroyProgram(&handle_);
  }

  /// Compiles. Returns false if NVRTC rejects the source; reason() and log() then say why.
  bool compile(std::span<const std::string> options) {
    if (result_ != 0) return false;
    std::vector<const char*> pointers;
    for (const std::string& option : options) pointers.push_back(option.c_str());
    result_ = functions_.nvrtcCompileProgram(handle_, static_cast<int>(pointers.size()), pointers.data());
    return result_ == 0;
  }

  std::string reason() const { return functions_.nvrtcGetErrorString(result_); }
  std::string log() const { return text(functions_.nvrtcGetProgramLogSize, functions_.nvrtcGetProgramLog); }
  std::string ptx() const { return text(functions_.nvrtcGetPTXSize, functions_.nvrtcGetPTX); }
  std::vector<std::byte> cubin() const {
    std::size_t size = 0;
    if (functions_.nvrtcGetCUBINSize(handle_, &size) != 0) return {};
    std::vector<std::byte> bytes(size);
    if (functions_.nvrtcGetCUBIN(handle_, reinterpret_cast<char*>(bytes.data())) != 0) return {};
    return bytes;
  }

 private:
  /// NVRTC's texts end with a zero byte that their sizes include.
  std::string text(int (*size_of)(Handle, std::size_t*), int (*get)(Handle, char*)) const {
    std::size_t size = 0;
    if (handle_ == nullptr || size_of(handle_, &size) != 0 || size == 0) return {};
    std::string result(size, '\0');
    if (get(handle_, result.data()) != 0) return {};
    result.resize(result.find('\0'));
    return result;
  }

  const Functions& functions_;
  Handle handle_ = nullptr;
  int result_ = 0;
};

/// Reads the version from generated PTX: "// Cuda compilation tools, release 13.0, V13.0.88". NVRTC reports the build
/// number nowhere else.
std::optional<CompilerVersion> version_in_ptx(const std::string& ptx) {
  const auto at = ptx.find("Cuda compilation tools, release ");
  if (at == std::string::npos) return std::nullopt;
  const auto dot = ptx.find(", V", at);
  CompilerVersion version;
  if (dot == std::string::npos ||
      std::sscanf(ptx.c_str() + dot, ", V%d.%d.%d", &version.major, &version.minor, &version.build) != 3) {
    return std::nullopt;
  }
  return version;
}

/// Removes the process's working directory from file names in the line information, because the bytes must not depend
/// on it.
std::vector<std::byte> ptx_bytes(const std::string& ptx) {
  constexpr std::string_view kFile = "\t.file\t";
  std::string text;
  for (std::size_t first = 0; first < ptx.size();) {
    const std::size_t last = std::min(ptx.find('\n', first), ptx.size());
    std::string line = ptx.substr(first, last - first);
    const std::size_t quote = line.find('"');
    const std::size_t slash = line.rfind('/');
    if (line.starts_with(kFile) && quote != std::string::npos && slash != std::string::npos) {
      line.replace(quote + 1, slash - quote, "/cubit/");
    }
    text += line + '\n';
    first = last + 1;
  }
  const auto* const bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

/// Opens NVRTC's builtins library before NVRTC does. NVRTC asks the loader for the bare name, which fails if the loader
/// does not search NVRTC's folder. The loader uses a library of this name that is already in the process.
void open_builtins(const Opened& opened) {
  const auto file = std::filesystem::path(opened.library.path()).parent_path() /
                    fmt::format("libnvrtc-builtins.so.{}.{}", opened.release.major, opened.release.minor);
  std::string why;
  DynamicLibrary::open(file.string(), why);
}

class Nvrtc final : public Compiler {
 public:
  explicit Nvrtc(const Opened& opened) : opened_(opened) {}

  const CompilerVersion& version() const override {
    std::call_once(version_once_, [this] { version_ = ask_version(); });
    return version_;
  }

  Compiled compile(const codegen::KernelSource& source) const override {
    const auto start = std::chrono::steady_clock::now();
    Program program(opened_.functions, source.template_text, "/cubit/" + source.template_name, source.headers);
    if (!program.compile(known_options(compiler_options(source)))) {
      throw compile_failure(source, name(), program.reason(), program.log());
    }
    Compiled compiled;
    const bool makes_ptx = source.code == codegen::Code::ptx;
    const std::string ptx = makes_ptx ? program.ptx() : std::string();
    compiled.cubin = makes_ptx ? ptx_bytes(ptx) : program.cubin();
    compiled.log = program.log();
    compiled.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (compiled.cubin.empty()) throw compile_failure(source, name(), "the compiler made no code", compiled.log);
    if (makes_ptx) {
      require_entry(ptx, source.entry_point);
    } else {
      compiled.resources = parse_resource_report(compiled.log, source.entry_point);  // ptxas reports registers
    }
    return compiled;
  }

 private:
  std::string name() const {
    return fmt::format("NVRTC {}.{} ({})", opened_.release.major, opened_.release.minor, opened_.library.path());
  }

  /// NVRTC before 12.9 has no cache and rejects the option that turns the cache off.
  std::vector<std::string> known_options(std::vector<std::string> options) const {
    if (opened_.release < kFirstWithCache) std::erase(options, kNoCache);
    return options;
  }

  CompilerVersion ask_version() const {
    Program program(opened_.functions, "", "version", {});
    if (!program.compile(known_options({kNoCache}))) {
      throw Failure(Status::compiler_unavailable, name(),
                    fmt::format("it cannot compile an empty program ({})\n{}", program.reason(), program.log()),
                    kHowToGetOne);
    }
    if (const auto version = version_in_ptx(program.ptx())) return *version;
    throw Failure(Status::compiler_unavailable, name(), "the library does not report its build number", kHowToGetOne);
  }

  Opened opened_;
  mutable std::once_flag version_once_;
  mutable CompilerVersion version_;
};

/// The registry of all NVRTC libraries of this process, by the path of the file. The registry is never destroyed,
/// because threads may still compile while the process ends. Libraries are never removed, because NVRTC does not
/// support unloading.
std::shared_ptr<const Compiler> shared_compiler(const Opened& opened) {
  static auto& mutex = *new std::mutex;
  static auto& compilers = *new std::map<std::string, std::shared_ptr<const Compiler>>;
  const std::lock_guard lock(mutex);
  auto& compiler = compilers[opened.library.path()];
  if (!compiler) compiler = std::make_shared<Nvrtc>(opened);
  return compiler;
}

std::optional<Opened> newest_usable(std::span<const std::string> candidates, int driver_major, std::string& tried) {
  std::optional<Opened> best;
  for (const std::string& candidate : candidates) {
    std::string why;
    auto opened = open_candidate(candidate, why);
    if (opened && driver_major != 0 && opened->release.major > driver_major) {
      why = fmt::format("version {}.{} is newer than the driver, which takes {}.x", opened->release.major,
                        opened->release.minor, driver_major);
      opened.reset();
    }
    if (!opened) {
      tried += fmt::format("{}{}: {}", tried.empty() ? "" : "; ", candidate, why);
    } else if (!best || opened->release > best->release) {
      best = opened;
    }
  }
  return best;
}

/// The newest usable library in the folder that the user named. Another folder would surprise the user.
Opened open_in_named_folder(const NamedFolder& named, int driver_major) {
  const std::vector<std::string> files = nvrtc_files_in(named.path);
  std::string tried;
  if (auto opened = newest_usable(files, driver_major, tried)) return *opened;
  std::error_code error;
  const char* const none = std::filesystem::is_directory(named.path, error) ? "the folder holds no NVRTC library"
                                                                            : "there is no such folder";
  throw Failure(
      Status::compiler_unavailable, named.variable + "=" + named.path,
      files.empty() ? std::string(none) : "the folder holds no NVRTC library that is usable here (" + tried + ")",
      fmt::format("name a folder with NVRTC 12.8 or newer, or unset {} so that cubit searches", named.variable));
}

/// The library at `path`, or the newest usable one of the named folder or of the search.
Opened open_nvrtc(const std::string& path, int driver_major, std::span<const std::string> folders,
                  const NamedFolder& named) {
  const bool searched = path.empty();
  if (searched && !named.path.empty()) {
    const Opened opened = open_in_named_folder(named, driver_major);
    open_builtins(opened);
    return opened;
  }
  const std::vector<std::string> candidates = searched ? nvrtc_candidates(folders) : std::vector{path};
  std::string tried;
  auto opened = newest_usable(candidates, searched ? driver_major : 0, tried);
  if (!opened) {
    throw Failure(Status::compiler_unavailable, searched ? "NVRTC" : path,
                  "no usable NVRTC library was found (" + tried + ")", kHowToGetOne);
  }
  open_builtins(*opened);
  return *opened;
}

}  // namespace

std::string CompilerVersion::text() const { return fmt::format("{}.{}.{}", major, minor, build); }

std::vector<std::string> compiler_options(const codegen::KernelSource& source) {
  if (source.code == codegen::Code::cubin) {
    std::vector<std::string> options = {"--gpu-architecture=" + source.target};
    options.insert(options.end(), source.options.begin(), source.options.end());
    return options;
  }
  std::vector<std::string> options = {"--gpu-architecture=compute_" + source.target.substr(source.target.find('_') + 1),
                                      "--generate-line-info"};
  std::copy_if(source.options.begin(), source.options.end(), std::back_inserter(options),
               [](const std::string& option) { return !option.starts_with("--ptxas-options"); });
  return options;
}

std::shared_ptr<const Compiler> load_nvrtc(const std::string& path, int driver_major,
                                           std::span<const std::string> folders) {
  return load_nvrtc(path, driver_major, folders, {});
}

std::shared_ptr<const Compiler> load_nvrtc(const std::string& path, int driver_major,
                                           std::span<const std::string> folders, const NamedFolder& named) {
  return shared_compiler(open_nvrtc(path, driver_major, folders, named));
}

DynamicLibrary open_nvrtc_library(const std::string& path, std::span<const std::string> folders) {
  return open_nvrtc_library(path, folders, {});
}

DynamicLibrary open_nvrtc_library(const std::string& path, std::span<const std::string> folders,
                                  const NamedFolder& named) {
  return open_nvrtc(path, 0, folders, named).library;
}

}  // namespace cubit::runtime
