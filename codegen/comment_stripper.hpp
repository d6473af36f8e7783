// Removes the comments of device code before the code is embedded in the library.
#pragma once

#include <string>
#include <string_view>

namespace cubit::codegen {

/// `text` without its comments and without blanks at the ends of lines. Every line keeps its number, so compile errors
/// and line tables still point into the file that was read. Marks of the form `// access: <name>` at the end of a line
/// stay, because access_places() looks them up. String, character and raw string literals are kept as they are.
std::string without_comments(std::string_view text);

}  // namespace cubit::codegen
