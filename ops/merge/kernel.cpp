// Turns a merge descriptor into a kernel's source and report.
#include <cubit/merge.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/lifetime.hpp"
#include "ops/merge/merge.hpp"
#include "ops/one_pass.hpp"

namespace cubit::ops::merge {
namespace {

using one_pass::kThreads;
constexpr int kHeadDimStep = 8;
constexpr int kMostHeadDim = 512;

Field<Merge> element_field(const char* name, const char* meaning, MergeElement Merge::*member) {
  return word_field<Merge, MergeElement>(
      {name, "bf16, fp16, fp32", "bf16", meaning}, member,
      {{"bf16", MergeElement::bf16}, {"fp16", MergeElement::fp16}, {"fp32", MergeElement::fp32}});
}

std::vector<Field<Merge>> make_fields() {
  std::vector<int> head_dims;
  for (int value = kHeadDimStep; value <= kMostHeadDim; value += kHeadDimStep) head_dims.push_back(value);
  return {number_field<Merge>({"head_dim", fmt::format("{0} to {1} in steps of {0}", kHeadDimStep, kMostHeadDim), "128",
                               "channels per head"},
                              &Merge::head_dim, std::move(head_dims)),
          element_field("input", "type of the partial outputs", &Merge::input),
          element_field("output", "type of the merged output", &Merge::output)};
}

std::string_view element_type_on_device(MergeElement element) {
  if (element == MergeElement::fp32) return "float";
  return element == MergeElement::bf16 ? "cubit::Bfloat16" : "cubit::Half";
}

}  // namespace

const std::vector<Field<Merge>>& fields() {
  static const auto& table = never_destroyed(make_fields());
  return table;
}

Merge parse(std::string_view text) { return parse_fields(text, fields()); }

int element_bytes(MergeElement element) { return element == MergeElement::fp32 ? 4 : 2; }

std::string_view tensor_type(MergeElement element) {
  if (element == MergeElement::fp32) return "F32";
  return element == MergeElement::bf16 ? "BF16" : "F16";
}

int thread_channels(const Merge& descriptor) {
  return 16 / std::max(element_bytes(descriptor.input), element_bytes(descriptor.output));
}

int thread_bytes(const Merge& descriptor, MergeElement element) {
  return thread_channels(descriptor) * element_bytes(element);
}

codegen::KernelSource make_source(const Merge& descriptor, const codegen::Architecture& architecture) {
  codegen::PlanHeader header(descriptor.text());
  header.include("core/types.cuh").constant("kThreads", kThreads).constant("kHeadDim", descriptor.head_dim);
  header.constant("kChannels", thread_channels(descriptor));
  header.alias("Input", element_type_on_device(descriptor.input));
  header.alias("Output", element_type_on_device(descriptor.output));
  return one_pass::make_source(descriptor.text(), "attention", "merge", header, architecture);
}

PlanReport make_report(const Merge& descriptor) {
  const int channels = thread_channels(descriptor);
  PlanReport report;
  report.family = "merge";
  report.decisions = {
      {"threads per head", std::to_string(descriptor.head_dim / channels),
       fmt::format("{} channels each: {} bytes of each part in one load, {} of the output in one store", channels,
                   thread_bytes(descriptor, descriptor.input), thread_bytes(descriptor, descriptor.output))},
      {"parts in flight", "4", "loads of several parts overlap; one pass in the order of the parts"},
      {"threads", std::to_string(kThreads),
       "small blocks let small launches use many SMs; 16 blocks fill an SM's 2048 threads"}};
  return report;
}

}  // namespace cubit::ops::merge
