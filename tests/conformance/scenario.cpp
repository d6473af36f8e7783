// Makes kernels and modelled results of scenarios.
#include "tests/conformance/scenario.hpp"

#include <fmt/format.h>

#include <cstring>

#include "tests/conformance/elementwise.hpp"

namespace cubit::conformance {
namespace {

std::vector<std::byte> bytes_of(const std::vector<std::uint32_t>& words) {
  std::vector<std::byte> bytes(4 * words.size());
  if (!words.empty()) std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

std::string registers(int results) {
  return fmt::format("  .reg .b64 %o;\n  .reg .b32 %i, %tries, %z<{}>;\n  mad.lo.u32 %i, %b, %n, %t;\n", results);
}

/// Stores results, one thread after another.
std::string stores(int results) {
  std::string text = fmt::format("  mad.wide.u32 %o, %i, {}, %out;\n", 4 * results);
  for (int i = 0; i < results; ++i) text += fmt::format("  st.global.b32 [%o+{}], %z{};\n", 4 * i, i);
  return text;
}

}  // namespace

void add(Cases& cases, const Scenario& given) {
  const unsigned threads = given.threads * given.blocks;
  Case made;
  made.name = given.name;
  made.kernel =
      kernel_text(given.declarations, registers(given.results) + "  " + given.body + "\n" + stores(given.results),
                  given.directives);
  made.threads = given.threads;
  made.blocks = given.blocks;
  made.input = bytes_of(given.input);
  made.output_bytes = std::size_t{4} * threads * static_cast<std::size_t>(given.results);
  made.model = [given, threads] {
    std::vector<std::uint32_t> words;
    for (unsigned thread = 0; thread < threads; ++thread) {
      for (int i = 0; i < given.results; ++i) words.push_back(given.model(thread, i));
    }
    return bytes_of(words);
  };
  cases.push_back(std::move(made));
}

std::function<std::uint32_t(unsigned, int)> always(std::vector<std::uint32_t> results) {
  return [results = std::move(results)](unsigned, int index) { return results[static_cast<std::size_t>(index)]; };
}

std::string wait_for_phase(const std::string& instruction, const std::string& object, const std::string& phase) {
  return fmt::format(R"({{
    mov.u32 %tries, 0;
  again:
    {} %p15, [{}], {};
    @%p15 bra over;
    add.u32 %tries, %tries, 1;
    setp.lt.u32 %p14, %tries, 1000000;
    @%p14 bra again;
  over:
  }}
  )",
                     instruction, object, phase);
}

}  // namespace cubit::conformance
