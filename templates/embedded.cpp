#include "templates/embedded.hpp"

#include <string>

#include "base/error.hpp"

namespace cubit::templates {

const codegen::Header& find(std::string_view name) {
  const codegen::Header* const file = embedded().find(name);
  if (file == nullptr) throw Failure(Status::internal, "template " + std::string(name), "is not in the library");
  return *file;
}

}  // namespace cubit::templates
