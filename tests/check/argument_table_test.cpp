// The argument tables state what problems and launches do: made-up problems of many descriptors have the tensors of the
// table, with its names, types and shapes, and their launch structs hold each address at the offset of the table.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "check/problem.hpp"
#include "ops/argument_table.hpp"
#include "tests/support/refusals.hpp"

namespace cubit::check {
namespace {

struct TableCase {
  const char* descriptor;
  Numbers sizes;
};

const std::vector<TableCase>& cases() {
  static const std::vector<TableCase> list = {
      {"gqa_decode:heads_per_kv=2", {{"batch", 3}, {"context", 20}, {"kv_heads", 2}, {"lse", 1}}},
      {"gqa_decode:heads_per_kv=2,kv=int4_rows,groups=4", {{"batch", 3}, {"context", 20}, {"ragged", 1}}},
      {"gqa_decode:kv=int8_split,cache=paged", {{"batch", 3}, {"context", 20}, {"ragged", 1}, {"kv_heads", 2}}},
      {"gqa_decode:kv=fp8_e4m3,scales=group,groups=2", {{"batch", 3}, {"context", 20}, {"kv_heads", 2}}},
      {"gqa_decode:kv=fp8_e4m3,value=int8_split,value_scales=token", {{"batch", 3}, {"context", 20}, {"kv_heads", 2}}},
      {"gqa_decode:head_dim=192,value_dim=128,alibi=true,sinks=true,soft_cap=true,window=true",
       {{"batch", 3}, {"context", 20}, {"lse", 1}}},
      {"gqa_decode:heads_per_kv=2,query_tokens=3,mask=tree", {{"batch", 2}, {"context", 20}, {"lse", 1}}},
      {"kv_append", {{"batch", 3}, {"tokens", 5}, {"kv_heads", 2}, {"ragged", 1}}},
      {"kv_append:rotary=half_split,value_dim=64", {{"batch", 3}, {"tokens", 5}, {"scattered", 1}}},
      {"kv_append:kv=int8_split,cache=paged", {{"batch", 3}, {"tokens", 5}, {"kv_heads", 2}}},
      {"kv_append:kv=fp8_e5m2,scales=tensor", {{"batch", 3}, {"tokens", 5}, {"kv_heads", 2}}},
      {"kv_append:kv=int8_split,scales=group,groups=2,value=int4_rows", {{"batch", 3}, {"tokens", 5}}},
      {"kv_gather", {{"batch", 3}, {"tokens", 5}, {"kv_heads", 2}, {"ragged", 1}}},
      {"kv_gather:kv=int8_split,scales=token,cache=paged", {{"batch", 3}, {"tokens", 5}, {"kv_heads", 2}}},
      {"merge:input=fp32", {{"parts", 3}, {"rows", 4}, {"heads", 2}, {"lse", 1}}},
      {"merge", {{"parts", 3}, {"rows", 4}, {"heads", 2}}},
      {"convert_layout", {{"rows", 3}, {"columns", 64}}},
      {"convert_layout:from=col32,to=row", {{"rows", 3}, {"columns", 64}}},
      {"convert_layout:to=col4_4r2_8c", {{"rows", 8}, {"columns", 64}}},
      {"convert_layout:from=col32_2r_4r4,to=col4_4r2_8c", {{"rows", 32}, {"columns", 64}}},
      {"dequantize", {{"rows", 3}, {"columns", 64}}},
      {"dequantize:input=int32,weight_scale=channel,bias=true,layout=col32", {{"rows", 3}, {"columns", 64}}},
      {"dequantize:scale=tensor,weight_scale=tensor,residual=true,output=bf16", {{"rows", 3}, {"columns", 64}}},
      {"gate_quantize", {{"rows", 3}, {"columns", 64}}},
      {"gate_quantize:output=unquantised,input=bf16", {{"rows", 3}, {"columns", 64}}},
      {"gate_quantize:scale=tensor,layout=col32", {{"rows", 3}, {"columns", 64}}},
      {"norm_quantize:residual=true,bias=true,scheme=asymmetric", {{"rows", 3}, {"columns", 64}}},
      {"norm_quantize:output=unquantised,norm=layer,residual=true,input=bf16", {{"rows", 3}, {"columns", 64}}},
      {"norm_quantize:output=fp8_e4m3,scale=tensor", {{"rows", 3}, {"columns", 64}}},
      {"quantize", {{"rows", 3}, {"columns", 64}}},
      {"quantize:scheme=asymmetric,input=bf16", {{"rows", 3}, {"columns", 64}}},
      {"quantize:output=fp8_e4m3,scale=tensor,layout=col32", {{"rows", 3}, {"columns", 64}}},
      {"stream_copy", {{"bytes", 4096}}},
      {"stream_read", {{"bytes", 4096}}},
      {"w4_quantize", {{"n", 16}, {"k", 256}}},
      {"w4_quantize:format=awq,group_size=all", {{"n", 16}, {"k", 256}, {"errors", 0}}},
      {"w4_quantize:format=symmetric,input=bf16", {{"n", 16}, {"k", 256}}},
      {"w4a16_gemm:activation_order=true,bias=true", {{"m", 3}, {"n", 64}, {"k", 256}}},
      {"w4a16_gemm:format=awq,function=silu_gate,residual=true", {{"m", 3}, {"n", 64}, {"k", 256}}},
      {"w4a16_gemm:format=symmetric,bits=8", {{"m", 3}, {"n", 64}, {"k", 256}}},
      {"w4a16_gemm:format=dense,tile_m=64,bias=true", {{"m", 3}, {"n", 64}, {"k", 264}}},
      {"w4a16_gemm:format=dense,tile_m=64,element=bf16,function=silu_gate,residual=true",
       {{"m", 3}, {"n", 64}, {"k", 264}}},
      {"w4a16_gemm:layers=3,bias=true,residual=true", {{"m", 3}, {"n", 64}, {"n_2", 16}, {"n_3", 32}, {"k", 256}}},
      {"w4a16_gemm:layers=2,function=silu_gate,format=awq", {{"m", 3}, {"n", 64}, {"k", 256}}},
      {"w8a8_gemm:bias=true", {{"m", 3}, {"n", 64}, {"k", 48}}},
      {"w8a8_gemm:output=int32", {{"m", 3}, {"n", 64}, {"k", 48}}},
      {"w8a8_gemm:output=int8,activation_scale=tensor,weight_scale=tensor,residual=true,addend=bf16",
       {{"m", 3}, {"n", 64}, {"k", 48}}},
      {"w8a8_gemm:element=fp8_e4m3,output=fp8_e4m3,function=silu_gate,residual=true", {{"m", 3}, {"n", 64}, {"k", 48}}},
      {"w8a8_gemm:output=bf16,zero_points=true", {{"m", 3}, {"n", 64}, {"k", 48}}},
      {"w8a8_gemm:zero_points=true,activation_scale=tensor", {{"m", 3}, {"n", 64}, {"k", 48}}},
      {"w8a8_gemm:second_output=int8,function=silu_gate", {{"m", 3}, {"n", 64}, {"k", 48}}},
      {"w8a8_gemm:second_output=fp8_e4m3", {{"m", 3}, {"n", 64}, {"k", 48}}},
      {"weight_sums", {{"n", 5}, {"k", 48}}}};
  return list;
}

/// The sizes that a problem's tensors have given to names so far.
using Sizes = std::map<std::string, std::int64_t>;

/// The dimensions of "[a, b / 2]".
std::vector<std::string> dimensions(std::string_view shape) {
  std::vector<std::string> list;
  std::string text(shape.substr(1, shape.size() - 2));
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(", ", at), text.size());
    list.push_back(text.substr(at, end - at));
    at = end + 2;
  }
  return list;
}

/// The value of "batch", "4096", "ceil(k / group_size)", "n + n_2" or "4 * groups + head_dim / 2"; nothing if a name
/// has no size yet. Terms are sums of products and quotients, which are evaluated from left to right.
std::optional<std::int64_t> value_of(std::string text, const Sizes& sizes) {
  const std::size_t plus = text.rfind(" + ");
  const std::size_t factor = plus != std::string::npos ? plus : std::max(text.rfind(" * ") + 1, text.rfind(" / ") + 1);
  if (text.starts_with("ceil(")) {
    const auto quotient = text.substr(5, text.size() - 6);
    const std::size_t slash = quotient.find(" / ");
    const auto whole = value_of(quotient.substr(0, slash), sizes);
    const auto part = value_of(quotient.substr(slash + 3), sizes);
    if (!whole || !part) return std::nullopt;
    return (*whole + *part - 1) / *part;
  }
  if (plus != std::string::npos || factor != 0) {
    const std::size_t at = plus != std::string::npos ? plus : factor - 1;
    const auto left = value_of(text.substr(0, at), sizes);
    const auto right = value_of(text.substr(at + 3), sizes);
    if (!left || !right) return std::nullopt;
    if (text[at + 1] == '+') return *left + *right;
    return text[at + 1] == '*' ? *left * *right : *left / *right;
  }
  if (std::isdigit(static_cast<unsigned char>(text[0])) != 0) return std::stoll(text);
  const auto known = sizes.find(text);
  return known == sizes.end() ? std::nullopt : std::optional(known->second);
}

/// Whether `extent` may be the size that `text` names. A name without a size yet takes the extent, and an expression
/// with such a name may have any.
bool is_size(std::string text, std::int64_t extent, Sizes& sizes) {
  constexpr std::string_view kOrMore = " or more";
  const bool is_bound = text.ends_with(kOrMore);
  if (is_bound) text.resize(text.size() - kOrMore.size());
  if (text.ends_with("...")) text.resize(text.size() - 3);
  const bool is_name = text.find_first_of(" (") == std::string::npos && std::isalpha(text[0]) != 0;
  if (is_name) sizes.try_emplace(text, extent);
  const std::optional<std::int64_t> value = value_of(text, sizes);
  return !value || extent == *value || (is_bound && extent > *value);
}

/// Sizes that the descriptor decides.
Sizes sizes_of(const FieldValues& descriptor, const std::vector<FieldHelp>& fields, const Numbers& numbers) {
  Sizes sizes;
  for (const FieldHelp& field : fields) {
    const std::string value(descriptor.value(field.name));
    if (!value.empty() && std::all_of(value.begin(), value.end(), [](unsigned char c) { return std::isdigit(c) != 0; }))
      sizes[field.name] = std::stoll(value);
  }
  if (descriptor.value("group_size") == "all") sizes["group_size"] = static_cast<std::int64_t>(numbers.at("k"));
  return sizes;
}

void expect_shape(const Tensor& tensor, const Argument& argument, const FieldValues& descriptor, Sizes& sizes) {
  const std::vector<std::string> names = dimensions(shape_of(argument, descriptor));
  ASSERT_EQ(tensor.shape.size(), names.size()) << tensor.name << " " << shape_of(argument, descriptor);
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_TRUE(is_size(names[i], tensor.shape[i], sizes))
        << tensor.name << " dimension " << names[i] << " is " << tensor.shape[i];
  }
}

/// Whether a stride rule is about the dimension with this expression.
bool is_about(std::string_view rule, const std::string& dimension, bool is_first) {
  if (rule == "first") return is_first;
  const auto names = [&](std::string_view name) {
    const std::size_t at = dimension.find(name);
    return at == 0 && (name.size() == dimension.size() || std::strchr(" .", dimension[name.size()]) != nullptr);
  };
  for (std::size_t bar = 0; (bar = rule.find('|')) != std::string_view::npos; rule.remove_prefix(bar + 1)) {
    if (names(rule.substr(0, bar))) return true;
  }
  return names(rule);
}

/// The struct of a problem, whose tensors are dense, has the strides of dense tensors in the members of the table.
void expect_strides(const Tensor& tensor, const Argument& argument, const FieldValues& descriptor,
                    const std::vector<std::byte>& arguments) {
  const std::vector<std::string> names = dimensions(shape_of(argument, descriptor));
  std::int64_t dense = 1;
  for (std::size_t i = names.size(); i-- > 0; dense *= tensor.shape[i]) {
    for (const StrideRule& rule : argument.strides) {
      if (!is_about(rule.sizes, names[i], i == 0)) continue;
      std::int64_t stride = 0;
      std::memcpy(&stride, arguments.data() + rule.member.offset, sizeof stride);
      const bool is_left_out = stride == 0 && rule.member.name == "weight_stride";  // means contiguous rows
      EXPECT_TRUE(stride == dense || tensor.shape[i] == 1 || is_left_out)
          << tensor.name << " dimension " << names[i] << ": " << rule.member.name << " is " << stride << ", not "
          << dense;
    }
  }
}

bool lists(std::string_view types, const std::string& type) {
  return (", " + std::string(types) + ", ").find(", " + type + ", ") != std::string::npos;
}

const void* pointer_at(const std::vector<std::byte>& bytes, std::size_t offset) {
  const void* pointer = nullptr;
  std::memcpy(&pointer, bytes.data() + offset, sizeof pointer);
  return pointer;
}

TEST(ArgumentTable, EveryOperatorHasACase) {
  std::set<std::string_view> covered;
  for (const TableCase& one : cases()) covered.insert(find_operator(one.descriptor).name());
  for (const Operator* op : ops::operators())
    EXPECT_TRUE(covered.contains(op->name())) << "cases() has no descriptor of " << op->name();
}

TEST(ArgumentTable, ProblemsHaveItsTensors) {
  for (const TableCase& one : cases()) {
    SCOPED_TRACE(one.descriptor);
    const Operator& op = find_operator(one.descriptor);
    const ArgumentTable& table = op.arguments();
    const std::vector<FieldHelp> fields = op.fields();
    const std::string text = op.canonical(one.descriptor);
    const FieldValues descriptor(fields, text);
    Sizes sizes = sizes_of(descriptor, fields, one.sizes);
    const auto problem = find_problems(one.descriptor).random(one.descriptor, one.sizes, 1);
    std::vector<Tensor> tensors = problem->inputs();
    tensors.insert(tensors.end(), problem->outputs().begin(), problem->outputs().end());
    std::vector<char> memory(tensors.size());
    std::vector<void*> addresses;
    for (char& byte : memory) addresses.push_back(&byte);
    const std::vector<std::byte> arguments = problem->arguments(addresses);
    ASSERT_EQ(arguments.size(), table.bytes);
    std::map<std::string_view, const void*> given;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Argument* const argument = table.find(tensors[i].name);
      ASSERT_NE(argument, nullptr) << tensors[i].name;
      EXPECT_TRUE(holds(argument->when, descriptor)) << tensors[i].name;
      const std::string_view types = type_of(*argument, descriptor);
      EXPECT_TRUE(lists(types, tensors[i].type)) << tensors[i].name << " " << tensors[i].type << " " << types;
      EXPECT_TRUE(argument->type_fields.empty() || types == tensors[i].type) << tensors[i].name << " " << types;
      expect_strides(tensors[i], *argument, descriptor, arguments);
      expect_shape(tensors[i], *argument, descriptor, sizes);
      given[argument->name] = addresses[i];
    }
    for (const Argument& argument : table.arguments) {
      if (argument.kind == ArgumentKind::number) continue;
      EXPECT_EQ(argument.member.bytes, sizeof(void*)) << argument.name;
      EXPECT_EQ(pointer_at(arguments, argument.member.offset), given[argument.name]) << argument.member.name;
      const bool is_needed = argument.presence == Presence::needed && holds(argument.when, descriptor);
      if (is_needed) {
        EXPECT_NE(given[argument.name], nullptr) << argument.name;
      }
    }
  }
}

TEST(ArgumentTable, MembersLieInTheStruct) {
  for (const Operator* op : ops::operators()) {
    const ArgumentTable& table = op->arguments();
    EXPECT_EQ(table.struct_name, "cubit_" + std::string(op->name()) + "_arguments");
    for (const Argument& argument : table.arguments) {
      EXPECT_GE(argument.member.offset, sizeof(std::size_t)) << argument.name;
      EXPECT_LE(argument.member.offset + argument.member.bytes, table.bytes) << argument.name;
      EXPECT_FALSE(argument.meaning.empty()) << argument.name;
      EXPECT_EQ(argument.kind == ArgumentKind::number, argument.shapes.empty()) << argument.name;
    }
  }
}

TEST(ArgumentTable, ConditionsNameFieldsOfTheOperator) {
  for (const Operator* op : ops::operators()) {
    const std::vector<FieldHelp> fields = op->fields();
    const auto expect_field = [&](std::string_view when) {
      const std::string words = when.empty() ? "" : std::string(when.substr(0, when.find('=')));
      EXPECT_TRUE(words.empty() || std::any_of(fields.begin(), fields.end(),
                                               [&](const FieldHelp& field) { return field.name == words; }))
          << op->name() << " " << when;
    };
    for (const Argument& argument : op->arguments().arguments) {
      expect_field(argument.when);
      for (const ShapeRule& rule : argument.shapes) expect_field(rule.when);
      EXPECT_TRUE(argument.kind == ArgumentKind::number || argument.shapes.back().when.empty() ||
                  argument.shapes.size() > 1)
          << argument.name;
    }
  }
}

TEST(FieldValues, ADefaultMayBeAnotherField) {
  const std::vector<FieldHelp> fields = {
      {"kv", "bf16, int4_rows", "bf16", ""},     {"scales", "head, token", "head", ""},
      {"head_dim", "64, 128", "128", ""},        {"value_dim", "64, 128", "head_dim", ""},
      {"value", "bf16, int4_rows", "as kv", ""}, {"value_scales", "head, token", "head", ""}};
  EXPECT_EQ(FieldValues(fields, "op").value("value"), "bf16");
  EXPECT_EQ(FieldValues(fields, "op:kv=int4_rows").value("value"), "int4_rows");
  EXPECT_EQ(FieldValues(fields, "op:kv=int4_rows,value=bf16").value("value"), "bf16");
  EXPECT_EQ(FieldValues(fields, "op:head_dim=64").value("value_dim"), "64");
  EXPECT_EQ(FieldValues(fields, "op:scales=token").value("value_scales"), "token");
  EXPECT_EQ(FieldValues(fields, "op:scales=token,value=bf16").value("value_scales"), "head");
  EXPECT_EQ(FieldValues(fields, "op").value("absent"), "");
}

TEST(Conditions, AreListsOfFieldsAndValues) {
  const std::vector<FieldHelp> fields = {{"kv", "", "bf16", ""}, {"cache", "", "contiguous", ""}};
  const FieldValues descriptor(fields, "op:cache=paged");
  EXPECT_TRUE(holds("", descriptor));
  EXPECT_TRUE(holds("cache=paged", descriptor));
  EXPECT_FALSE(holds("cache=contiguous", descriptor));
  EXPECT_TRUE(holds("kv=fp16|bf16,cache=paged", descriptor));
  EXPECT_FALSE(holds("kv=fp16|fp8_e4m3,cache=paged", descriptor));
  EXPECT_TRUE(holds("cache=!contiguous", descriptor));
  EXPECT_FALSE(holds("cache=!paged", descriptor));
  EXPECT_EQ(condition_text("kv=fp16|bf16,cache=paged"), "kv=fp16 or kv=bf16 and cache=paged");
  EXPECT_EQ(condition_text("score=!none"), "score=…");
}

struct Toy {
  std::size_t size;
  const void* a;
  const void* b;
  const void* c;
  std::int32_t count;
};

TEST(PointerChecks, FollowTheDescriptor) {
  using Struct = Toy;
  const ArgumentTable table = {"toy",
                               sizeof(Toy),
                               {input("a", "U8", shape("[count]"), CUBIT_MEMBER(a), "").unless(CUBIT_MEMBER(count)),
                                input("b", "U8", shape("[count]"), CUBIT_MEMBER(b), "").with("mode=x|y"),
                                input("c", "U8", shape("[count]"), CUBIT_MEMBER(c), "").optional("none")}};
  const std::vector<FieldHelp> fields = {{"mode", "x, y, z", "z", ""}};
  const PointerChecks with_b(table, fields, "toy:mode=y");
  const PointerChecks without_b(table, fields, "toy");
  const auto refusal = [](const PointerChecks& checks, const Toy& toy) {
    return tests::refusal_of([&] { checks.check(&toy); });
  };
  EXPECT_EQ(refusal(with_b, {sizeof(Toy), &fields, &fields, nullptr, 1}), "accepted");
  EXPECT_EQ(refusal(with_b, {sizeof(Toy), nullptr, &fields, &fields, 0}), "accepted") << "count is 0";
  EXPECT_EQ(refusal(with_b, {sizeof(Toy), nullptr, &fields, nullptr, 1}), "a = NULL: the tensor is needed");
  EXPECT_EQ(refusal(with_b, {sizeof(Toy), &fields, nullptr, nullptr, 1}), "b = NULL: the tensor is needed");
  EXPECT_EQ(refusal(without_b, {sizeof(Toy), &fields, nullptr, nullptr, 1}), "accepted");
  EXPECT_NE(refusal(without_b, {sizeof(Toy), &fields, &fields, nullptr, 1})
                .find("the descriptor does not have mode=x or mode=y; give NULL, or ask for mode=x or mode=y"),
            std::string::npos);
}

}  // namespace
}  // namespace cubit::check
