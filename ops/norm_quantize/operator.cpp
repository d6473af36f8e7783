// The interface of the operator norm_quantize for the registry, the command line and `explain`.
#include <cubit/norm_quantize.h>

#include "ops/norm_quantize/norm_quantize.hpp"
#include "ops/one_pass.hpp"

namespace cubit::ops {
namespace {

class NormQuantizeOperator final : public Operator {
 public:
  std::string_view name() const override { return "norm_quantize"; }
  std::string_view summary() const override {
    return "RMSNorm or LayerNorm of rows, with an optional residual, then quantise to int8 or e4m3";
  }
  std::vector<FieldHelp> fields() const override { return help_of(norm_quantize::fields()); }
  const ArgumentTable& arguments() const override { return norm_quantize::arguments(); }
  std::string canonical(std::string_view text) const override { return norm_quantize::parse(text).text(); }
  std::shared_ptr<const Specialisation> specialise(std::string_view text,
                                                   const codegen::Architecture& architecture) const override {
    const NormQuantize descriptor = norm_quantize::parse(text);
    return std::make_shared<one_pass::OnePassSpecialisation>(
        norm_quantize::make_source(descriptor, architecture), norm_quantize::make_report(descriptor, architecture),
        sizeof(cubit_norm_quantize_arguments),
        [descriptor, pointers = PointerChecks(arguments(), fields(), descriptor.text())](
            const void* arguments, const runtime::DeviceFacts& device) {
          return norm_quantize::encode(descriptor, pointers, arguments, device);
        });
  }
};

}  // namespace

const Operator& norm_quantize_operator() {
  static const NormQuantizeOperator instance;
  return instance;
}

}  // namespace cubit::ops
