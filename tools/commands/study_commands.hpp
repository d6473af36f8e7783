// Declares the subcommands of cubit study whose code lies in other files than study.cpp.
#pragma once

#include "tools/options/context.hpp"

namespace cubit::tools {

void add_study_accuracy(CLI::App& study, Context& context);
void add_study_kv(CLI::App& study, Context& context);

}  // namespace cubit::tools
