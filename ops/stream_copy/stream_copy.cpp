#include "ops/stream_copy/stream_copy.hpp"

#include <cubit/stream_copy.h>

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "ops/argument_checks.hpp"
#include "ops/stream_buffer.hpp"
#include "templates/kernels/stream/stream_copy_arguments.h"

namespace cubit::ops {
namespace {

constexpr std::string_view kName = "stream_copy";

class StreamCopySpecialisation final : public Specialisation {
 public:
  StreamCopySpecialisation(const StreamDescriptor& descriptor, const codegen::Architecture& architecture)
      : descriptor_(descriptor),
        source_(stream_source(kName, descriptor, architecture)),
        report_(stream_report(kName, descriptor, "4 copies of 16 bytes")),
        pointers_(stream_copy_arguments(), {}, "") {}
  const codegen::KernelSource& source() const override { return source_; }
  const PlanReport& report() const override { return report_; }
  std::size_t argument_bytes() const override { return sizeof(cubit_stream_copy_arguments); }
  std::size_t workspace_bytes(const void*, const runtime::DeviceFacts&) const override { return 0; }
  Launch encode(const void* public_arguments, void*, std::size_t, const runtime::DeviceFacts& device) const override {
    const auto& arguments =
        checked_arguments<cubit_stream_copy_arguments>(public_arguments, "cubit_stream_copy_arguments");
    require_stream_bytes(arguments.bytes);
    pointers_.check(&arguments);
    require_alignment("source", arguments.source, nullptr, 0, 1, 16);
    require_alignment("destination", arguments.destination, nullptr, 0, 1, 16);
    Launch launch;
    launch.empty = arguments.bytes == 0;
    const StreamCopyArguments parameters{arguments.source, arguments.destination, arguments.bytes / 16};
    const int blocks = device.multiprocessors * descriptor_.blocks_per_sm;
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

const Operator& stream_copy_operator() {
  static const StreamOperator<StreamCopySpecialisation> instance(
      {kName, "a plain copy of a buffer: the floor of kernels that write as they read", stream_copy_arguments()});
  return instance;
}

}  // namespace cubit::ops
