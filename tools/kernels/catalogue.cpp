#include "tools/kernels/catalogue.hpp"

#include <cstddef>
#include <cubit/check.hpp>

namespace cubit::tools {

nlohmann::ordered_json operator_catalogue() {
  auto list = nlohmann::ordered_json::parse(operators());
  const auto checks = nlohmann::ordered_json::parse(check_operators());
  for (std::size_t i = 0; i < list.size(); ++i) list[i].update(checks.at(i));
  return list;
}

}  // namespace cubit::tools
