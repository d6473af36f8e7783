// Launches of the operators that read their tensors once, encoded from a descriptor and its public arguments.
#pragma once

#include "ops/argument_table.hpp"
#include "ops/convert_layout/convert_layout.hpp"
#include "ops/dequantize/dequantize.hpp"
#include "ops/gate_quantize/gate_quantize.hpp"
#include "ops/kv_append/kv_append.hpp"
#include "ops/kv_gather/kv_gather.hpp"
#include "ops/merge/merge.hpp"
#include "ops/norm_quantize/norm_quantize.hpp"
#include "ops/quantize/quantize.hpp"
#include "ops/w4_quantize/w4_quantize.hpp"

namespace cubit::tests {

/// The checks of pointers that a specialisation of the descriptor makes.
template <class Descriptor>
ops::PointerChecks pointer_checks(const Descriptor& descriptor, const ops::ArgumentTable& arguments,
                                  const std::vector<ops::Field<Descriptor>>& fields) {
  return ops::PointerChecks(arguments, ops::help_of(fields), descriptor.text());
}

inline ops::Launch encode(const KvAppend& descriptor, const void* arguments, const runtime::DeviceFacts& device) {
  const auto pointers = pointer_checks(descriptor, ops::kv_append::arguments(), ops::kv_append::fields());
  return ops::kv_append::encode(descriptor, pointers, arguments, device);
}
inline ops::Launch encode(const KvGather& descriptor, const void* arguments) {
  const auto pointers = pointer_checks(descriptor, ops::kv_gather::arguments(), ops::kv_gather::fields());
  return ops::kv_gather::encode(descriptor, pointers, arguments);
}
inline ops::Launch encode(const Merge& descriptor, const void* arguments) {
  return ops::merge::encode(descriptor, pointer_checks(descriptor, ops::merge::arguments(), ops::merge::fields()),
                            arguments);
}
inline ops::Launch encode(const ConvertLayout& descriptor, const void* arguments) {
  const auto pointers = pointer_checks(descriptor, ops::convert_layout::arguments(), ops::convert_layout::fields());
  return ops::convert_layout::encode(descriptor, pointers, arguments);
}
inline ops::Launch encode(const Dequantize& descriptor, const void* arguments, const runtime::DeviceFacts& device) {
  const auto pointers = pointer_checks(descriptor, ops::dequantize::arguments(), ops::dequantize::fields());
  return ops::dequantize::encode(descriptor, pointers, arguments, device);
}
inline ops::Launch encode(const GateQuantize& descriptor, const void* arguments, const runtime::DeviceFacts& device) {
  const auto pointers = pointer_checks(descriptor, ops::gate_quantize::arguments(), ops::gate_quantize::fields());
  return ops::gate_quantize::encode(descriptor, pointers, arguments, device);
}
inline ops::Launch encode(const NormQuantize& descriptor, const void* arguments, const runtime::DeviceFacts& device) {
  const auto pointers = pointer_checks(descriptor, ops::norm_quantize::arguments(), ops::norm_quantize::fields());
  return ops::norm_quantize::encode(descriptor, pointers, arguments, device);
}
inline ops::Launch encode(const Quantize& descriptor, const void* arguments, const runtime::DeviceFacts& device) {
  const auto pointers = pointer_checks(descriptor, ops::quantize::arguments(), ops::quantize::fields());
  return ops::quantize::encode(descriptor, pointers, arguments, device);
}
inline ops::Launch encode(const W4Quantize& descriptor, const void* arguments) {
  const auto pointers = pointer_checks(descriptor, ops::w4_quantize::arguments(), ops::w4_quantize::fields());
  return ops::w4_quantize::encode(descriptor, pointers, arguments);
}

}  // namespace cubit::tests
