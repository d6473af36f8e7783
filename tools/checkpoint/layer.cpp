#include "tools/checkpoint/layer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <system_error>

#include "files/safetensors/reader.hpp"
#include "files/text/error.hpp"
#include "tools/checkpoint/index.hpp"

namespace cubit::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndex = ".safetensors.index.json";
constexpr const char* kTensors = ".safetensors";

/// The sorted names of the files in a folder that end with a suffix.
std::vector<std::string> names_in(const std::string& folder, std::string_view end) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), last; !error && entry != last; entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name.ends_with(end)) names.push_back(std::move(name));
  }
  if (error) throw BadInput(folder, "cannot be read: " + error.message(), kReadableWanted);
  std::sort(names.begin(), names.end());
  return names;
}

/// Whether a name belongs to a sharded checkpoint, as "model-00001-of-00002.safetensors" does.
bool is_one_of_several(const std::string& name) {
  constexpr std::string_view kPattern = "-00001-of-00001";
  const std::string_view stem = std::string_view(name).substr(0, name.size() - std::string_view(kTensors).size());
  if (stem.size() < kPattern.size()) return false;
  const std::string_view end = stem.substr(stem.size() - kPattern.size());
  const auto is_alike = [](char a, char b) {
    return std::isdigit(static_cast<unsigned char>(b)) != 0 ? a >= '0' && a <= '9' : a == b;
  };
  return std::ranges::equal(end, kPattern, is_alike) && !end.ends_with("-of-00001");
}

/// Returns the index of a folder, else its only safetensors file. Any other path is returned unchanged.
std::string checkpoint_file(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  for (const char* end : {kIndex, kTensors}) {
    const std::vector<std::string> names = names_in(path, end);
    if (names.size() == 1 && end == kTensors && is_one_of_several(names.front())) {
      throw BadInput(path, fmt::format("the folder holds {}, a part of a checkpoint, but no index", names.front()),
                     "give the folder of a complete checkpoint, or the path of this file");
    }
    if (names.size() == 1) return (fs::path(path) / names.front()).string();
    if (names.empty()) continue;
    throw BadInput(path, fmt::format("the folder holds {} files *{}, for example {}", names.size(), end, names.front()),
                   "give the path of one file");
  }
  throw BadInput(path, fmt::format("the folder holds neither *{} nor *{}", kIndex, kTensors),
                 "give a checkpoint's folder");
}

std::string beside(const std::string& index, const std::string& shard) {
  return fs::path(index).replace_filename(shard).string();
}

std::string layer_of(const std::string& tensor) { return tensor.substr(0, std::min(tensor.rfind('.'), tensor.size())); }

/// What to ask for instead of a layer that does not exist: the quantised layers, else the layers with a weight. If
/// tensors belong to no layer, the remedy is to leave --layer out.
std::string remedy_of_layer(const std::vector<std::string>& tensors) {
  constexpr std::size_t kShown = 2;
  for (const char* const part : {"qweight", "weight_packed", "weight"}) {
    if (std::find(tensors.begin(), tensors.end(), part) != tensors.end())
      return "leave --layer out for a layer without a name";
    std::set<std::string> layers;
    for (const std::string& tensor : tensors)
      if (tensor.ends_with(std::string(".") + part)) layers.insert(layer_of(tensor));
    if (layers.empty()) continue;
    std::string text;
    std::size_t shown = 0;
    for (auto layer = layers.begin(); layer != layers.end() && shown < kShown; ++layer, ++shown)
      text += (text.empty() ? "" : ", ") + quote(*layer);
    return fmt::format("accepted: {}{}", text, layers.size() > kShown ? " …" : "");
  }
  return "give a checkpoint with tensors NAME.qweight, NAME.scales and others, or NAME.weight";
}

}  // namespace

std::vector<std::string> checkpoint_files(const std::string& path) {
  const std::string file = checkpoint_file(path);
  if (!file.ends_with(".json")) return {file};
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : parse_checkpoint_index(read_checkpoint_index(file), file)) shards.insert(shard);
  std::vector<std::string> files = {file};
  for (const std::string& shard : shards) files.push_back(beside(file, shard));
  return files;
}

CheckpointLayer::CheckpointLayer(const std::string& path, const std::string& layer)
    : prefix_(layer.empty() ? "" : layer + ".") {
  const std::string file = checkpoint_file(path);
  std::vector<std::string> seen;
  const auto has = [&](const char* part) { return std::find(seen.begin(), seen.end(), prefix_ + part) != seen.end(); };
  const auto kind = [&] {
    if (!has("weight") || has("qweight") || has("weight_packed")) return Kind::words;
    return has("weight_scale") ? Kind::eight_bit : Kind::dense;
  };
  if (!file.ends_with(".json")) {
    const SafetensorsReader reader(file);
    for (const HeaderEntry& tensor : reader.tensors()) seen.push_back(tensor.name);
    kind_ = kind();
    files_.emplace_back(reader, [&](const std::string& name) { return is_of_layer(name); });
    add_tensors(files_.back());
  } else {
    const auto index = parse_checkpoint_index(read_checkpoint_index(file), file);
    for (const auto& [tensor, shard] : index) seen.push_back(tensor);
    kind_ = kind();
    std::map<std::string, std::vector<std::string>> shards;
    for (const auto& [tensor, shard] : index)
      if (is_of_layer(tensor)) shards[shard].push_back(tensor);
    for (const auto& [shard, names] : shards) {
      require_shard(beside(file, shard), file);
      read_shard(beside(file, shard), names);
    }
  }
  if (!tensors_.empty()) return;
  if (layer.empty())
    throw BadInput("no --layer", fmt::format("{} has no tensors without a layer name", printable(file)),
                   remedy_of_layer(seen));
  throw BadInput("--layer " + layer, fmt::format("{} has no tensors of this layer", printable(file)),
                 remedy_of_layer(seen));
}

bool CheckpointLayer::is_of_layer(const std::string& tensor) const {
  if (!tensor.starts_with(prefix_)) return false;
  const std::string_view part = std::string_view(tensor).substr(prefix_.size());
  if (kind_ == Kind::dense) return part == "weight" || part == "bias";
  const std::span<const std::string_view> names =
      kind_ == Kind::words ? std::span<const std::string_view>(kLayerTensors) : kEightBitTensors;
  return std::find(names.begin(), names.end(), part) != names.end();
}

void CheckpointLayer::read_shard(const std::string& path, const std::vector<std::string>& names) {
  const auto is_wanted = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const SafetensorsFile& file = files_.emplace_back(SafetensorsReader(path), is_wanted);
  for (const std::string& name : names) {
    const auto& tensors = file.tensors();
    const auto found =
        std::find_if(tensors.begin(), tensors.end(), [&](const TensorView& tensor) { return tensor.name == name; });
    if (found != tensors.end()) continue;
    throw BadInput(path, fmt::format("has no tensor {}, although the index names it", quote(name)),
                   "give files that belong together: copy the checkpoint again");
  }
  add_tensors(file);
}

void CheckpointLayer::add_tensors(const SafetensorsFile& file) {
  for (TensorView tensor : file.tensors()) {
    tensor.name = tensor.name.substr(prefix_.size());
    if (tensor.name == "weight") tensor.name = "weights";
    tensors_.push_back(std::move(tensor));
  }
}

}  // namespace cubit::tools
