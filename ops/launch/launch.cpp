// Launches operators on devices: encodes tensor maps, repeats recent launches, and calls Kernel::launch.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/error.hpp"
#include "base/lifetime.hpp"
#include "ops/argument_checks.hpp"
#include "ops/launch/known_arguments.hpp"
#include "ops/launch/recent_choices.hpp"
#include "ops/launch/recent_launches.hpp"
#include "ops/launch/recent_maps.hpp"
#include "ops/operator.hpp"
#include "ops/session.hpp"

namespace cubit::ops {

void encode_maps(const runtime::Kernel& kernel, runtime::Device& device, Launch& made) {
  for (const MapParameter& item : made.maps.all()) {
    constexpr std::size_t kBytes = sizeof(runtime::EncodedTensorMap);
    const bool fits = made.parameter_bytes >= kBytes && item.offset <= made.parameter_bytes - kBytes;
    if (!fits || item.offset % alignof(runtime::EncodedTensorMap) != 0) {
      throw Failure(Status::internal, kernel.artifact().descriptor,
                    fmt::format("a tensor map at byte {} of {} bytes of parameters", item.offset, made.parameter_bytes),
                    fmt::format("it takes {} bytes at a multiple of {}", kBytes, alignof(runtime::EncodedTensorMap)));
    }
    const runtime::EncodedTensorMap& encoded = of_this_thread<RecentMaps>().find_or_encode(
        device.identity(), item.map, [&] { return device.encode(item.map); });
    std::memcpy(made.parameters.data() + item.offset, encoded.bytes.data(), kBytes);
  }
}

void Launch::spread_blocks(int blocks_per_sm, const runtime::DeviceFacts& device) {
  const codegen::Architecture& architecture = *device.architecture;
  const auto multiprocessors = static_cast<std::uint64_t>(device.multiprocessors);
  const std::uint64_t blocks = std::uint64_t{shape.grid[0]} * shape.grid[1] * shape.grid[2];
  const std::uint64_t share = (blocks + multiprocessors - 1) / multiprocessors;
  if (share >= static_cast<std::uint64_t>(blocks_per_sm)) return;
  const int unit = architecture.shared_memory_unit;
  const int each = architecture.shared_memory_per_sm / static_cast<int>(share) / unit * unit;
  overlap_shared_memory =
      static_cast<unsigned>(std::min(each - architecture.shared_memory_reserved, architecture.shared_memory_per_block));
}

unsigned Launch::dynamic_shared_memory_of_overlap(unsigned fixed) const {
  const unsigned left = overlap_shared_memory - std::min(fixed, overlap_shared_memory);
  return std::max(shape.dynamic_shared_memory, left);
}

void launch(runtime::Kernel& kernel, runtime::Device& device, const Launch& made, bool overlap,
            runtime::Stream stream) {
  runtime::LaunchShape shape = made.shape;
  shape.overlap = overlap;
  if (overlap) {
    const auto fixed = static_cast<unsigned>(kernel.artifact().resources.static_shared_memory);
    shape.dynamic_shared_memory = made.dynamic_shared_memory_of_overlap(fixed);
  }
  kernel.launch(device, shape, std::span(made.parameters).first(made.parameter_bytes), stream);
}

namespace {

/// All members of a set have the same argument struct.
std::size_t argument_bytes(const OperatorKernel& kernel) { return kernel.member(0).specialisation->argument_bytes(); }

std::size_t choose_member(const OperatorKernel& kernel, const runtime::Device& device, const void* known_arguments) {
  if (kernel.set == nullptr) return 0;
  const MemberChoice& choice = *kernel.set->choice;
  return of_this_thread<RecentChoices>().find_or_choose({kernel.id, device.identity(), choice.key(known_arguments)},
                                                        [&] { return choice.choose(known_arguments, device.facts()); });
}

}  // namespace

std::size_t workspace_bytes(const OperatorKernel& kernel, const runtime::Device& device, const void* arguments) {
  const KnownArguments known(arguments, argument_bytes(kernel));
  if (kernel.set != nullptr) return kernel.set->choice->workspace_bytes(known.get(), device.facts());
  return kernel.specialisation->workspace_bytes(known.get(), device.facts());
}

std::size_t chosen_member(const OperatorKernel& kernel, const runtime::Device& device, const void* arguments) {
  const KnownArguments known(arguments, argument_bytes(kernel));
  return choose_member(kernel, device, known.get());
}

void launch(const OperatorKernel& kernel, runtime::Device& device, const void* arguments, const LaunchPlace& place) {
  const KnownArguments known(arguments, argument_bytes(kernel));
  const void* const known_struct = known.get();
  const auto go = [&](const Launch& made) {
    if (made.empty) return;
    runtime::Kernel& member = *kernel.member(made.member).kernel;
    // A check is free only where the counters are in this process's memory.
    if (device.facts().capability == 0 && place.workspace_bytes > 0)
      device.require_zero(place.workspace, std::min(place.workspace_bytes, kWorkspaceCounterBytes), place.stream);
    const bool overlap = place.overlap && member.launch_facts().waits_for_previous;
    launch(member, device, made, overlap, place.stream);
  };
  const auto make = [&] {
    const std::size_t index = choose_member(kernel, device, known_struct);
    const OperatorKernel& member = kernel.member(index);
    Launch made = member.specialisation->encode(known_struct, place.workspace, place.workspace_bytes, device.facts());
    made.member = static_cast<std::uint32_t>(index);
    if (!made.empty) encode_maps(*member.kernel, device, made);
    return made;
  };
  // The struct's size is its first member. encode() refuses a size that this library does not know.
  const std::size_t bytes = kernel.member(0).specialisation->repeatable_bytes();
  if (bytes == 0 || *static_cast<const std::size_t*>(known_struct) != bytes) return go(make());
  const LaunchRequest request{kernel.id,
                              device.identity(),
                              place.workspace,
                              place.workspace_bytes,
                              {static_cast<const std::byte*>(known_struct), bytes}};
  go(of_this_thread<RecentLaunches>().find_or_make(request, make));
}

}  // namespace cubit::ops
