// What a CUDA C++ text makes the preprocessor read, found without a preprocessor.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cubit::codegen {

struct Include {
  std::string operand;  ///< as written: "x.cuh" with its quotes, <x>, a macro; "nothing" if there is none
  int line = 0;         ///< where the directive begins
};

/// Every #include of `text` in order, those under a false #if too. Comments, spliced lines, digraphs and raw strings
/// are read as the C++ standard's translation phases say (N4659 [lex.phases]), so that nothing the compiler includes is
/// missed. Throws Failure(invalid_argument) for what could make a result depend on more than the texts given:
/// #include_next, #import, #embed, __has_include and its kin, __DATE__, __TIME__, __TIMESTAMP__. `name`: for messages.
std::vector<Include> includes_of(std::string_view name, std::string_view text);

}  // namespace cubit::codegen
