#include "ops/stream_read/stream_read.hpp"

#include <cubit/stream_read.h>

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "ops/argument_checks.hpp"
#include "ops/stream_buffer.hpp"
#include "templates/kernels/stream/stream_read_arguments.h"

namespace cubit::ops {
namespace {

static_assert(CUBIT_STREAM_READ_SLOTS == kStreamReadSlots);

constexpr std::string_view kName = "stream_read";

class StreamReadSpecialisation final : public Specialisation {
 public:
  StreamReadSpecialisation(const StreamDescriptor& descriptor, const codegen::Architecture& architecture)
      : descriptor_(descriptor),
        source_(stream_source(kName, descriptor, architecture)),
        report_(stream_report(kName, descriptor, "4 loads of 16 bytes")),
        pointers_(stream_read_arguments(), {}, "") {}
  const codegen::KernelSource& source() const override { return source_; }
  const PlanReport& report() const override { return report_; }
  std::size_t argument_bytes() const override { return sizeof(cubit_stream_read_arguments); }
  std::size_t workspace_bytes(const void*, const runtime::DeviceFacts&) const override { return 0; }
  Launch encode(const void* public_arguments, void*, std::size_t, const runtime::DeviceFacts& device) const override {
    const auto& arguments =
        checked_arguments<cubit_stream_read_arguments>(public_arguments, "cubit_stream_read_arguments");
    require_stream_bytes(arguments.bytes);
    pointers_.check(&arguments);
    require_alignment("checksums", arguments.checksums, nullptr, 0, 4, 4);
    require_alignment("source", arguments.source, nullptr, 0, 1, 16);
    Launch launch;
    const StreamReadArguments parameters{arguments.source, arguments.bytes / 4, arguments.checksums};
    const int blocks = std::min(device.multiprocessors * descriptor_.blocks_per_sm, kStreamReadSlots);
    launch.shape = {{static_cast<unsigned>(blocks), 1, 1}, kStreamThreads, 0};
    launch.parameter_bytes = sizeof parameters;
    std::memcpy(launch.parameters.data(), &parameters, sizeof parameters);
    return launch;
  }

 private:
  StreamDescriptor descriptor_;
  codegen::KernelSource source_;
  PlanReport report_;
  PointerChecks pointers_;
};

}  // namespace

const Operator& stream_read_operator() {
  static const StreamOperator<StreamReadSpecialisation> instance(
      {kName, "a plain read of a buffer: the floor that benchmarks compare with", stream_read_arguments()});
  return instance;
}

}  // namespace cubit::ops
