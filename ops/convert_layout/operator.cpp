// The interface of the operator convert_layout for the registry, the command line and `explain`.
#include <cubit/convert_layout.h>

#include "ops/convert_layout/convert_layout.hpp"
#include "ops/one_pass.hpp"

namespace cubit::ops {
namespace {

class ConvertLayoutOperator final : public Operator {
 public:
  std::string_view name() const override { return "convert_layout"; }
  std::string_view summary() const override {
    return "convert a matrix of bytes between row-major order and the interleaved layouts of int8 libraries";
  }
  std::vector<FieldHelp> fields() const override { return help_of(convert_layout::fields()); }
  const ArgumentTable& arguments() const override { return convert_layout::arguments(); }
  std::string canonical(std::string_view text) const override { return convert_layout::parse(text).text(); }
  std::shared_ptr<const Specialisation> specialise(std::string_view text,
                                                   const codegen::Architecture& architecture) const override {
    const ConvertLayout descriptor = convert_layout::parse(text);
    return std::make_shared<one_pass::OnePassSpecialisation>(
        convert_layout::make_source(descriptor, architecture), convert_layout::make_report(descriptor),
        sizeof(cubit_convert_layout_arguments),
        [descriptor, pointers = PointerChecks(arguments(), fields(), descriptor.text())](const void* arguments,
                                                                                         const runtime::DeviceFacts&) {
          return convert_layout::encode(descriptor, pointers, arguments);
        });
  }
};

}  // namespace

const Operator& convert_layout_operator() {
  static const ConvertLayoutOperator instance;
  return instance;
}

}  // namespace cubit::ops
