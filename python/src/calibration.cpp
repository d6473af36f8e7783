// The calibration of the Python package: libcubit_calibrate behind C functions, which ctypes can call.
//
// Python adds the activations of one layer at a time, from host memory. Only statistics are kept, so no batch is ever
// written to a file. Errors become the last error of the calling thread, as those of libcubit.
#include <cubit/cubit.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cubit/calibrate.hpp>
#include <exception>
#include <span>
#include <string>
#include <vector>

namespace calibrate = cubit::calibrate;

// The layers in the order of their first batches. One thread at a time uses a calibration.
struct cubit_python_calibration {
  std::vector<calibrate::NamedStatistics> layers;
  std::string ranges;

  calibrate::Statistics& statistics(const std::string& layer) {
    const auto is_layer = [&](const calibrate::NamedStatistics& one) { return one.layer == layer; };
    const auto found = std::find_if(layers.begin(), layers.end(), is_layer);
    if (found != layers.end()) return found->statistics;
    layers.push_back({layer, calibrate::Statistics()});
    return layers.back().statistics;
  }
};

// The format of quantisation, and how its range is chosen.
struct cubit_python_choice {
  const char* method;
  const char* format;
  double percentile;
};

namespace {

template <class Work>
cubit_status guarded(const Work& work) {
  try {
    work();
    return CUBIT_OK;
  } catch (const cubit::Error& error) {
    cubit_set_last_error(error.code(), error.given().c_str(), error.why().c_str(), error.remedy().c_str());
    return error.code();
  } catch (const std::exception& error) {
    cubit_set_last_error(CUBIT_INTERNAL, "calibration", error.what(), "");
    return CUBIT_INTERNAL;
  }
}

/// The ranges of the layers that have values.
std::vector<calibrate::LayerRange> ranges_of(const cubit_python_calibration& from, const cubit_python_choice& how) {
  const calibrate::RangeChoice choice = {calibrate::parse_method(how.method), calibrate::parse_format(how.format),
                                         how.percentile};
  std::vector<calibrate::LayerRange> ranges;
  for (const calibrate::NamedStatistics& one : from.layers) {
    if (one.statistics.count() + one.statistics.non_finite() == 0) continue;
    try {
      ranges.push_back({one.layer, choice, calibrate::choose_range(one.statistics, choice)});
    } catch (const cubit::Error& error) {
      const std::string given = "layer " + one.layer + ", " + error.given();
      throw cubit::Error({error.code(), error.what(), given.c_str(), error.why().c_str(), error.remedy().c_str()});
    }
  }
  return ranges;
}

}  // namespace

extern "C" {

CUBIT_API cubit_status cubit_python_calibration_create(cubit_python_calibration** result) {
  return guarded([&] { *result = new cubit_python_calibration; });
}

CUBIT_API void cubit_python_calibration_release(cubit_python_calibration* calibration) { delete calibration; }

/* `type` is that of safetensors, and the last dimension counts channels. */
CUBIT_API cubit_status cubit_python_calibration_add(cubit_python_calibration* to, const char* layer, const char* type,
                                                    std::size_t rank, const std::int64_t* shape, const void* data,
                                                    std::size_t bytes, int threads) {
  return guarded([&] {
    const auto* const first = static_cast<const std::byte*>(data);
    to->statistics(layer).add({type, {shape, rank}, {first, bytes}}, threads);
  });
}

/* The ranges as JSON, see ranges_json in <cubit/calibrate.hpp>. The text is valid until the next call. */
CUBIT_API cubit_status cubit_python_calibration_ranges(cubit_python_calibration* from,
                                                       const cubit_python_choice* choice, const char** json) {
  return guarded([&] {
    from->ranges = calibrate::ranges_json(ranges_of(*from, *choice));
    *json = from->ranges.c_str();
  });
}

CUBIT_API cubit_status cubit_python_calibration_write_scales(const cubit_python_calibration* from,
                                                             const cubit_python_choice* choice, const char* path) {
  return guarded([&] { calibrate::write_scales(path, ranges_of(*from, *choice)); });
}

/* Writes a file for `cubit calibrate --merge`. The statistics come from no files. */
CUBIT_API cubit_status cubit_python_calibration_save(const cubit_python_calibration* from, const char* path) {
  return guarded(
      [&] { calibrate::write_statistics(path, from->layers, R"({"files": [], "identities": [], "layers": ["*"]})"); });
}

}  // extern "C"
