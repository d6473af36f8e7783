#include "tools/options/arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>
#include <istream>

#include "files/text/error.hpp"
#include "files/text/quote.hpp"

namespace cubit::tools {
namespace {

constexpr const char* kNumbersWanted = "give NAME=NUMBER,NAME=NUMBER";
constexpr const char* kListWanted = "give a text file with one descriptor per line";

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

double parse_number(std::string_view text, const std::string& given) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range)
    throw BadInput(given, "the number is too large or too small for 64 bits",
                   "accepted: 0, and magnitudes from 1e-300 to 1e300");
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw BadInput(given, quote(text) + " is not a number", kNumbersWanted);
  }
  return value;
}

std::uint64_t parse_seed(std::string_view text, const std::string& given) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw BadInput(given, "a seed is an integer from 0 to 2^64 - 1", "give an integer, for example seed=7");
  }
  return value;
}

/// Splits "name=value" into its two parts.
std::pair<std::string, std::string_view> split_assignment(std::string_view text, const std::string& option) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    throw BadInput(fmt::format("{} {}", option, quote(text)), "is not name=number", kNumbersWanted);
  }
  return {std::string(text.substr(0, equals)), text.substr(equals + 1)};
}

void add_number(Numbers& numbers, std::string name, double value, const std::string& given) {
  const bool known =
      std::any_of(numbers.begin(), numbers.end(), [&](const auto& other) { return other.first == name; });
  if (known) throw BadInput(given, "is given twice", kOneWanted);
  numbers.emplace_back(std::move(name), value);
}

/// The next line without its newline; false at the end of the stream. A line without end is refused at kLongestLine.
bool next_line(std::istream& stream, std::string& line, const std::string& origin) {
  line.clear();
  for (int c = stream.get(); stream; c = stream.get()) {
    if (c == '\n') return true;
    if (line.size() == kLongestLine) {
      throw BadInput(origin, fmt::format("the line is over {} bytes", kLongestLine), kListWanted);
    }
    line += static_cast<char>(c);
  }
  return !line.empty();
}

/// The content of a line without comment and blanks. Some editors put a byte order mark before the first line.
std::string_view content(std::string_view line, int number) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (number == 1 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  return trimmed(line.substr(0, line.find('#')));
}

std::vector<DescriptorText> read_lines(std::istream& stream, const std::string& label) {
  std::vector<DescriptorText> descriptors;
  std::string line;
  for (int number = 1;; ++number) {
    const std::string origin = fmt::format("{}:{}", label, number);
    if (!next_line(stream, line, origin)) break;
    if (number > kMostListLines)
      throw BadInput(label, fmt::format("has over {} lines", kMostListLines), "split the list");
    const std::string_view text = content(line, number);
    if (text.empty()) continue;
    if (std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < ' '; })) {
      throw BadInput(origin, "holds a control character", kListWanted);
    }
    require_descriptor_length(text, origin);
    descriptors.push_back({std::string(text), origin});
  }
  if (stream.bad()) throw BadInput(label, "cannot be read", kListWanted);
  return descriptors;
}

}  // namespace

std::vector<std::string> split_list(std::string_view text, const std::string& option) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0;;) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view part = trimmed(text.substr(begin, comma - begin));
    if (part.empty())
      throw BadInput(fmt::format("{} {}", option, quote(text)), "a part of the list is empty",
                     "give one part or more, separated by single commas");
    parts.emplace_back(part);
    if (comma == text.size()) return parts;
    begin = comma + 1;
  }
}

Numbers parse_numbers(std::string_view text, const std::string& option) {
  Numbers numbers;
  for (const std::string& part : split_list(text, option)) {
    const std::string given = fmt::format("{} {}", option, quote(part));
    auto [name, value] = split_assignment(part, option);
    add_number(numbers, std::move(name), parse_number(value, given), given);
  }
  return numbers;
}

RandomCase parse_random(std::string_view text, const std::string& option) {
  RandomCase random;
  bool seeded = false;
  for (const std::string& part : split_list(text, option)) {
    const std::string given = fmt::format("{} {}", option, quote(part));
    auto [name, value] = split_assignment(part, option);
    if (name == "seed") {
      if (std::exchange(seeded, true)) throw BadInput(given, "is given twice", kOneWanted);
      random.seed = parse_seed(value, given);
      continue;
    }
    const double size = parse_number(value, given);
    if (!std::isfinite(size)) throw BadInput(given, "a size must be finite", kNumbersWanted);
    add_number(random.sizes, std::move(name), size, given);
  }
  return random;
}

void require_descriptor_length(std::string_view text, const std::string& origin) {
  if (text.size() <= kLongestDescriptor) return;
  const std::string given = origin.empty() ? "the descriptor " + quote(text) : origin;
  throw BadInput(given,
                 fmt::format("a descriptor of {} bytes is over the limit of {}", text.size(), kLongestDescriptor),
                 "leave out fields at their default");
}

std::vector<DescriptorText> read_descriptors(const std::string& path) {
  if (path == "-") return read_lines(std::cin, "standard input");
  std::ifstream file(path);
  if (!file) {
    throw BadInput(path.empty() ? quote(path) : path, std::string("cannot be read: ") + std::strerror(errno),
                   kReadableWanted);
  }
  // A folder can be opened, and only reading it fails. peek sets a state that shows the failure.
  file.peek();
  if (file.bad()) throw BadInput(path, "cannot be read", kListWanted);
  file.clear();
  return read_lines(file, path);
}

}  // namespace cubit::tools
