// The catalogue of operators: what libcubit and libcubit_check know of each one, in one list.
#pragma once

#include <nlohmann/json.hpp>

namespace cubit::tools {

/// One entry per operator, with the members of cubit_operators and then those of cubit_check_operators.
nlohmann::ordered_json operator_catalogue();

}  // namespace cubit::tools
