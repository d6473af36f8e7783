// Assembles the complete compiler input of a kernel: the template, the headers that it includes, and the options.
#include "codegen/kernel_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.hpp"
#include "codegen/identifier.hpp"

namespace cubit::codegen {
namespace {

constexpr std::string_view kPlanHeader = "plan.cuh";
constexpr std::string_view kRule = "templates include only cubit's headers and the headers given with them";

[[noreturn]] void refuse_name(std::string_view whose, const Header& header) {
  throw Failure(Status::invalid_argument, fmt::format("{} header \"{}\"", whose, header.name),
                "a header of this name exists already and may not be replaced", "give the header another name");
}

/// The transitive includes of one text, found in a library and in a few headers that belong to the text alone.
class Closure {
 public:
  /// `root` is the template itself. No file can include the root.
  Closure(const Header& root, const HeaderLibrary& library, std::span<const Header> own)
      : root_(root.name), library_(library), own_(own) {
    add_includes_of(root);
  }

  std::vector<Header> sorted() const {
    std::vector<Header> headers;
    for (const auto& [name, header] : found_) headers.push_back(*header);
    return headers;
  }

 private:
  /// Searches depth first, in the order of the text, so that the error names the first missing header.
  void add_includes_of(const Header& file) {
    if (const Header* known = library_.find(file.name); known != nullptr && known->text == file.text) {
      return add(file.name, library_.includes(*known));
    }
    add(file.name, includes_of(file.name, file.text));
  }

  void add(std::string_view name, std::span<const Include> includes) {
    for (const Include& include : includes) {
      const Header& header = resolve(include, name);
      if (found_.emplace(header.name, &header).second) add_includes_of(header);
    }
  }

  /// Returns the header that `include` in the file `name` requests. Throws if there is none.
  const Header& resolve(const Include& include, std::string_view name) const {
    const std::string_view operand = include.operand;
    const bool closed = operand.size() > 2 && operand.front() == '"' && operand.back() == '"';
    const std::string_view wanted = closed ? operand.substr(1, operand.size() - 2) : std::string_view();
    // The compiler ends a name at its first quote, even at an escaped quote.
    const bool quoted = closed && wanted.find_first_of("\"\\") == std::string_view::npos;
    const Header* const found = quoted && wanted != root_ ? find(wanted) : nullptr;
    if (found == nullptr) {
      throw Failure(Status::invalid_argument, fmt::format("#include {} in {}, line {}", operand, name, include.line),
                    std::string(kRule), names());
    }
    return *found;
  }

  const Header* find(std::string_view name) const {
    const auto own = std::find_if(own_.begin(), own_.end(), [&](const Header& header) { return header.name == name; });
    return own == own_.end() ? library_.find(name) : &*own;
  }

  std::string names() const {
    std::set<std::string_view> names;
    for (const Header& header : library_.headers()) names.insert(header.name);
    for (const Header& header : own_) names.insert(header.name);
    names.erase(root_);
    return names.empty() ? "no header is available" : fmt::format("available: {}", fmt::join(names, ", "));
  }

  std::string_view root_;
  const HeaderLibrary& library_;
  std::span<const Header> own_;
  std::map<std::string_view, const Header*> found_;
};

/// Returns the plan header and the headers given with the template. Throws if a header has a name that is taken
/// already.
std::vector<Header> own_headers(const Header& kernel_template, std::string plan_header, const HeaderLibrary& library,
                                std::span<const Header> extra) {
  std::vector<Header> headers;
  if (!plan_header.empty()) headers.push_back({std::string(kPlanHeader), std::move(plan_header)});
  for (const Header& header : extra) {
    const bool taken =
        header.name == kernel_template.name || library.find(header.name) != nullptr ||
        std::any_of(headers.begin(), headers.end(), [&](const Header& other) { return other.name == header.name; });
    if (taken) refuse_name("extra", header);
    headers.push_back(header);
  }
  return headers;
}

}  // namespace

HeaderLibrary::HeaderLibrary(std::vector<Header> headers) : headers_(std::move(headers)) {
  for (const Header& header : headers_) {
    if (find(header.name) != &header || header.name == kPlanHeader) refuse_name("library", header);
    includes_.push_back(includes_of(header.name, header.text));
  }
}

const Header* HeaderLibrary::find(std::string_view name) const {
  const auto found =
      std::find_if(headers_.begin(), headers_.end(), [&](const Header& header) { return header.name == name; });
  return found == headers_.end() ? nullptr : &*found;
}

std::vector<Header> include_closure(const Header& text, const HeaderLibrary& library, std::span<const Header> own) {
  return Closure(text, library, own).sorted();
}

std::vector<std::string> access_places(const KernelSource& source, std::string_view name) {
  std::vector<std::string> places;
  const std::string mark = fmt::format("// access: {}\n", name);
  const auto search = [&](const std::string& file, const std::string& text) {
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
      const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
      // Line information of PTX names files without their folders, and so do places.
      places.push_back(fmt::format("{}:{}", file.substr(file.rfind('/') + 1), line));
    }
  };
  search(source.template_name, source.template_text);
  for (const Header& header : source.headers) search(header.name, header.text);
  return places;
}

std::vector<std::string> default_options() {
  // --no-cache: NVRTC from 12.9 on would otherwise keep its own cache in the user's home folder. --minimal: leaves out
  // declarations of textures, of the CUDA runtime and of device-side launches; the machine code is the same, and
  // compiling is a few milliseconds faster.
  return {"--std=c++17", "--ptxas-options=-v", "--no-cache", "--minimal"};
}

KernelSource assemble(std::string_view descriptor, const Header& kernel_template, std::string plan_header,
                      const Architecture& architecture, std::string entry_point, LaunchFacts launch,
                      const HeaderLibrary& library, std::span<const Header> extra) {
  if (!is_identifier(entry_point)) {
    throw Failure(Status::invalid_argument, fmt::format("entry point \"{}\"", entry_point), "not a C++ identifier",
                  "name an extern \"C\" __global__ function of the template");
  }
  const bool planned = !plan_header.empty();
  const std::vector<Header> own = own_headers(kernel_template, std::move(plan_header), library, extra);
  std::vector<Header> headers = include_closure(kernel_template, library, own);
  const bool reads_plan =
      std::any_of(headers.begin(), headers.end(), [](const Header& h) { return h.name == kPlanHeader; });
  if (planned && !reads_plan) {
    throw Failure(Status::invalid_argument, fmt::format("template {}", kernel_template.name),
                  "the template is given a plan header and does not include it", "add #include \"plan.cuh\"");
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
