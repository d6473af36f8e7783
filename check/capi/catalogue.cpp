// The C function that lists what libcubit_check knows of each operator: made-up data and bench cases.
#include <cubit/check.h>

#include "check/capi/border.hpp"
#include "check/problem.hpp"

namespace cubit::check {
namespace {

Json bench_case_json(const BenchCase& one) {
  const auto target = [](double value) { return value > 0 ? Json(value) : Json(); };
  return {{"group", one.group},
          {"name", one.name},
          {"descriptor", one.descriptor},
          {"sizes", one.sizes},
          {"target_microseconds", target(one.target_microseconds)},
          {"target_share", target(one.target_share)},
          {"comparable", one.comparable}};
}

Json operator_json(const OperatorProblems& op) {
  Json bench = Json::array();
  for (const BenchCase& one : op.bench_cases()) bench.push_back(bench_case_json(one));
  Json decompositions = Json::array();
  for (const Decomposition& one : op.decompositions())
    decompositions.push_back({{"name", one.name}, {"numbers", one.numbers}, {"fields", one.fields}});
  return {{"name", op.name},
          {"random", op.random_help()},
          {"bench", std::move(bench)},
          {"decompositions", std::move(decompositions)}};
}

}  // namespace
}  // namespace cubit::check

using namespace cubit::check;

cubit_status cubit_check_operators(const char** json) {
  return guarded([&] {
    require(json, "cubit_check_operators: json");
    Json list = Json::array();
    for (const OperatorProblems& op : operator_problems()) list.push_back(operator_json(op));
    *json = thread_text(list.dump());
  });
}
