// The family that launches of known sizes want, if the descriptor leaves the family open. A kernel is chosen before
// page sizes and numbers of KV heads are known; for some of them another family is faster.
#include <fmt/format.h>

#include "base/error.hpp"
#include "ops/gqa_decode/family.hpp"
#include "ops/numbers.hpp"

namespace cubit::ops::gqa_decode {
namespace {

/// A launch of several long sequences over a dense cache [batch or pages, tokens, KV heads, row].
cubit_gqa_decode_arguments dense_launch(const GqaDecode& descriptor, const Numbers& sizes) {
  const bool is_paged = descriptor.cache == KvAddressing::paged;
  cubit_gqa_decode_arguments launch{};
  launch.batch = 64;         // more than one, because a batch of one has no stride
  launch.max_length = 8192;  // longer than any stage, so that boxes fill a stage
  launch.kv_heads = 1;
  launch.page_size = is_paged ? 16 : 0;
  for (const auto& [name, value] : sizes) {
    if (name == "kv_heads") {
      launch.kv_heads = static_cast<std::int32_t>(whole_number(name, value, 1, 4096));
    } else if (name == "page_size" && is_paged) {
      launch.page_size = static_cast<std::int32_t>(whole_number(name, value, 1, 256));
    } else {
      throw Failure(Status::invalid_argument, fmt::format("size {}", name),
                    "which family of gqa_decode is fastest does not depend on it",
                    is_paged ? "accepted: kv_heads, page_size" : "accepted: kv_heads");
    }
  }
  const std::int64_t row = descriptor.row_bytes();
  const std::int64_t token = launch.kv_heads * row;
  const std::int64_t tokens = is_paged ? launch.page_size : launch.max_length;
  for (auto* strides : {&launch.key_strides, &launch.value_strides}) {
    (*strides)[0] = tokens * token;
    (*strides)[1] = token;
    (*strides)[2] = row;
  }
  return launch;
}

}  // namespace

GqaDecode suggest(const FamilyList<Family>& list, const GqaDecode& descriptor, const Numbers& sizes,
                  const runtime::DeviceFacts& device) {
  const cubit_gqa_decode_arguments launch = dense_launch(descriptor, sizes);
  const codegen::Architecture& architecture = *device.architecture;
  const Family& chosen = choose_family(list, descriptor, architecture).family;
  if (descriptor.family != kAnyFamily) return descriptor;
  const std::string_view faster = chosen.faster_family(descriptor, architecture, launch, device);
  GqaDecode suggested = descriptor;
  if (!faster.empty()) suggested.family = faster;
  return suggested;
}

}  // namespace cubit::ops::gqa_decode
