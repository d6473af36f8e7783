#include <fnmatch.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cubit/calibrate.hpp>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/parallel.hpp"
#include "calibrate/errors.hpp"
#include "calibrate/statistics/parts.hpp"
#include "files/input_file.hpp"
#include "files/safetensors/reader.hpp"
#include "files/text/json.hpp"

namespace cubit::calibrate {
namespace {

using tools::HeaderEntry;
using tools::SafetensorsReader;

constexpr std::uint64_t kSegmentBytes = std::uint64_t{8} << 20;  ///< between two merges of one thread
constexpr std::uint64_t kReadBytes = std::uint64_t{1} << 18;     ///< read at a time, so that they stay in the L2 cache
constexpr std::size_t kSegmentsPerThread = 4;                    ///< between two merges

std::string file_name(const std::string& path) { return std::filesystem::path(path).filename().string(); }

std::int64_t width_of(const HeaderEntry& tensor) { return tensor.shape.empty() ? 1 : tensor.shape.back(); }

/// Neighbouring tokens of a tensor. The split depends only on sizes, so results do not depend on the threads.
struct Segment {
  const HeaderEntry* tensor;
  std::uint64_t begin;  ///< in bytes
  std::uint64_t end;
};

std::vector<Segment> segments_of(const HeaderEntry& tensor) {
  const std::uint64_t bytes = bytes_of(tensor);
  const std::uint64_t token = static_cast<std::uint64_t>(width_of(tensor)) * bytes_of(parse_value_type(tensor.type));
  std::vector<Segment> segments;
  const std::uint64_t step = bytes == 0 ? 1 : std::max<std::uint64_t>(1, kSegmentBytes / token) * token;
  for (std::uint64_t begin = 0; begin < bytes; begin += step)
    segments.push_back({&tensor, begin, std::min(bytes, begin + step)});
  return segments;
}

using Texts = std::vector<std::string>;

/// What a saved collector notes beside its statistics.
struct Notes {
  Texts files;
  Texts identities;  ///< of the files
  Texts patterns;    ///< sorted, without repetitions
};

std::string text_of_patterns(const Texts& patterns) { return nlohmann::json(patterns).dump(); }

bool are_texts(const nlohmann::json& json) {
  return json.is_array() && std::all_of(json.begin(), json.end(), [](const auto& one) { return one.is_string(); });
}

Notes parse_notes(const std::string& path, const std::string& text) {
  const nlohmann::json json = tools::parse_json(text);
  const auto texts = [&](const char* name) {
    const nlohmann::json found = json.is_object() ? json.value(name, nlohmann::json()) : nlohmann::json();
    if (!are_texts(found))
      refuse(path, "does not name the files and patterns of its statistics",
             "give a file that this version of Collector::save or cubit calibrate wrote");
    return found.get<Texts>();
  };
  Notes notes = {texts("files"), texts("identities"), texts("layers")};
  if (notes.identities.size() != notes.files.size())
    refuse(path, "does not identify each of its files", "collect the statistics again");
  return notes;
}

}  // namespace

struct Collector::State {
  Collect collect;
  std::size_t threads = 1;
  Texts patterns;                       ///< sorted, without repetitions
  std::vector<NamedStatistics> layers;  ///< sorted by name
  Texts files;
  Texts identities;                            ///< of the files
  std::map<std::string, std::int64_t> widths;  ///< of all files that were checked

  bool is_wanted(const std::string& layer) const {
    const auto matches = [&](const std::string& one) { return ::fnmatch(one.c_str(), layer.c_str(), 0) == 0; };
    return std::any_of(patterns.begin(), patterns.end(), matches);
  }
  Statistics::Parts& parts_of(const std::string& layer) {
    const auto at =
        std::lower_bound(layers.begin(), layers.end(), layer,
                         [](const NamedStatistics& one, const std::string& name) { return one.layer < name; });
    if (at != layers.end() && at->layer == layer) return at->statistics.parts();
    return layers.insert(at, {layer, Statistics(collect)})->statistics.parts();
  }
  std::vector<const HeaderEntry*> check(const SafetensorsReader& file);
  void add_round(const SafetensorsReader& file, std::span<const Segment> round);
  void require_new(const std::string& name) const {
    if (std::find(files.begin(), files.end(), name) != files.end())
      refuse("file " + name, "has been added already", "give each batch a file name of its own");
  }
  void restore(const std::string& path, const Notes& notes, std::vector<NamedStatistics> saved);
};

/// The wanted tensors of a file.
std::vector<const HeaderEntry*> Collector::State::check(const SafetensorsReader& file) {
  std::vector<const HeaderEntry*> wanted;
  for (const HeaderEntry& tensor : file.tensors()) {
    if (!is_wanted(tensor.name)) continue;
    const std::string given = file.path() + ", tensor " + tensor.name;
    try {
      parse_value_type(tensor.type);
    } catch (const Failure& failure) {
      refuse(given, "has the " + failure.given() + ", which " + failure.rule(), failure.remedy());
    }
    const std::int64_t width = width_of(tensor);
    const auto [known, is_new] = widths.emplace(tensor.name, width);
    if (!is_new && known->second != width)
      refuse(given,
             "has " + std::to_string(width) + " channels, but earlier batches have " + std::to_string(known->second),
             "record all batches from the same model");
    wanted.push_back(&tensor);
  }
  return wanted;
}

/// Collects statistics of each segment on its own, then merges them in order.
void Collector::State::add_round(const SafetensorsReader& file, std::span<const Segment> round) {
  std::vector<Statistics::Parts> partial(round.size(), Statistics::Parts(collect));
  std::atomic<std::size_t> next{0};
  on_threads(std::min(threads, round.size()), [&](std::size_t) {
    std::vector<std::byte> bytes;
    for (std::size_t i = next++; i < round.size(); i = next++) {
      const Segment& segment = round[i];
      const ValueType type = parse_value_type(segment.tensor->type);
      const auto width = static_cast<std::uint64_t>(width_of(*segment.tensor));
      const std::uint64_t token = width * bytes_of(type);
      const std::uint64_t step = std::max<std::uint64_t>(1, kReadBytes / token) * token;
      partial[i].set_channels(width);
      for (std::uint64_t begin = segment.begin; begin < segment.end; begin += step) {
        bytes.resize(std::min(step, segment.end - begin));
        file.read(*segment.tensor, begin, bytes);
        partial[i].add_tokens(type, bytes);
      }
    }
  });
  for (std::size_t i = 0; i < round.size(); ++i) parts_of(round[i].tensor->name).merge(partial[i]);
}

/// Adds the wanted layers of a saved collector, and its files.
void Collector::State::restore(const std::string& path, const Notes& notes, std::vector<NamedStatistics> saved) {
  std::size_t wanted = 0;
  for (NamedStatistics& one : saved) {
    if (!is_wanted(one.layer)) continue;
    ++wanted;
    if (one.statistics.channels() > 0) widths.emplace(one.layer, static_cast<std::int64_t>(one.statistics.channels()));
    parts_of(one.layer);
    const auto at =
        std::find_if(layers.begin(), layers.end(), [&](const auto& layer) { return layer.layer == one.layer; });
    at->statistics.merge(one.statistics);
  }
  if (wanted == 0 && !saved.empty())
    refuse(path, "has no layer that matches the patterns " + text_of_patterns(patterns),
           "give patterns that match its layers");
  files.insert(files.end(), notes.files.begin(), notes.files.end());
  identities.insert(identities.end(), notes.identities.begin(), notes.identities.end());
}

Collector::Collector(Collect collect, int threads, std::vector<std::string> layers)
    : state_(std::make_unique<State>()) {
  state_->collect = collect;
  state_->threads = threads > 0 ? static_cast<std::size_t>(threads) : processors();
  if (layers.empty()) layers = {"*"};
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  state_->patterns = std::move(layers);
}

Collector::Collector(Collector&&) noexcept = default;
Collector& Collector::operator=(Collector&&) noexcept = default;
Collector::~Collector() = default;

void Collector::check_file(const std::string& path) {
  at_surface([&] { state_->check(SafetensorsReader(path)); });
}

void Collector::add_file(const std::string& path, const std::function<void(std::uint64_t)>& progress) {
  at_surface([&] {
    state_->require_new(file_name(path));
    std::string identity = tools::identity_of(path);  // before the values are read: a later change shows
    const SafetensorsReader file(path);
    const auto tensors = state_->check(file);
    std::vector<Segment> segments;
    for (const HeaderEntry* tensor : tensors) {
      Statistics::Parts& parts = state_->parts_of(tensor->name);
      // A tensor without tokens may claim any number of channels, so memory is allocated for values only.
      if (parts.channels.minimum.empty() && bytes_of(*tensor) > 0)
        parts.set_channels(static_cast<std::uint64_t>(width_of(*tensor)));
      ++parts.batches;
      for (const Segment& segment : segments_of(*tensor)) segments.push_back(segment);
    }
    std::uint64_t done = 0;
    const std::size_t most = state_->threads * kSegmentsPerThread;
    for (std::span<const Segment> rest = segments; !rest.empty(); rest = rest.subspan(std::min(most, rest.size()))) {
      const auto round = rest.first(std::min(most, rest.size()));
      state_->add_round(file, round);
      for (const Segment& segment : round) done += segment.end - segment.begin;
      if (progress) progress(done);
    }
    state_->files.push_back(file_name(path));
    state_->identities.push_back(std::move(identity));
  });
}

bool Collector::has_file(const std::string& path) const {
  return at_surface([&] {
    const auto known = std::find(state_->files.begin(), state_->files.end(), file_name(path));
    if (known == state_->files.end()) return false;
    const auto at = static_cast<std::size_t>(known - state_->files.begin());
    if (state_->identities[at] != tools::identity_of(path))
      refuse(path, "has the name of a file that has been added, but another folder, size or time of the last change",
             "collect new statistics, or give each batch a file name of its own");
    return true;
  });
}

std::span<const NamedStatistics> Collector::layers() const { return state_->layers; }
std::span<const std::string> Collector::files() const { return state_->files; }

void Collector::save(const std::string& path) const {
  const nlohmann::json notes = {
      {"files", state_->files}, {"identities", state_->identities}, {"layers", state_->patterns}};
  write_statistics(path, state_->layers, notes.dump());
}

void Collector::load(const std::string& path) {
  state_->layers.clear();
  state_->files.clear();
  state_->identities.clear();
  state_->widths.clear();
  at_surface([&] {
    std::string text;
    std::vector<NamedStatistics> saved = read_statistics(path, &text);
    const Notes notes = parse_notes(path, text);
    // A file that has been added is not read again, so the layers of other patterns would lack its values.
    if (notes.patterns != state_->patterns)
      refuse(path,
             "was collected with the patterns " + text_of_patterns(notes.patterns) + ", not " +
                 text_of_patterns(state_->patterns),
             "give the same patterns, or keep these statistics in another file");
    state_->restore(path, notes, std::move(saved));
  });
}

void Collector::merge(const std::string& path) {
  at_surface([&] {
    std::string text;
    std::vector<NamedStatistics> saved = read_statistics(path, &text);
    const Notes notes = parse_notes(path, text);
    for (const std::string& name : notes.files) state_->require_new(name);
    state_->restore(path, notes, std::move(saved));
  });
}

std::vector<std::string> activation_files(const std::string& path) {
  return at_surface([&] {
    namespace fs = std::filesystem;
    if (!fs::is_directory(path)) return std::vector<std::string>{path};
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(path))
      if (entry.path().extension() == ".safetensors") files.push_back(entry.path().string());
    if (files.empty()) refuse(path, "has no files that end in .safetensors", "give a folder with one file per batch");
    std::sort(files.begin(), files.end());
    return files;
  });
}

}  // namespace cubit::calibrate
