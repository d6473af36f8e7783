#include "tools/options/score_files.hpp"

#include <cerrno>
#include <cstring>
#include <cubit/cubit.hpp>
#include <fstream>

#include "files/text/error.hpp"
#include "files/text/quote.hpp"

namespace cubit::tools {
namespace {

constexpr std::size_t kLongestText = 65536;  // the limit of the library; a longer file is not read

std::string read_text(const std::string& path, const std::string& given) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kLongestText + 1, '\0');
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad())
    throw BadInput(given, std::string("cannot be read: ") + std::strerror(errno), kReadableWanted);
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kLongestText) throw BadInput(given, "the file has over 64 KiB", "give a few lines of device code");
  if (text.find('\0') != std::string::npos)
    throw BadInput(given, "the file is not text", "give a few lines of device code");
  return text;
}

}  // namespace

ScoreFiles::ScoreFiles(const std::vector<std::string>& given) {
  for (const std::string& one : given) {
    const std::string option = "--score " + quote(one);
    const std::size_t equals = one.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == one.size())
      throw BadInput(option, "is not name=file", "for instance --score tanh=tanh.cuh");
    const std::string name = one.substr(0, equals);
    if (fields_.contains(name)) throw BadInput(option, "the name is given twice", "give each score a name of its own");
    fields_[name] = add_score(name, read_text(one.substr(equals + 1), option));
  }
}

std::string ScoreFiles::resolve(const std::string& descriptor) {
  constexpr std::string_view kField = "score=";
  for (std::size_t at = descriptor.find(kField); at != std::string::npos; at = descriptor.find(kField, at + 1)) {
    if (at == 0 || (descriptor[at - 1] != ':' && descriptor[at - 1] != ',')) continue;
    const std::size_t first = at + kField.size();
    const std::size_t end = std::min(descriptor.find(',', first), descriptor.size());
    const std::string name = descriptor.substr(first, end - first);
    const auto field = fields_.find(name.substr(0, name.find('@')));
    if (field != fields_.end() && (name == field->first || name == field->second)) {
      used_.insert(field->first);
      return descriptor.substr(0, first) + field->second + descriptor.substr(end);
    }
    if (name.find('@') == std::string::npos && name != "none" && !name.empty()) {
      throw BadInput("score=" + name, "no --score gives the code of this name", "add --score " + name + "=FILE");
    }
  }
  return descriptor;
}

void ScoreFiles::require_all_used() const {
  for (const auto& [name, field] : fields_) {
    if (!used_.contains(name))
      throw BadInput("--score " + quote(name) + "=…", "no descriptor has score=" + name,
                     "leave it out, or ask for score=" + name + " in the descriptor");
  }
}

}  // namespace cubit::tools
