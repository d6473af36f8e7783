// The interface of the operator dequantize for the registry, the command line and `explain`.
#include <cubit/dequantize.h>

#include "ops/dequantize/dequantize.hpp"
#include "ops/one_pass.hpp"

namespace cubit::ops {
namespace {

class DequantizeOperator final : public Operator {
 public:
  std::string_view name() const override { return "dequantize"; }
  std::string_view summary() const override {
    return "turn int8 codes or int32 sums into 16-bit values, with bias, activation and residual";
  }
  std::vector<FieldHelp> fields() const override { return help_of(dequantize::fields()); }
  const ArgumentTable& arguments() const override { return dequantize::arguments(); }
  std::string canonical(std::string_view text) const override { return dequantize::parse(text).text(); }
  std::shared_ptr<const Specialisation> specialise(std::string_view text,
                                                   const codegen::Architecture& architecture) const override {
    const Dequantize descriptor = dequantize::parse(text);
    return std::make_shared<one_pass::OnePassSpecialisation>(
        dequantize::make_source(descriptor, architecture), dequantize::make_report(descriptor),
        sizeof(cubit_dequantize_arguments),
        [descriptor, pointers = PointerChecks(arguments(), fields(), descriptor.text())](
            const void* arguments, const runtime::DeviceFacts& device) {
          return dequantize::encode(descriptor, pointers, arguments, device);
        });
  }
};

}  // namespace

const Operator& dequantize_operator() {
  static const DequantizeOperator instance;
  return instance;
}

}  // namespace cubit::ops
