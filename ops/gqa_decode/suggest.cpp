// Which family a launch of known sizes wants, where the descriptor leaves it open: a kernel is chosen before page sizes
// and numbers of heads are known, and of some family sm90 copies rows in pieces, which family sm80 does faster.
#include <fmt/format.h>

#include "base/error.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"
#include "ops/host_tensors.hpp"

namespace cubit::ops::gqa_decode {
namespace {

/// A launch of several long sequences over a dense cache [batch or pages, tokens, KV heads, row].
cubit_gqa_decode_arguments dense_launch(const GqaDecode& descriptor, const Numbers& sizes) {
  const bool is_paged = descriptor.cache == KvAddressing::paged;
  cubit_gqa_decode_arguments launch{};
  launch.batch = 64;         // any number but one, which has no stride
  launch.max_length = 8192;  // longer than any stage, which boxes fill
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

GqaDecode suggest(const GqaDecode& descriptor, const Numbers& sizes, const runtime::DeviceFacts& device) {
  const cubit_gqa_decode_arguments launch = dense_launch(descriptor, sizes);
  const Plan plan = make_plan(descriptor, *device.architecture);
  // docs/performance/gqa_decode_sm90.md: unaligned rows of 3 KV heads, and pages of 1 and 4 tokens. Of 16-bit rows
  // family sm90 is as fast in pieces; of bytes, and of aligned rows without pages, nobody knows.
  const bool was_measured = plan.copies_unaligned_rows() || descriptor.cache == KvAddressing::paged;
  const bool is_open = descriptor.family == kAnyFamily && plan.family == "sm90";
  if (!is_open || descriptor.kv != KvFormat::int4_rows || !was_measured) return descriptor;
  if (choose_split(plan, launch, device).boxes > 0) return descriptor;
  GqaDecode other = descriptor;
  other.family = "sm80";
  return other;
}

}  // namespace cubit::ops::gqa_decode
