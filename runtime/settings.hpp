// Settings from the environment. All environment variables that the library reads are read here.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/compiler/nvrtc.hpp"
#include "runtime/compiler/nvrtc_search.hpp"

namespace cubit::runtime {

enum class CompilePolicy : int { allow = 0, never = 1 };

/// Which compiler's entries answer a request: any whose code the driver can load, or only those of the NVRTC that this
/// engine would compile with.
enum class CompilerPolicy : int { any = 0, exact = 1 };

class Store;

/// A bundle in the memory of the embedding program. The bytes must stay valid and unchanged as long as the engine.
struct BundleMemory {
  std::string name;  ///< for messages
  std::span<const std::byte> bytes;
};

/// What the environment decides. An embedding program may fill in the fields itself.
struct Settings {
  /// Folder of the disk cache; "" means no disk cache. The first variable that is set decides: CUBIT_CACHE_DIR (which
  /// may be empty), $XDG_CACHE_HOME/cubit, $HOME/.cache/cubit.
  std::string cache_dir = {};
  /// No variable named a folder for the cache, and the engine says so.
  bool is_cache_dir_unknown = false;
  /// The program and not the environment named the folder, so commands for the tool must name the folder as well.
  bool is_cache_dir_given = false;
  /// Further cache folders, which are only read, in this order (CUBIT_SYSTEM_CACHES, separated by colons).
  std::vector<std::string> system_caches = {};
  /// Files of bundles, which the engine asks after the folders, in this order (CUBIT_BUNDLES, separated by colons).
  std::vector<std::string> bundles = {};
  /// Bundles in memory, which the engine asks after the files.
  std::vector<BundleMemory> bundle_memory = {};
  /// Public keys, separated by colons (CUBIT_PUBLIC_KEYS). If there is one, the engine loads only bundles that one of
  /// these keys signed, and uses no cache folder.
  std::string public_keys = {};
  /// An engine with public keys compiles only if this is set. The code then stays in memory.
  bool allow_local_compile = false;
  /// Further stores, which the engine asks last. The embedding program vouches for them.
  std::vector<std::shared_ptr<const Store>> stores = {};
  /// Whose entries are trusted like one's own (CUBIT_CACHE_TRUST); see runtime/cache/trust.hpp.
  std::string cache_trust = {};
  /// Limits of the user's folder; 0 means none (CUBIT_CACHE_MAX_BYTES, with a suffix K, M or G; CUBIT_CACHE_MAX_DAYS).
  std::uint64_t cache_max_bytes = 0;
  int cache_max_days = 0;
  /// How long a request waits for another process that compiles the same kernel (CUBIT_LOCK_WAIT, in seconds).
  std::chrono::milliseconds lock_wait = std::chrono::minutes(2);
  /// NVRTC library file to load (CUBIT_NVRTC). "" searches for NVRTC; see runtime/compiler/nvrtc.hpp.
  std::string nvrtc_path = {};
  /// The folder that the user named for NVRTC: the first of CUBIT_NVRTC_DIR, CUDA_HOME and CUDA_PATH that is set. No
  /// other folder is searched then. A folder is a toolkit, a virtual environment or a folder of NVIDIA's wheels.
  NamedFolder nvrtc_folder = {};
  /// Folders to search for NVRTC before the machine's usual folders: VIRTUAL_ENV and CONDA_PREFIX, if set, and
  /// $HOME/.local.
  std::vector<std::string> nvrtc_folders = {};
  /// CUBIT_COMPILE=never forbids compilation.
  CompilePolicy compile_policy = CompilePolicy::allow;
  /// CUBIT_COMPILER=exact accepts only entries of the NVRTC that is found, or of `compiler_version`.
  CompilerPolicy compiler_policy = CompilerPolicy::any;
  /// CUBIT_COMPILER=13.0.88 means the policy `exact` with this version. The engine then opens NVRTC only to compile,
  /// and refuses to compile with another version.
  std::optional<CompilerVersion> compiler_version = {};

  /// Reads the environment. Throws Failure(invalid_argument) for a value that is not accepted. CUBIT_COMPILE is not
  /// read if the caller gives `policy`.
  static Settings from_environment(std::optional<CompilePolicy> policy = std::nullopt);
};

/// The parts of a list of paths like PATH. Empty parts are left out.
std::vector<std::string> path_list(std::string_view list);

}  // namespace cubit::runtime
