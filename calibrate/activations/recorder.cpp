#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cubit/calibrate.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/errors.hpp"
#include "calibrate/statistics/values.hpp"
#include "files/output_file.hpp"
#include "files/output_folder.hpp"
#include "files/text/quote.hpp"

namespace cubit::calibrate {
namespace {

constexpr std::string_view kFilePrefix = "batch_";
constexpr std::string_view kFileSuffix = ".safetensors";

/// The number after the largest one of the folder's files.
std::uint64_t next_number(const std::string& folder) {
  std::uint64_t next = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kFilePrefix) || !name.ends_with(kFileSuffix)) continue;
    std::uint64_t number = 0;
    const char* begin = name.data() + kFilePrefix.size();
    const char* end = name.data() + name.size() - kFileSuffix.size();
    if (std::from_chars(begin, end, number).ptr == end) next = std::max(next, number + 1);
  }
  return next;
}

std::string batch_file_name(std::uint64_t number) {
  constexpr std::size_t kDigits = 6;
  const std::string digits = std::to_string(number);
  return std::string(kFilePrefix) + std::string(kDigits - std::min(kDigits, digits.size()), '0') + digits +
         std::string(kFileSuffix);
}

/// Refuses a name that a safetensors file cannot hold.
void require_name(const std::string& layer) {
  bool is_utf8 = true;
  try {
    static_cast<void>(nlohmann::json(layer).dump());
  } catch (const nlohmann::json::type_error&) {
    is_utf8 = false;
  }
  if (!is_utf8 || layer == "__metadata__" || layer.find('\0') != std::string::npos)
    refuse("layer " + tools::quote(layer), "is no name of a tensor", "give UTF-8 without zero bytes");
}

}  // namespace

struct Recorder::Copy {
  std::string layer;
  std::string type;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> data;
};

Recorder::Recorder(std::string folder) : folder_(std::move(folder)) {
  at_surface([&] {
    tools::make_folder(folder_, "recorder");
    next_ = next_number(folder_);
  });
}

Recorder::~Recorder() = default;

void Recorder::add(const std::string& layer, const Tensor& input) {
  at_surface([&] {
    require_size(input);
    require_name(layer);
    const auto is_same = [&](const Copy& copy) { return copy.layer == layer; };
    if (std::any_of(batch_.begin(), batch_.end(), is_same))
      refuse("layer " + layer, "is already in this batch", "call end_batch first, or give one tensor with all tokens");
    batch_.push_back({layer,
                      std::string(input.type),
                      {input.shape.begin(), input.shape.end()},
                      {input.data.begin(), input.data.end()}});
  });
}

std::string Recorder::end_batch() {
  return at_surface([&]() -> std::string {
    if (batch_.empty()) return "";
    std::vector<tools::TensorView> views;
    for (const Copy& copy : batch_) views.push_back({copy.layer, copy.type, copy.shape, copy.data});
    while (true) {
      std::string path = (std::filesystem::path(folder_) / batch_file_name(next_++)).string();
      if (std::filesystem::exists(path) || !tools::OutputFile(path).commit_new(views)) continue;
      batch_.clear();
      return path;
    }
  });
}

}  // namespace cubit::calibrate
