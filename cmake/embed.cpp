// A build tool: writes a C++ file that holds the device templates as text, without their comments, so that rewording a
// comment changes no kernel's key. Lines keep their numbers, so a comment of another number of lines does change the
// keys of the kernels that include its file.
//
//   embed OUTPUT ROOT FILE...    each FILE is embedded under its path relative to ROOT
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "codegen/comment_stripper.hpp"

namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file) throw std::runtime_error(path.string() + " cannot be read");
  return text;
}

constexpr const char* kBegin = R"(// Generated from templates/ by cmake/embed.cpp.
#include "templates/embedded.hpp"

#include <vector>

namespace cubit::templates {

const codegen::HeaderLibrary& embedded() {
  static const codegen::HeaderLibrary files(std::vector<codegen::Header>{
)";
constexpr const char* kEnd = R"(  });
  return files;
}

}  // namespace cubit::templates
)";

void embed(const std::filesystem::path& output, const std::filesystem::path& root, int count, char** files) {
  std::string code = kBegin;
  for (int i = 0; i < count; ++i) {
    const std::string name = std::filesystem::path(files[i]).lexically_relative(root).generic_string();
    const std::string text = cubit::codegen::without_comments(read(files[i]));
    code.append("      {\"").append(name).append("\", R\"cubit_template(").append(text).append(")cubit_template\"},\n");
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
