// Adds the score modifications of --score NAME=FILE to the library, so that descriptors can name them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

namespace cubit::tools {

class ScoreFiles {
 public:
  /// `given`: the values of --score, "name=file" each. Throws BadInput for another form, a repeated name, and a file
  /// that cannot be read or exceeds 64 KiB. Throws cubit::Error if the library refuses the code.
  explicit ScoreFiles(const std::vector<std::string>& given);

  /// Replaces the name of a given score by name@hash: "…,score=tanh" -> "…,score=tanh@0123456789abcdef". Throws
  /// BadInput for a name that was not given.
  std::string resolve(const std::string& descriptor);
  /// Throws BadInput if no descriptor has asked for a given name, because its code would have no effect.
  void require_all_used() const;

 private:
  std::map<std::string, std::string, std::less<>> fields_;  ///< name -> "name@hash"
  std::set<std::string, std::less<>> used_;
};

}  // namespace cubit::tools
