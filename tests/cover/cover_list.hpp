// The cover's list of descriptors, made once per build instead of once per test process.
#pragma once

#include <functional>
#include <string>

#include "tests/cover/descriptors.hpp"

namespace cubit::tests {

/// What make() returns. The file at `path` keeps the list for the next process, as long as this program and libcubit
/// are the files that made the list. Processes that ask at the same time wait for the first of them.
Cover remembered_cover(const std::string& path, const std::function<Cover()>& make);

}  // namespace cubit::tests
