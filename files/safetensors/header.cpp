// Reads the header with a small state machine on the JSON parser's events, because a header has one fixed structure.
// The reader stops at the first violation, whatever the size or depth of the JSON, and never builds a tree from a
// stranger's file.
#include "files/safetensors/header.hpp"

#include <fmt/format.h>

#include <cubit/check.hpp>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "files/safetensors/safetensors.hpp"
#include "files/text/error.hpp"
#include "files/text/quote.hpp"

namespace cubit::tools {
namespace {

/// The types whose size cubit::type_bytes knows.
constexpr const char* kTypes = "BOOL, U8, I8, F8_E4M3, F8_E5M2, F16, BF16, I16, U16, F32, I32, U32, F64, I64, U64";

/// Most dimensions of a tensor that may be copied; PyTorch has the same limit.
constexpr std::size_t kMostDimensions = 64;

class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(const std::string& label) : label_(label) {}
  std::vector<HeaderEntry> take() { return std::move(entries_); }
  Metadata take_metadata() { return std::move(values_); }

  bool start_object(std::size_t) override {
    if (state_ == State::before) return enter(State::header);
    if (state_ == State::header && key_ == "__metadata__") return enter(State::metadata);
    if (state_ == State::header) return begin_tensor();
    return misplaced("an object");
  }

  bool key(string_t& text) override {
    key_ = text;
    if (state_ == State::header && !names_.insert(text).second) fail(fmt::format("{} appears twice", quote(text)));
    if (state_ == State::metadata && !metadata_.insert(text).second) {
      fail(fmt::format("__metadata__ has {} twice", quote(text)));
    }
    if (state_ == State::tensor) begin_field();
    return true;
  }

  bool end_object() override {
    if (state_ == State::tensor) return end_tensor();
    return enter(state_ == State::metadata ? State::header : State::after);
  }

  bool start_array(std::size_t) override {
    if (state_ == State::tensor && key_ == "shape") return enter(State::shape);
    if (state_ == State::tensor && key_ == "data_offsets") return enter(State::offsets);
    return misplaced("an array");
  }

  bool end_array() override {
    if (state_ == State::offsets && offsets_seen_ != 2) fail_tensor("data_offsets must be two numbers");
    return enter(State::tensor);
  }

  bool string(string_t& text) override {
    if (state_ == State::metadata) {
      values_[key_] = text;
      return true;
    }
    if (state_ != State::tensor || key_ != "dtype") return misplaced("a string");
    entry().type = text;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ == State::shape) return add_dimension(value);
    if (state_ == State::offsets) return add_offset(value);
    return misplaced("a number");
  }

  bool number_integer(number_integer_t value) override { return not_a_count(fmt::format("{}", value)); }
  bool number_float(number_float_t, const string_t& text) override { return not_a_count(text); }
  bool null() override { return misplaced("null"); }
  bool boolean(bool) override { return misplaced("a boolean"); }
  bool binary(binary_t&) override { return misplaced("binary data"); }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    fail(fmt::format("the header is not valid JSON at its byte {}", position));
  }

 private:
  enum class State { before, header, tensor, shape, offsets, metadata, after };

  HeaderEntry& entry() { return entries_.back(); }

  bool enter(State state) {
    state_ = state;
    return true;
  }

  bool begin_tensor() {
    // Names pass into the library as C strings: a name with a zero byte would be cut there and taken for a shorter one.
    if (key_.find('\0') != std::string::npos) fail(fmt::format("the name {} holds a zero byte", quote(key_)));
    entries_.push_back({.name = key_, .type = {}, .shape = {}});
    fields_.clear();
    offsets_seen_ = 0;
    return enter(State::tensor);
  }

  void begin_field() {
    if (key_ != "dtype" && key_ != "shape" && key_ != "data_offsets") {
      fail_tensor(fmt::format("{} is not a field of a tensor, which has dtype, shape and data_offsets", quote(key_)));
    }
    if (!fields_.insert(key_).second) fail_tensor(fmt::format("{} appears twice", key_));
  }

  bool end_tensor() {
    if (fields_.size() != 3) fail_tensor("a tensor needs dtype, shape and data_offsets");
    const auto [begin, end] = entry().offsets;
    if (begin > end) fail_tensor(fmt::format("data_offsets [{}, {}] run backwards", begin, end));
    if (type_bytes(entry().type) != 0 && end - begin != dense_bytes()) {
      fail_tensor(fmt::format("data_offsets [{}, {}] span {} bytes, but its dtype and shape need {}", begin, end,
                              end - begin, dense_bytes()));
    }
    return enter(State::header);
  }

  std::uint64_t dense_bytes() const {
    std::uint64_t bytes = type_bytes(entries_.back().type);
    bool overflow = false;
    bool empty = false;
    for (const std::int64_t extent : entries_.back().shape) {
      empty = empty || extent == 0;
      overflow = __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes) || overflow;
    }
    if (overflow && !empty) fail_tensor("its shape overflows a 64-bit count of bytes");
    return empty ? 0 : bytes;
  }

  bool add_dimension(std::uint64_t extent) {
    if (entry().shape.size() == kMostDimensions) fail_tensor(fmt::format("its rank is over {}", kMostDimensions));
    if (extent > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      fail_tensor("its shape overflows a 64-bit count of bytes");
    }
    entry().shape.push_back(static_cast<std::int64_t>(extent));
    return true;
  }

  bool add_offset(std::uint64_t offset) {
    if (offsets_seen_ == 2) fail_tensor("data_offsets must be two numbers");
    entry().offsets[offsets_seen_++] = offset;
    return true;
  }

  bool not_a_count(const std::string& text) {
    if (state_ != State::shape && state_ != State::offsets) return misplaced("a number");
    fail_tensor(fmt::format("{} is not a 64-bit non-negative integer", quote(text)));
  }

  [[noreturn]] bool misplaced(std::string_view what) const {
    if (state_ == State::before) fail("the header must be a JSON object");
    if (state_ == State::metadata) fail(fmt::format("__metadata__ maps names to strings, not to {}", what));
    if (state_ == State::header) fail(fmt::format("{} must be an object, not {}", quote(key_), what));
    fail_tensor(fmt::format("{} cannot be {}", key_, what));
  }

  [[noreturn]] void fail_tensor(const std::string& rule) const {
    throw BadInput(label_, fmt::format("tensor {}: {}", quote(entries_.back().name), rule), kWholeWanted);
  }
  [[noreturn]] void fail(const std::string& rule) const { throw BadInput(label_, rule, kWholeWanted); }

  const std::string& label_;
  State state_ = State::before;
  std::string key_;
  std::vector<HeaderEntry> entries_;
  std::unordered_set<std::string> names_;
  std::unordered_set<std::string> metadata_;
  Metadata values_;
  std::unordered_set<std::string> fields_;
  std::size_t offsets_seen_ = 0;
};

}  // namespace

void require_usable(const HeaderEntry& tensor, const std::string& label) {
  const std::string given = fmt::format("tensor {}: ", quote(tensor.name));
  if (type_bytes(tensor.type) == 0) {
    throw BadInput(label, given + fmt::format("dtype {} is not known", quote(tensor.type)),
                   fmt::format("accepted: {}", kTypes));
  }
  if (tensor.shape.size() <= kLargestRank) return;
  throw BadInput(label, given + fmt::format("its rank is over {}", kLargestRank),
                 fmt::format("accepted: up to {} dimensions", kLargestRank));
}

std::vector<HeaderEntry> parse_header(std::string_view text, const std::string& label, Metadata* metadata) {
  if (!text.starts_with('{')) throw BadInput(label, "the header must be a JSON object", kWholeWanted);
  // JSON has no zero bytes, and the parser would take a zero byte for the end of the text.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    throw BadInput(label, fmt::format("the header is not valid JSON at its byte {}, which is zero", zero + 1),
                   kWholeWanted);
  }
  HeaderReader reader(label);
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  if (metadata != nullptr) *metadata = reader.take_metadata();
  return reader.take();
}

}  // namespace cubit::tools
