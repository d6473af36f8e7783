// Reads the index with a small state machine on the JSON parser's events, as safetensors/header.cpp reads a header. The
// reader stops at the first violation and builds no tree. Members other than weight_map may hold anything.
#include "tools/checkpoint/index.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "files/input_file.hpp"
#include "files/safetensors/safetensors.hpp"
#include "files/text/error.hpp"
#include "files/text/quote.hpp"

namespace cubit::tools {
namespace {

/// Limit of nesting: writing the index again holds the whole JSON as a tree and descends recursively.
constexpr int kDeepest = 100;
constexpr const char* kIndexWanted = "give the index as it was published, or one safetensors file";

class IndexReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit IndexReader(const std::string& label) : label_(label) {}
  std::map<std::string, std::string> take() {
    if (!has_map_) fail("the index has no weight_map, which names the file of each tensor");
    return std::move(files_);
  }

  bool start_object(std::size_t) override { return start("an object"); }
  bool start_array(std::size_t) override { return start("an array", true); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }

  bool key(string_t& text) override {
    if (depth_ == 1) begin_member(text);
    if (in_map_ && depth_ == 2) begin_tensor(text);
    return true;
  }

  bool string(string_t& text) override {
    if (!in_map_) return value("a string");
    if (depth_ == 1) fail("weight_map must be an object, not a string");
    require_file_name(text);
    files_[tensor_] = text;
    return true;
  }

  bool null() override { return value("null"); }
  bool boolean(bool) override { return value("a boolean"); }
  bool number_integer(number_integer_t) override { return value("a number"); }
  bool number_unsigned(number_unsigned_t) override { return value("a number"); }
  bool number_float(number_float_t, const string_t&) override { return value("a number"); }
  bool binary(binary_t&) override { return value("binary data"); }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    fail(fmt::format("the index is not valid JSON at its byte {}", position));
  }

 private:
  void begin_member(const std::string& name) {
    in_map_ = name == "weight_map";
    if (in_map_ && has_map_) fail("weight_map appears twice");
    has_map_ = has_map_ || in_map_;
  }

  void begin_tensor(const std::string& name) {
    if (name.find('\0') != std::string::npos) fail(fmt::format("the name {} holds a zero byte", quote(name)));
    if (!files_.try_emplace(name).second) fail(fmt::format("tensor {} appears twice", quote(name)));
    tensor_ = name;
  }

  bool start(const char* what, bool is_array = false) {
    if (depth_ == kDeepest) fail(fmt::format("the index nests deeper than {} levels", kDeepest));
    if (in_map_ && (depth_ == 2 || is_array)) return value(what);
    ++depth_;
    return true;
  }

  bool end() {
    --depth_;
    if (depth_ == 1) in_map_ = false;
    return true;
  }

  /// A value that weight_map does not allow at this place.
  bool value(const char* what) const {
    if (!in_map_) return true;
    if (depth_ == 1) fail(fmt::format("weight_map must be an object, not {}", what));
    fail(fmt::format("tensor {}: its file must be a string, not {}", quote(tensor_), what));
  }

  void require_file_name(const std::string& name) const {
    const bool is_plain = name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
    if (is_plain && name.ends_with(".safetensors")) return;
    fail(fmt::format("tensor {}: {} is not the name of a safetensors file beside the index, without a folder",
                     quote(tensor_), quote(name)));
  }

  [[noreturn]] void fail(const std::string& rule) const { throw BadInput(label_, rule, kIndexWanted); }

  const std::string& label_;
  std::map<std::string, std::string> files_;
  std::string tensor_;
  int depth_ = 0;
  bool in_map_ = false;
  bool has_map_ = false;
};

}  // namespace

std::string read_checkpoint_index(const std::string& path) {
  const InputFile file(path);
  refuse_lfs_pointer(file);
  if (file.bytes() > kLargestHeader) {
    throw BadInput(path, fmt::format("holds {} bytes, over the limit of {}", file.bytes(), kLargestHeader),
                   "give the index of a checkpoint");
  }
  std::string text(file.bytes(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void require_shard(const std::string& path, const std::string& index) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) return;
  throw BadInput(path,
                 fmt::format("does not exist, although the index {} names it",
                             printable(std::filesystem::path(index).filename().string())),
                 "copy the missing file into the folder of the index");
}

std::map<std::string, std::string> parse_checkpoint_index(std::string_view text, const std::string& label) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '{') {
    throw BadInput(label, "the index must be a JSON object", "is this a model.safetensors.index.json?");
  }
  // JSON has no zero bytes, and the parser would take a zero byte for the end of the text.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    throw BadInput(label, fmt::format("the index is not valid JSON at its byte {}, which is zero", zero + 1),
                   kIndexWanted);
  }
  IndexReader reader(label);
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  return reader.take();
}

}  // namespace cubit::tools
