// Score modifications of --score name=file: added to the library, and descriptors that name them by name alone.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

namespace cubit::tools {

class ScoreFiles {
 public:
  /// Texts of --score, "name=file" each. Throws BadInput for what is none, a name given twice and a file that cannot be
  /// read or is over 64 KiB; cubit::Error for what the library refuses.
  explicit ScoreFiles(const std::vector<std::string>& given);

  /// The descriptor with name@hash for a name that was given: "…,score=tanh" -> "…,score=tanh@0123456789abcdef".
  /// Throws BadInput for a name that was not.
  std::string resolve(const std::string& descriptor);
  /// Throws BadInput for a name that no descriptor has asked for: its code would be lost.
  void require_all_used() const;

 private:
  std::map<std::string, std::string, std::less<>> fields_;  ///< name -> "name@hash"
  std::set<std::string, std::less<>> used_;
};

}  // namespace cubit::tools
