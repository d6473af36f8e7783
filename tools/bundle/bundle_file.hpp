// Bundles, for the commands compile and bundle: the entries of a bundle file, and a new bundle made from kernels and
// from entries. The implementation links the bundle code of runtime/, whose writer libcubit does not contain.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace cubit::runtime {
class Bundle;
class BundleWriter;
struct BundleRecord;
}  // namespace cubit::runtime

namespace cubit::tools {

/// The facts of an entry.
struct BundleRow {
  std::uint64_t index = 0;  ///< position in the bundle
  std::string key;          ///< request key, 64 digits
  std::string descriptor;
  std::string architecture;
  std::string entry_point;
  std::string code;  ///< "cubin" or "ptx"
  std::string compiler;
  std::string library;  ///< the version of cubit that made the entry
  int registers = 0;
  int spill_store_bytes = 0;
  int spill_load_bytes = 0;
  int stack_bytes = 0;
  int static_shared_memory = 0;
  int barriers = 0;
  std::uint64_t bytes = 0;       ///< in the bundle
  std::uint64_t code_bytes = 0;  ///< after decompression
  std::string hash;              ///< of the code, 64 digits

  nlohmann::ordered_json json() const;
};

/// An open bundle.
class BundleFile {
 public:
  /// Throws BadInput if the file cannot be read or its header is damaged.
  explicit BundleFile(const std::string& path);
  ~BundleFile();
  BundleFile(BundleFile&&) noexcept;
  BundleFile(const BundleFile&) = delete;
  BundleFile& operator=(const BundleFile&) = delete;
  BundleFile& operator=(BundleFile&&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t bytes() const;
  std::uint64_t entries() const;
  std::string root() const;    ///< 64 digits
  std::string signer() const;  ///< the public key, 64 digits; "" if the bundle is not signed
  /// The facts of all entries, in the order of the file. Throws BadInput at the first damaged entry.
  std::vector<BundleRow> rows() const;
  /// The code of an entry. Throws BadInput if the entry is damaged.
  std::string code(const BundleRow& row) const;

 private:
  friend class BundleBuilder;
  std::string path_;
  std::unique_ptr<const runtime::Bundle> bundle_;
};

/// The first defect of the file at `path` after a check of every byte, also of the header; "" if there is none. Throws
/// BadInput if the file cannot be read.
std::string bundle_damage(const std::string& path);

/// The public key in its usual spelling. Throws BadInput if `text` is not a public key.
std::string checked_public_key(const std::string& text);

/// Makes a pair of keys, writes NAME.public and NAME.secret, which only the user can read, and returns the public key.
/// Existing files are not replaced. Throws BadInput.
std::string make_key_files(const std::string& name);

/// Signs the bundle with the secret key in `key_file`, after a check of every byte. The file is replaced as a whole.
/// Throws BadInput, also if the bundle is damaged.
void sign_bundle(const std::string& path, const std::string& key_file);

/// Collects kernels and entries of other bundles, and writes them as one bundle. All functions are thread-safe; kernels
/// are compressed outside the lock.
class BundleBuilder {
 public:
  BundleBuilder();
  ~BundleBuilder();
  BundleBuilder(const BundleBuilder&) = delete;
  BundleBuilder& operator=(const BundleBuilder&) = delete;

  /// Adds a kernel that an engine returned. `kernel` is the JSON of cubit_kernel_describe, and `descriptor` is the text
  /// to store. Throws BadInput if another kernel with the same key has other code.
  void add_kernel(const std::string& descriptor, const nlohmann::json& kernel, std::span<const std::byte> code);
  /// Copies an entry of another bundle. Throws BadInput as above, or if the entry is damaged.
  void add(const BundleFile& file, const BundleRow& row);
  /// Adds all entries of a cache folder for these architectures, or for every architecture if the list is empty.
  /// Returns one sentence for each entry that an engine would not use: it is damaged or misplaced, or others than the
  /// trusted users can write it. Throws BadInput for a folder that an engine would not use.
  std::vector<std::string> add_folder(const std::string& folder, const std::vector<std::string>& architectures);

  std::uint64_t entries() const;
  /// Writes the bundle as OutputFile does: completely or not at all. Throws BadInput or WorkFailed. Returns the size.
  std::uint64_t write(const std::string& path) const;

 private:
  mutable std::mutex mutex_;
  std::unique_ptr<runtime::BundleWriter> writer_;
};

}  // namespace cubit::tools
