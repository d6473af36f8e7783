// Uses the installed libcubit_calibrate alone, and catches its exception. Returns 0 if everything works.
#include <cstddef>
#include <cstdint>
#include <cubit/calibrate.hpp>
#include <span>
#include <vector>

int main() {
  const std::vector<float> values = {1, -2, 0.5F, 127};
  const std::vector<std::int64_t> shape = {2, 2};
  cubit::calibrate::Statistics statistics;
  statistics.add({"F32", shape, std::as_bytes(std::span(values))});
  try {
    statistics.add({"I4", shape, {}});
  } catch (const cubit::Error&) {
    return cubit::calibrate::choose_range(statistics, {}).scale == 1 ? 0 : 1;
  }
  return 2;
}
