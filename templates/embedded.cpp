#include "templates/embedded.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace cubit::templates {

const codegen::Header& find(std::string_view name) {
  const auto files = embedded();
  const auto file = std::find_if(files.begin(), files.end(), [&](const auto& header) { return header.name == name; });
  if (file == files.end()) throw Failure(Status::internal, "template " + std::string(name), "is not in the library");
  return *file;
}

}  // namespace cubit::templates
