// C functions that list operators, architectures and devices, and explain the plan of a descriptor.
#include <cubit/cubit.h>
#include <fmt/format.h>

#include <charconv>

#include "base/error.hpp"
#include "capi/border.hpp"
#include "capi/handles.hpp"
#include "codegen/architecture.hpp"
#include "ops/argument_table.hpp"
#include "ops/numbers.hpp"
#include "ops/operator.hpp"
#include "ops/user_code.hpp"
#include "runtime/cache/key.hpp"
#include "runtime/cuda/cuda_device.hpp"

namespace cubit::capi {
namespace {

const char* kind_name(ops::ArgumentKind kind) {
  switch (kind) {
    case ops::ArgumentKind::input:
      return "input";
    case ops::ArgumentKind::output:
      return "output";
    case ops::ArgumentKind::updated:
      return "updated";
    case ops::ArgumentKind::number:
      return "number";
  }
  return "";
}

Json argument_json(const ops::Argument& argument) {
  Json shapes = Json::array();
  for (const ops::ShapeRule& rule : argument.shapes) shapes.push_back({{"when", rule.when}, {"shape", rule.shape}});
  return {{"name", argument.name},
          {"kind", kind_name(argument.kind)},
          {"types", argument.types},
          {"shapes", std::move(shapes)},
          {"when", argument.when},
          {"optional", argument.presence == ops::Presence::optional},
          {"default", argument.standard},
          {"member", argument.member.name},
          {"offset", argument.member.offset},
          {"bytes", argument.member.bytes},
          {"meaning", argument.meaning}};
}

Json operator_json(const ops::Operator& op) {
  Json arguments = Json::array();
  for (const ops::Argument& argument : op.arguments().arguments) arguments.push_back(argument_json(argument));
  Json fields = Json::array();
  for (const ops::FieldHelp& field : op.fields()) {
    fields.push_back(
        {{"name", field.name}, {"accepts", field.accepts}, {"default", field.standard}, {"meaning", field.meaning}});
  }
  return {{"name", op.name()},
          {"summary", op.summary()},
          {"fields", std::move(fields)},
          {"tensors", ops::arguments_help(op.arguments())},
          {"struct", {{"name", op.arguments().struct_name}, {"bytes", op.arguments().bytes}}},
          {"arguments", std::move(arguments)},
          {"suggest", op.suggest_help()}};
}

/// The sizes that a descriptor decides: its fields whose values are integers.
Json sizes_json(const ops::Operator& op, const ops::FieldValues& descriptor) {
  Json sizes = Json::object();
  for (const ops::FieldHelp& field : op.fields()) {
    const std::string_view value = descriptor.value(field.name);
    int number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error == std::errc() && end == value.data() + value.size()) sizes[std::string(field.name)] = number;
  }
  return sizes;
}

/// The member that holds the stride of each dimension is named by sizes of the dimension.
Json strides_json(const ops::Argument& argument) {
  Json strides = Json::array();
  for (const ops::StrideRule& rule : argument.strides)
    strides.push_back({{"sizes", rule.sizes}, {"offset", rule.member.offset}});
  return strides;
}

/// Describes an argument for one descriptor: its condition holds, and its type and shape are known.
Json taken_argument_json(const ops::Argument& argument, const ops::FieldValues& descriptor) {
  return {{"name", argument.name},
          {"kind", kind_name(argument.kind)},
          {"types", ops::type_of(argument, descriptor)},
          {"shape", ops::shape_of(argument, descriptor)},
          {"strides", strides_json(argument)},
          {"optional", argument.presence == ops::Presence::optional},
          {"default", argument.standard},
          {"usual", argument.usual},
          {"offset", argument.member.offset},
          {"bytes", argument.member.bytes},
          {"meaning", argument.meaning}};
}

Json descriptor_arguments_json(const ops::Operator& op, const std::string& canonical) {
  const std::vector<ops::FieldHelp> fields = op.fields();
  const ops::FieldValues descriptor(fields, canonical);
  Json arguments = Json::array();
  for (const ops::Argument& argument : op.arguments().arguments) {
    if (ops::holds(argument.when, descriptor)) arguments.push_back(taken_argument_json(argument, descriptor));
  }
  return {{"descriptor", canonical},
          {"operator", op.name()},
          {"struct", {{"name", op.arguments().struct_name}, {"bytes", op.arguments().bytes}}},
          {"sizes", sizes_json(op, descriptor)},
          {"arguments", std::move(arguments)}};
}

Json architecture_json(const codegen::Architecture& row) {
  return {{"name", row.name},
          {"capability", row.capability},
          {"usual", row.usual},
          {"shared_memory_per_sm", row.shared_memory_per_sm},
          {"shared_memory_per_block", row.shared_memory_per_block},
          {"shared_memory_reserved", row.shared_memory_reserved},
          {"shared_memory_unit", row.shared_memory_unit},
          {"registers_per_sm", row.registers_per_sm},
          {"registers_per_thread", row.registers_per_thread},
          {"threads_per_sm", row.threads_per_sm},
          {"blocks_per_sm", row.blocks_per_sm},
          {"ldmatrix", row.ldmatrix},
          {"movmatrix", row.movmatrix},
          {"stmatrix", row.stmatrix},
          {"cp_async", row.cp_async},
          {"bulk_copy", row.bulk_copy},
          {"cluster_blocks", row.cluster_blocks},
          {"wgmma", row.wgmma},
          {"register_transfer", row.register_transfer},
          {"fp8_conversion", row.fp8_conversion}};
}

constexpr const char* kUsualCpuDevice = "cpu:sm_80";  // all newer architectures can run code for sm_80

/// A device without a row in cubit's architecture table is listed with its trouble, so that the other devices stay
/// visible.
Json listed_device(int ordinal) {
  const std::string name = fmt::format("cuda:{}", ordinal);
  try {
    return device_json(name, runtime::cuda_device_facts(ordinal));
  } catch (const Failure& failure) {
    return {{"name", name}, {"trouble", failure.what()}};
  }
}

Json decisions_json(const ops::PlanReport& report) {
  Json list = Json::array();
  for (const ops::Decision& decision : report.decisions) {
    list.push_back({{"name", decision.name}, {"value", decision.value}, {"why", decision.why}});
  }
  return list;
}

Json proofs_json(const ops::PlanReport& report, const codegen::KernelSource& source) {
  Json list = Json::array();
  for (const codegen::ConflictProof& proof : report.proofs) {
    list.push_back({{"access", proof.access},
                    {"degree", proof.degree},
                    {"wavefronts", proof.wavefronts},
                    {"ideal", proof.ideal},
                    {"places", codegen::access_places(source, proof.access)}});
  }
  return list;
}

Json rejections_json(const ops::PlanReport& report) {
  Json list = Json::array();
  for (const ops::Rejection& rejection : report.rejections) {
    list.push_back({{"family", rejection.family}, {"why", rejection.why}});
  }
  return list;
}

std::string plan_header(const codegen::KernelSource& source) {
  for (const codegen::Header& header : source.headers) {
    if (header.name == "plan.cuh") return header.text;
  }
  return "";
}

/// The launches of a few usual sizes that take member `index` of a set.
Json serves_json(const std::vector<ops::ServedSizes>& served, std::size_t index) {
  Json list = Json::array();
  for (const ops::ServedSizes& one : served) {
    list.push_back({{"sizes", one.sizes}, {"launches", one.served.at(index)}});
  }
  return list;
}

Json explain_set_json(const ops::Operator& op, std::string_view text, const std::vector<std::string>& members,
                      const codegen::Architecture& architecture) {
  const std::vector<ops::ServedSizes> served = op.choice(text, architecture)->served();
  Json list = Json::array();
  for (const std::string& member : members) {
    const auto specialisation = op.specialise(member, architecture);
    const codegen::KernelSource& source = specialisation->source();
    list.push_back({{"descriptor", member},
                    {"family", specialisation->report().family},
                    {"request_key", runtime::request_key(source).hex()},
                    {"threads", source.launch.threads},
                    {"dynamic_shared_memory", source.launch.dynamic_shared_memory},
                    {"serves", serves_json(served, list.size())}});
  }
  return {{"descriptor", op.canonical(text)}, {"architecture", architecture.name}, {"members", std::move(list)}};
}

Json explain_json(const ops::Specialisation& specialisation) {
  const codegen::KernelSource& source = specialisation.source();
  const ops::PlanReport& report = specialisation.report();
  return {{"descriptor", source.descriptor},
          {"architecture", source.target},
          {"family", report.family},
          {"decisions", decisions_json(report)},
          {"proofs", proofs_json(report, source)},
          {"fragments", report.fragments},
          {"rejections", rejections_json(report)},
          {"spills_allowed_because", report.spills_allowed_because},
          {"request_key", runtime::request_key(source).hex()},
          {"template", source.template_name},
          {"plan_header", plan_header(source)},
          {"threads", source.launch.threads},
          {"dynamic_shared_memory", source.launch.dynamic_shared_memory}};
}

}  // namespace

Json device_json(const std::string& name, const runtime::DeviceFacts& facts) {
  const int per_clock = codegen::tensor_operations_per_clock(*facts.architecture);
  return {{"name", name},
          {"description", facts.name},
          {"architecture", facts.architecture->name},
          {"target", runtime::target_for(facts)},
          {"multiprocessors", facts.multiprocessors},
          {"memory_bytes", facts.memory_bytes},
          {"l2_bytes", facts.l2_bytes},
          {"clock_khz", facts.clock_khz},
          {"tensor_operations_per_second", 1e3 * facts.clock_khz * facts.multiprocessors * per_clock},
          {"memory_bytes_per_second", facts.memory_bytes_per_second},
          {"driver_version", facts.driver_version}};
}

}  // namespace cubit::capi

using namespace cubit;
using namespace cubit::capi;

cubit_status cubit_operators(const char** json) {
  return guarded([&] {
    require(json, "cubit_operators: json");
    Json list = Json::array();
    for (const ops::Operator* op : ops::operators()) list.push_back(operator_json(*op));
    *json = thread_text(list);
  });
}

cubit_status cubit_architectures(const char** json) {
  return guarded([&] {
    require(json, "cubit_architectures: json");
    Json list = Json::array();
    for (const codegen::Architecture& row : codegen::architectures()) list.push_back(architecture_json(row));
    *json = thread_text(list);
  });
}

cubit_status cubit_devices(const char** json) {
  return guarded([&] {
    require(json, "cubit_devices: json");
    Json list = Json::array();
    for (int i = 0; i < runtime::cuda_device_count(); ++i) list.push_back(listed_device(i));
    *json = thread_text(Json{{"devices", std::move(list)},
                             {"trouble", runtime::cuda_trouble()},
                             {"cpu", {{"name", kUsualCpuDevice}, {"trouble", runtime::cpu_trouble()}}}});
  });
}

cubit_status cubit_descriptor_canonical(const char* descriptor, const char** text) {
  return guarded([&] {
    require(descriptor, "cubit_descriptor_canonical: descriptor");
    require(text, "cubit_descriptor_canonical: text");
    *text = thread_text(ops::find_operator(descriptor).canonical(descriptor));
  });
}

cubit_status cubit_descriptor_arguments(const char* descriptor, const char** json) {
  return guarded([&] {
    require(descriptor, "cubit_descriptor_arguments: descriptor");
    require(json, "cubit_descriptor_arguments: json");
    const ops::Operator& op = ops::find_operator(descriptor);
    *json = thread_text(descriptor_arguments_json(op, op.canonical(descriptor)));
  });
}

cubit_status cubit_descriptor_members(const char* descriptor, const char* architecture, const char** json) {
  return guarded([&] {
    require(descriptor, "cubit_descriptor_members: descriptor");
    require(architecture, "cubit_descriptor_members: architecture");
    require(json, "cubit_descriptor_members: json");
    *json =
        thread_text(Json(ops::find_operator(descriptor).members(descriptor, codegen::find_architecture(architecture))));
  });
}

cubit_status cubit_suggest(const char* descriptor, const cubit_number* sizes, size_t size_count,
                           const char* architecture, int multiprocessors, int64_t memory_bytes_per_second,
                           const char** text) {
  return guarded([&] {
    require(descriptor, "cubit_suggest: descriptor");
    require(architecture, "cubit_suggest: architecture");
    require(text, "cubit_suggest: text");
    constexpr int kMostMultiprocessors = 1 << 16;
    if (multiprocessors < 1 || multiprocessors > kMostMultiprocessors) {
      throw Failure(Status::invalid_argument, fmt::format("multiprocessors = {}", multiprocessors),
                    fmt::format("a device has 1 to {}", kMostMultiprocessors),
                    "cubit_devices reports the number; an H200 has 132");
    }
    if (memory_bytes_per_second < 0) {
      throw Failure(Status::invalid_argument, fmt::format("memory_bytes_per_second = {}", memory_bytes_per_second),
                    "a bandwidth is 0 or more bytes per second",
                    "cubit_devices reports the number; give 0 if it is not known");
    }
    runtime::DeviceFacts device;
    device.architecture = &codegen::find_architecture(architecture);
    device.multiprocessors = multiprocessors;
    device.memory_bytes_per_second = memory_bytes_per_second;
    const auto numbers = ops::numbers_of(sizes, size_count, "cubit_suggest: sizes");
    *text = thread_text(ops::find_operator(descriptor).suggest(descriptor, numbers, device));
  });
}

cubit_status cubit_add_score(const char* name, const char* text, const char** field) {
  return guarded([&] {
    require(name, "cubit_add_score: name");
    require(text, "cubit_add_score: text");
    require(field, "cubit_add_score: field");
    *field = thread_text(ops::add_user_code(name, text, "modify_score"));
  });
}

cubit_status cubit_explain(const char* descriptor, const char* architecture, const char** json) {
  return guarded([&] {
    require(descriptor, "cubit_explain: descriptor");
    require(architecture, "cubit_explain: architecture");
    require(json, "cubit_explain: json");
    const ops::Operator& op = ops::find_operator(descriptor);
    const codegen::Architecture& target = codegen::find_architecture(architecture);
    const std::vector<std::string> members = op.members(descriptor, target);
    *json = thread_text(members.size() > 1 ? explain_set_json(op, descriptor, members, target)
                                           : explain_json(*op.specialise(members.front(), target)));
  });
}
