// The interface of the operator w8a8_gemm for the registry, the command line and `explain`.
#include "ops/gemm/operator.hpp"

#include "ops/w8a8_gemm/w8a8_gemm.hpp"

namespace cubit::ops {
namespace {

class W8a8GemmOperator final : public gemm::GemmOperator<W8a8Gemm, cubit_w8a8_gemm_arguments> {
 public:
  W8a8GemmOperator() : GemmOperator(w8a8_gemm::kSetPolicy, w8a8_gemm::kTranslation, w8a8_gemm::parse) {}

  std::string_view name() const override { return "w8a8_gemm"; }
  std::string_view summary() const override {
    return "8-bit activations times 8-bit weights, int8 or e4m3, with scales per token and per channel";
  }
  std::vector<FieldHelp> fields() const override { return help_of(w8a8_gemm::fields()); }
  const ArgumentTable& arguments() const override { return w8a8_gemm::arguments(); }
};

}  // namespace

const Operator& w8a8_gemm_operator() {
  static const W8a8GemmOperator instance;
  return instance;
}

}  // namespace cubit::ops
