// From a template to everything that the compiler is given: the headers it includes, and the options.
#include "codegen/kernel_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.hpp"
#include "codegen/identifier.hpp"
#include "codegen/include_scanner.hpp"

namespace cubit::codegen {
namespace {

constexpr std::string_view kPlanHeader = "plan.cuh";
constexpr std::string_view kRule = "templates include nothing but cubit's headers and those given with them";

std::string names_of(std::span<const Header> headers) {
  std::set<std::string_view> names;
  for (const Header& header : headers) names.insert(header.name);
  return names.empty() ? "no header is available" : fmt::format("available: {}", fmt::join(names, ", "));
}

/// The header that `include` of the file `name` asks for; throws if there is none.
const Header& resolve(const Include& include, std::string_view name, std::span<const Header> available) {
  const std::string_view operand = include.operand;
  const bool closed = operand.size() > 2 && operand.front() == '"' && operand.back() == '"';
  const std::string_view wanted = closed ? operand.substr(1, operand.size() - 2) : std::string_view();
  // The compiler ends a name at its first quote, escaped or not.
  const bool quoted = closed && wanted.find_first_of("\"\\") == std::string_view::npos;
  const auto found = std::find_if(available.begin(), available.end(),
                                  [&](const Header& header) { return quoted && header.name == wanted; });
  if (found == available.end()) {
    throw Failure(Status::invalid_argument, fmt::format("#include {} in {}, line {}", operand, name, include.line),
                  std::string(kRule), names_of(available));
  }
  return *found;
}

/// Depth first, in the order of the text, so that the first missing header is the one reported.
void collect(std::string_view name, std::string_view text, std::span<const Header> available,
             std::map<std::string_view, const Header*>& found) {
  for (const Include& include : includes_of(name, text)) {
    const Header& header = resolve(include, name, available);
    if (found.emplace(header.name, &header).second) collect(header.name, header.text, available, found);
  }
}

void add_header(std::vector<Header>& headers, const Header& header, std::string_view whose) {
  const bool taken =
      std::any_of(headers.begin(), headers.end(), [&](const Header& h) { return h.name == header.name; });
  if (taken) {
    throw Failure(Status::invalid_argument, fmt::format("{} header \"{}\"", whose, header.name),
                  "a header of that name is there already and may not be replaced", "give it another name");
  }
  headers.push_back(header);
}

std::vector<Header> all_headers(const Header& kernel_template, std::string plan_header, std::span<const Header> library,
                                std::span<const Header> extra) {
  // The template takes part, so that no header can have its name.
  std::vector<Header> headers = {kernel_template};
  if (!plan_header.empty()) headers.push_back({std::string(kPlanHeader), std::move(plan_header)});
  for (const Header& header : library) {
    if (header.name != kernel_template.name) add_header(headers, header, "library");
  }
  for (const Header& header : extra) add_header(headers, header, "extra");
  headers.erase(headers.begin());
  return headers;
}

}  // namespace

std::vector<Header> include_closure(std::string_view template_name, std::string_view template_text,
                                    std::span<const Header> available) {
  std::map<std::string_view, const Header*> found;
  collect(template_name, template_text, available, found);
  std::vector<Header> closure;
  for (const auto& [name, header] : found) closure.push_back(*header);
  return closure;
}

std::vector<std::string> access_places(const KernelSource& source, std::string_view name) {
  std::vector<std::string> places;
  const std::string mark = fmt::format("// access: {}\n", name);
  const auto search = [&](const std::string& file, const std::string& text) {
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
      const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
      places.push_back(fmt::format("{}:{}", file, line));
    }
  };
  search(source.template_name, source.template_text);
  for (const Header& header : source.headers) search(header.name, header.text);
  return places;
}

std::vector<std::string> default_options() {
  // --no-cache: NVRTC (12.9 and later) would otherwise keep a cache of its own beside cubit's, in the user's home.
  return {"--std=c++17", "--ptxas-options=-v", "--no-cache"};
}

KernelSource assemble(std::string_view descriptor, const Header& kernel_template, std::string plan_header,
                      const Architecture& architecture, std::string entry_point, LaunchFacts launch,
                      std::span<const Header> library, std::span<const Header> extra) {
  if (!is_identifier(entry_point)) {
    throw Failure(Status::invalid_argument, fmt::format("entry point \"{}\"", entry_point), "not a C++ identifier",
                  "name an extern \"C\" __global__ function of the template");
  }
  const bool planned = !plan_header.empty();
  const std::vector<Header> available = all_headers(kernel_template, std::move(plan_header), library, extra);
  std::vector<Header> headers = include_closure(kernel_template.name, kernel_template.text, available);
  const bool reads_plan =
      std::any_of(headers.begin(), headers.end(), [](const Header& h) { return h.name == kPlanHeader; });
  if (planned && !reads_plan) {
    throw Failure(Status::invalid_argument, fmt::format("template {}", kernel_template.name),
                  "it is given a plan and does not include it", "add #include \"plan.cuh\"");
  }
  return {.descriptor = std::string(descriptor),
          .template_name = kernel_template.name,
          .template_text = kernel_template.text,
          .headers = std::move(headers),
          .options = default_options(),
          .target = std::string(architecture.name),
          .entry_point = std::move(entry_point),
          .launch = launch};
}

}  // namespace cubit::codegen
