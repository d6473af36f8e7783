// Kernel families: the different ways to build one operator's kernel, behind one interface, and the choice among them.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "codegen/architecture.hpp"
#include "ops/operator.hpp"

namespace cubit::ops {

/// One way to build an operator's kernel: an instruction set, a pipeline and a schedule. A family is immutable and has
/// a folder of its own, ops/<operator>/<family>/; the operator holds a list of its families.
template <class Descriptor>
class KernelFamily {
 public:
  virtual ~KernelFamily() = default;
  /// The value of the descriptor's field `family` that asks for this family: "sm90".
  virtual std::string_view name() const = 0;
  /// The architectures that have the family's instructions, for error messages: "sm_90 and later".
  virtual std::string_view accepted() const = 0;
  /// The rule that keeps the family from serving the descriptor on the architecture, or nothing. Pure.
  virtual std::optional<std::string> why_not(const Descriptor& descriptor,
                                             const codegen::Architecture& architecture) const = 0;
  /// Plans the kernel: tiles, stages, layouts, launch shape. The result holds the source and the report, without the
  /// rejections of other families. Requires that why_not() returns nothing. Pure.
  virtual std::shared_ptr<const Specialisation> plan(const Descriptor& descriptor,
                                                     const codegen::Architecture& architecture) const = 0;
};

}  // namespace cubit::ops
