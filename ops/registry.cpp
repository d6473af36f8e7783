// The table of all operators. A new operator adds one line here and its folder.
#include <fmt/format.h>

#include <array>

#include "base/error.hpp"
#include "ops/convert_layout/convert_layout.hpp"
#include "ops/dequantize/dequantize.hpp"
#include "ops/gate_quantize/gate_quantize.hpp"
#include "ops/gqa_decode/gqa_decode.hpp"
#include "ops/kv_append/kv_append.hpp"
#include "ops/kv_gather/kv_gather.hpp"
#include "ops/merge/merge.hpp"
#include "ops/norm_quantize/norm_quantize.hpp"
#include "ops/operator.hpp"
#include "ops/quantize/quantize.hpp"
#include "ops/stream_copy/stream_copy.hpp"
#include "ops/stream_read/stream_read.hpp"
#include "ops/w4_quantize/w4_quantize.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"
#include "ops/w8a8_gemm/w8a8_gemm.hpp"
#include "ops/weight_sums/weight_sums.hpp"

namespace cubit::ops {

std::span<const Operator* const> operators() {
  static const std::array table = {
      &convert_layout_operator(), &dequantize_operator(),  &gate_quantize_operator(), &gqa_decode_operator(),
      &kv_append_operator(),      &kv_gather_operator(),   &merge_operator(),         &norm_quantize_operator(),
      &quantize_operator(),       &stream_copy_operator(), &stream_read_operator(),   &w4_quantize_operator(),
      &w4a16_gemm_operator(),     &w8a8_gemm_operator(),   &weight_sums_operator(),
  };
  return table;
}

const Operator& find_operator(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(':'));
  std::string known;
  for (const Operator* candidate : operators()) {
    if (candidate->name() == name) return *candidate;
    known += (known.empty() ? "" : ", ") + std::string(candidate->name());
  }
  throw Failure(Status::invalid_argument, fmt::format("descriptor \"{}\"", text.substr(0, 200)),
                fmt::format("there is no operator \"{}\"", name.substr(0, 100)), fmt::format("accepted: {}", known));
}

}  // namespace cubit::ops
