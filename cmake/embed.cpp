// A build tool: writes a C++ file that holds the device templates without their comments, so that rewording a comment
// changes no kernel's key. Lines keep their numbers, so a comment of another number of lines does change the keys of
// the kernels that include its file.
//
//   embed OUTPUT ROOT FILE...    each FILE is embedded under its path relative to ROOT
//
// The texts are one zstd frame, a sixth of their size. templates/embedded.cpp unpacks the frame.
#include <zstd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "codegen/comment_stripper.hpp"

namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file) throw std::runtime_error(path.string() + " cannot be read");
  return text;
}

/// The names and texts of all files, each of which a zero byte ends.
std::string joined(const std::filesystem::path& root, int count, char** files) {
  std::string all;
  for (int i = 0; i < count; ++i) {
    const std::string name = std::filesystem::path(files[i]).lexically_relative(root).generic_string();
    const std::string text = cubit::codegen::without_comments(read(files[i]));
    if (text.find('\0') != std::string::npos) throw std::runtime_error(name + " contains a zero byte");
    all.append(name).append(1, '\0').append(text).append(1, '\0');
  }
  return all;
}

std::vector<unsigned char> compressed(const std::string& text) {
  std::vector<unsigned char> frame(ZSTD_compressBound(text.size()));
  const std::size_t size = ZSTD_compress(frame.data(), frame.size(), text.data(), text.size(), ZSTD_maxCLevel());
  if (ZSTD_isError(size)) throw std::runtime_error(ZSTD_getErrorName(size));
  frame.resize(size);
  return frame;
}

constexpr const char* kBegin = R"(// Generated from templates/ by cmake/embed.cpp.
#include "templates/embedded_frame.hpp"

namespace cubit::templates {

const unsigned char kEmbeddedFrame[] = {)";
constexpr const char* kEnd = R"(};
const std::size_t kEmbeddedFrameBytes = sizeof kEmbeddedFrame;

}  // namespace cubit::templates
)";

void embed(const std::filesystem::path& output, const std::filesystem::path& root, int count, char** files) {
  constexpr std::size_t kLine = 32;  // bytes
  std::string code = kBegin;
  const std::vector<unsigned char> frame = compressed(joined(root, count, files));
  for (std::size_t i = 0; i < frame.size(); ++i) {
    if (i % kLine == 0) code += '\n';
    code.append(std::to_string(frame[i])).append(",");
  }
  std::ofstream file(output, std::ios::binary);
  if (!(file << code << kEnd).flush()) throw std::runtime_error(output.string() + " cannot be written");
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 4) throw std::runtime_error("usage: embed OUTPUT ROOT FILE...");
  embed(argv[1], argv[2], argc - 3, argv + 3);
  return 0;
} catch (const std::exception& error) {
  std::cerr << "embed: " << error.what() << '\n';
  return 1;
}
