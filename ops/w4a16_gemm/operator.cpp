// The interface of the operator w4a16_gemm for the registry, the command line and `explain`.
#include "ops/gemm/operator.hpp"

#include <cubit/w4a16_gemm.h>

#include "ops/w4a16_gemm/description.hpp"
#include "ops/w4a16_gemm/members.hpp"
#include "ops/w4a16_gemm/w4a16_gemm.hpp"

namespace cubit::ops {
namespace {

class W4a16GemmOperator final : public gemm::GemmOperator<W4a16Gemm, cubit_w4a16_gemm_arguments> {
 public:
  W4a16GemmOperator() : GemmOperator(w4a16_gemm::kSetPolicy, w4a16_gemm::kTranslation, w4a16_gemm::parse) {}

  std::string_view name() const override { return "w4a16_gemm"; }
  std::string_view summary() const override {
    return "activations times 4-bit or 8-bit weights, as GPTQ and AWQ checkpoints store them, or times dense weights";
  }
  std::vector<FieldHelp> fields() const override { return help_of(w4a16_gemm::fields()); }
  const ArgumentTable& arguments() const override { return w4a16_gemm::arguments(); }
  std::string suggest_help() const override {
    return "tile_m and tile_n of the set's member that launches of m, n, k take (n: of all layers), by a performance "
           "model of an H200; "
           "with batch_invariant=true, activation_order=true or family sm75, which nobody has timed, the smallest "
           "tile_m that holds the rows";
  }
  std::string suggest(std::string_view text, const Numbers& sizes, const runtime::DeviceFacts& device) const override {
    return w4a16_gemm::suggest(w4a16_gemm::parse(text), sizes, device).text();
  }
};

}  // namespace

const Operator& w4a16_gemm_operator() {
  static const W4a16GemmOperator instance;
  return instance;
}

}  // namespace cubit::ops
