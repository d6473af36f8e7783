// Finds the #include directives of a CUDA C++ text without running a preprocessor.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cubit::codegen {

/// One #include directive.
struct Include {
  std::string operand;  ///< as written: "x.cuh" with its quotes, <x> or a macro; "nothing" if the directive has no
                        ///< operand
  int line = 0;         ///< line where the directive begins
};

/// Returns every #include of `text` in order, including those under a false #if. Comments, spliced lines, digraphs and
/// raw strings follow the translation phases of the C++ standard (N4659 [lex.phases]), so that no file that the
/// compiler includes is missed. `name` is the name of the text in messages.
///
/// Throws Failure(invalid_argument) for anything that makes the result depend on more than the given texts:
/// #include_next, #import, #embed, __has_include and similar, __DATE__, __TIME__ and __TIMESTAMP__.
std::vector<Include> includes_of(std::string_view name, std::string_view text);

}  // namespace cubit::codegen
