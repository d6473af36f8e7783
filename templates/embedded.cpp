#include "templates/embedded.hpp"

#include <zstd.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "templates/embedded_frame.hpp"

namespace cubit::templates {
namespace {

/// Throws Failure(internal) if the frame is damaged, as a damaged library's is.
std::string unpacked_frame() {
  std::string text(ZSTD_getFrameContentSize(kEmbeddedFrame, kEmbeddedFrameBytes), '\0');
  const std::size_t size = ZSTD_decompress(text.data(), text.size(), kEmbeddedFrame, kEmbeddedFrameBytes);
  if (size != text.size()) throw Failure(Status::internal, "the library's templates", "cannot be unpacked");
  return text;
}

codegen::HeaderLibrary make_library() {
  const std::string all = unpacked_frame();
  std::vector<codegen::Header> files;
  for (std::size_t at = 0; at < all.size();) {
    std::string name = all.c_str() + at;
    at += name.size() + 1;
    std::string text = all.c_str() + at;
    at += text.size() + 1;
    files.push_back({std::move(name), std::move(text)});
  }
  return codegen::HeaderLibrary(std::move(files));
}

}  // namespace

const codegen::HeaderLibrary& embedded() {
  static const codegen::HeaderLibrary files = make_library();
  return files;
}

const codegen::Header& find(std::string_view name) {
  const codegen::Header* const file = embedded().find(name);
  if (file == nullptr) throw Failure(Status::internal, "template " + std::string(name), "is not in the library");
  return *file;
}

}  // namespace cubit::templates
