#include "tools/checkpoint/reader.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "files/text/error.hpp"
#include "files/text/quote.hpp"
#include "tools/checkpoint/index.hpp"
#include "tools/checkpoint/layer.hpp"

namespace cubit::tools {
namespace {

constexpr const char* kTogether = "give files that belong together: copy the checkpoint again";

std::string name_of(const SafetensorsReader& file) { return std::filesystem::path(file.path()).filename().string(); }

}  // namespace

CheckpointReader::CheckpointReader(const std::string& path) {
  std::vector<std::string> paths = checkpoint_files(path);
  if (paths.front().ends_with(".json")) {
    index_ = paths.front();
    paths.erase(paths.begin());
    text_ = read_checkpoint_index(index_);
    if (paths.empty()) throw BadInput(index_, "the index names no tensor", "give a checkpoint's index");
  }
  for (const std::string& file : paths) {
    if (has_index()) require_shard(file, index_);
    files_.push_back(std::make_unique<SafetensorsReader>(file));
    for (const HeaderEntry& tensor : files_.back()->tensors()) owners_.emplace(&tensor, files_.back().get());
  }
  if (has_index()) check_against(parse_checkpoint_index(text_, index_));
}

void CheckpointReader::check_against(const std::map<std::string, std::string>& index) const {
  std::map<std::string, std::string> missing = index;
  for (const auto& file : files_) {
    for (const HeaderEntry& tensor : file->tensors()) {
      const auto named = index.find(tensor.name);
      if (named != index.end() && named->second == name_of(*file)) {
        missing.erase(tensor.name);
        continue;
      }
      throw BadInput(file->path(),
                     fmt::format("has tensor {}, which the index {}", quote(tensor.name),
                                 named == index.end() ? "does not name" : "says is in " + quote(named->second)),
                     kTogether);
    }
  }
  if (missing.empty()) return;
  const auto& [tensor, file] = *missing.begin();
  throw BadInput(std::filesystem::path(index_).replace_filename(file).string(),
                 fmt::format("has no tensor {}, although the index names it", quote(tensor)), kTogether);
}

void CheckpointReader::read(const HeaderEntry& tensor, std::uint64_t begin, std::span<std::byte> dst) const {
  owners_.at(&tensor)->read(tensor, begin, dst);
}

std::string CheckpointReader::index_of(const std::map<std::string, std::string>& files,
                                       std::uint64_t total_bytes) const {
  auto index =
      nlohmann::ordered_json::parse(text_);  // The constructor has parsed this text before, so the text is valid.
  auto& metadata = index["metadata"];
  if (!metadata.is_object()) metadata = nlohmann::ordered_json::object();
  metadata["total_size"] = total_bytes;
  index["weight_map"] = files;
  return index.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

}  // namespace cubit::tools
