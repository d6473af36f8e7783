// Computes digests of the compiler's inputs, and their text. Nobody waits for them, so the file is optimised for size.
#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "runtime/cache/key.hpp"
#include "runtime/little_endian.hpp"

namespace cubit::runtime {
namespace {

std::uint32_t short_digest(std::string_view text) {
  const auto hash = content_hash(text);
  return number_at<std::uint32_t>({reinterpret_cast<const char*>(hash.data()), hash.size()}, 0);
}

}  // namespace

std::vector<NamedInput> named_inputs(const codegen::KernelSource& source) {
  std::vector<NamedInput> inputs;
  const auto add = [&](std::string name, std::string_view content) {
    const InputDigest digest{short_digest(name), short_digest(content)};
    inputs.push_back({std::move(name), digest});
  };
  add("template " + source.template_name, source.template_text);
  for (const codegen::Header& header : source.headers) add("header " + header.name, header.text);
  for (const std::string& option : source.options) add("option " + option, "");
  add("target " + source.target, "");
  add("entry point " + source.entry_point, "");
  if (source.code == codegen::Code::ptx) add("code ptx", "");
  return inputs;
}

std::vector<InputDigest> input_digests(const codegen::KernelSource& source) {
  std::vector<InputDigest> digests;
  for (const NamedInput& input : named_inputs(source)) digests.push_back(input.digest);
  return digests;
}

std::string inputs_text(std::span<const InputDigest> inputs) {
  std::string text;
  for (const InputDigest& input : inputs) text += fmt::format("{:08x}{:08x}", input.name, input.content);
  return text;
}

std::optional<std::vector<InputDigest>> parse_inputs(std::string_view text) {
  constexpr std::size_t kDigits = 8;
  if (text.size() % (2 * kDigits) != 0 || text.find_first_not_of("0123456789abcdef") != std::string_view::npos) {
    return std::nullopt;
  }
  const auto digest_at = [&](std::size_t offset) {
    std::uint32_t number = 0;
    std::from_chars(text.data() + offset, text.data() + offset + kDigits, number, 16);
    return number;
  };
  std::vector<InputDigest> inputs;
  for (std::size_t offset = 0; offset < text.size(); offset += 2 * kDigits) {
    inputs.push_back({digest_at(offset), digest_at(offset + kDigits)});
  }
  return inputs;
}

}  // namespace cubit::runtime
