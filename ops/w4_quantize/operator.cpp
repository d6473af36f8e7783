// The interface of the operator w4_quantize for the registry, the command line and `explain`.
#include <cubit/w4_quantize.h>

#include "ops/one_pass.hpp"
#include "ops/w4_quantize/w4_quantize.hpp"

namespace cubit::ops {
namespace {

class W4QuantizeOperator final : public Operator {
 public:
  std::string_view name() const override { return "w4_quantize"; }
  std::string_view summary() const override {
    return "round weights to 4 bits, group by group, in a checkpoint's layout, and report the errors";
  }
  std::vector<FieldHelp> fields() const override { return help_of(w4_quantize::fields()); }
  const ArgumentTable& arguments() const override { return w4_quantize::arguments(); }
  std::string canonical(std::string_view text) const override { return w4_quantize::parse(text).text(); }
  std::shared_ptr<const Specialisation> specialise(std::string_view text,
                                                   const codegen::Architecture& architecture) const override {
    const W4Quantize descriptor = w4_quantize::parse(text);
    return std::make_shared<one_pass::OnePassSpecialisation>(
        w4_quantize::make_source(descriptor, architecture), w4_quantize::make_report(descriptor),
        sizeof(cubit_w4_quantize_arguments),
        [descriptor, pointers = PointerChecks(arguments(), fields(), descriptor.text())](const void* arguments,
                                                                                         const runtime::DeviceFacts&) {
          return w4_quantize::encode(descriptor, pointers, arguments);
        });
  }
};

}  // namespace

const Operator& w4_quantize_operator() {
  static const W4QuantizeOperator instance;
  return instance;
}

}  // namespace cubit::ops
