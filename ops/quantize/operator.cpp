// The interface of the operator quantize for the registry, the command line and `explain`.
#include <cubit/quantize.h>

#include "ops/one_pass.hpp"
#include "ops/quantize/quantize.hpp"

namespace cubit::ops {
namespace {

class QuantizeOperator final : public Operator {
 public:
  std::string_view name() const override { return "quantize"; }
  std::string_view summary() const override {
    return "quantise rows of 16-bit activations to int8 or e4m3, per token or by a given scale";
  }
  std::vector<FieldHelp> fields() const override { return help_of(quantize::fields()); }
  const ArgumentTable& arguments() const override { return quantize::arguments(); }
  std::string canonical(std::string_view text) const override { return quantize::parse(text).text(); }
  std::shared_ptr<const Specialisation> specialise(std::string_view text,
                                                   const codegen::Architecture& architecture) const override {
    const Quantize descriptor = quantize::parse(text);
    return std::make_shared<one_pass::OnePassSpecialisation>(
        quantize::make_source(descriptor, architecture), quantize::make_report(descriptor, architecture),
        sizeof(cubit_quantize_arguments),
        [descriptor, pointers = PointerChecks(arguments(), fields(), descriptor.text())](
            const void* arguments, const runtime::DeviceFacts& device) {
          return quantize::encode(descriptor, pointers, arguments, device);
        });
  }
};

}  // namespace

const Operator& quantize_operator() {
  static const QuantizeOperator instance;
  return instance;
}

}  // namespace cubit::ops
