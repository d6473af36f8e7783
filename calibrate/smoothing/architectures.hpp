// The data files of calibrate/smoothing/architectures, which the library contains.
#pragma once

#include <span>
#include <string_view>

namespace cubit::calibrate {

struct Architecture {
  std::string_view file;  ///< "llama.json"
  std::string_view text;
};

std::span<const Architecture> architectures();

}  // namespace cubit::calibrate
