// cubit::parallel_for under the name by which the operators include it.
#pragma once

#include "base/parallel.hpp"
