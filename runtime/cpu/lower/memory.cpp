// Lowers memory and tensor-core instructions to helper calls. PTX ISA, "Data Movement and Conversion Instructions",
// "Asynchronous copy", "Warp Level Matrix Multiply-Accumulate Instructions", "Parallel Synchronization and
// Communication".
#include <fmt/format.h>

#include <map>

#include "base/lifetime.hpp"
#include "codegen/fragments.hpp"
#include "runtime/cpu/arithmetic/numbers.hpp"
#include "runtime/cpu/helpers/helpers.hpp"
#include "runtime/cpu/lower/lowering.hpp"

namespace cubit::runtime::cpu {
namespace {

/// Appends one 16-bit entry per lane and value: the result of `make` for the element.
template <class Make>
void append_table(std::vector<std::uint16_t>& table, const codegen::FragmentMap& map, Make make) {
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int value = 0; value < map.value_count; ++value) {
      table.push_back(static_cast<std::uint16_t>(make(map.at(lane, value))));
    }
  }
}

const codegen::FragmentMap* find_map(const std::string& name) {
  for (const codegen::FragmentMap& map : codegen::fragment_maps()) {
    if (map.name == name) return &map;
  }
  return nullptr;
}

int matrix_count(const ptx::Instruction& instruction) {
  if (instruction.has("x4")) return 4;
  return instruction.has("x2") ? 2 : 1;
}

}  // namespace

void Lowering::memory_kind(Site& made, std::size_t address_operand) {
  struct Row {
    std::string_view name;
    ptx::Space space;
  };
  static constexpr Row kSpaces[] = {{"global", ptx::Space::global},      {"shared", ptx::Space::shared},
                                    {"shared::cta", ptx::Space::shared}, {"shared::cluster", ptx::Space::shared},
                                    {"local", ptx::Space::local},        {"const", ptx::Space::constant},
                                    {"param", ptx::Space::param},        {"param::entry", ptx::Space::param}};
  made.generic = true;
  for (const Row& row : kSpaces) {
    if (!has(row.name)) continue;
    made.space = row.space;
    made.generic = false;
  }
  made.cluster = has("shared::cluster");
  give(0, address(operand(address_operand), made));
}

void Lowering::load() {
  const TypeFacts type = type_at_end();
  const auto* const place = std::get_if<ptx::AddressOperand>(&operand(1));
  if (has("param") && place != nullptr && std::holds_alternative<ptx::SymbolOperand>(place->base))
    return load_parameter();
  Site made = site(helpers::load);
  memory_kind(made, 1);
  made.bytes = static_cast<int>(type.bits / 8);
  const auto* const vector = std::get_if<ptx::VectorOperand>(&operand(0));
  made.count = vector == nullptr ? 1 : static_cast<int>(vector->elements.size());
  call(std::move(made));
  if (vector == nullptr) return write(0, take(0, type.bits), type.is_signed);
  for (std::size_t i = 0; i < vector->elements.size(); ++i) {
    write_scalar(vector->elements[i], take(static_cast<int>(i), type.bits), type.is_signed);
  }
}

/// A cache policy is only a hint for L2, so any value will do.
void Lowering::cache_policy() { write(0, splat(0, 64)); }

/// The value is the same for all lanes, and the address is known to lie in the parameters.
void Lowering::load_parameter() {
  const TypeFacts type = type_at_end();
  const auto& place = std::get<ptx::AddressOperand>(operand(1));
  const std::uint64_t first =
      address_of(std::get<ptx::SymbolOperand>(place.base)) + static_cast<std::uint64_t>(place.offset);
  const auto* const vector = std::get_if<ptx::VectorOperand>(&operand(0));
  const std::size_t count = vector == nullptr ? 1 : vector->elements.size();
  if (first + count * type.bits / 8 > layout_.parameter_bytes)
    unsupported("the load reads beyond the kernel's parameters");
  Value* const parameters =
      builder_.CreateAlignedLoad(builder_.getPtrTy(), frame_field(offsetof(Frame, parameters)), llvm::Align(8));
  for (std::size_t i = 0; i < count; ++i) {
    Value* const at = builder_.CreateConstInBoundsGEP1_64(builder_.getInt8Ty(), parameters, first + i * type.bits / 8);
    Value* const value = builder_.CreateAlignedLoad(builder_.getIntNTy(type.bits), at, llvm::Align(1));
    Value* const lanes = builder_.CreateVectorSplat(kLanes, value);
    vector == nullptr ? write(0, lanes, type.is_signed) : write_scalar(vector->elements[i], lanes, type.is_signed);
  }
}

void Lowering::store() {
  if (has("async")) return send_value();
  const TypeFacts type = type_at_end();
  Site made = site(helpers::store);
  memory_kind(made, 0);
  made.bytes = static_cast<int>(type.bits / 8);
  if (const auto* vector = std::get_if<ptx::VectorOperand>(&operand(1))) {
    made.count = static_cast<int>(vector->elements.size());
    for (int i = 0; i < made.count; ++i)
      give(i + 1, read_scalar(vector->elements[static_cast<std::size_t>(i)], type.bits));
  } else {
    give(1, read(1, type.bits));
  }
  call(std::move(made));
}

/// Operation and type of atom, red and cp.reduce.
void Lowering::reduction_kind(Site& made) {
  using Kind = helpers::AtomicKind;
  static const auto& kinds = never_destroyed(std::map<std::string_view, Kind>{{"add", Kind::add},
                                                                              {"min", Kind::min},
                                                                              {"max", Kind::max},
                                                                              {"and", Kind::bit_and},
                                                                              {"or", Kind::bit_or},
                                                                              {"xor", Kind::bit_xor},
                                                                              {"exch", Kind::exchange},
                                                                              {"cas", Kind::compare},
                                                                              {"inc", Kind::increment},
                                                                              {"dec", Kind::decrement}});
  const TypeFacts type = type_at_end();
  bool known = false;
  for (const std::string_view modifier : now_->modifiers) {
    const auto kind = kinds.find(modifier);
    if (kind == kinds.end()) continue;
    made.kind = static_cast<int>(kind->second);
    known = true;
  }
  if (!known || (has("noftz") && !is_half())) unsupported();
  made.bytes = static_cast<int>(type.bits / 8);
  made.is_signed = type.is_signed;
  made.count = 1;
  made.from = -1;
  if (!type.is_float) return;
  const std::string_view name = ptx::name(type.type);
  Format format{};
  if (name.ends_with("x2")) made.count = 2;
  if (!find_format(made.count == 2 ? name.substr(0, name.size() - 2) : name, format)) unsupported();
  made.from = static_cast<int>(format);
  if (has("min") || has("max")) unsupported();
}

/// atom and red are the same operation, with and without a result.
void Lowering::atomic() {
  if (has("async")) return send_value();
  const TypeFacts type = type_at_end();
  Site made = site(helpers::atomic);
  made.flag = now_->root == "atom";
  const std::size_t first = made.flag ? 1 : 0;
  if (std::holds_alternative<ptx::VectorOperand>(operand(first + 1))) unsupported();
  reduction_kind(made);
  memory_kind(made, first);
  give(1, read(first + 1, type.bits));
  if (now_->operands.size() > first + 2) give(2, read(first + 2, type.bits));
  call(std::move(made));
  if (now_->root == "atom") write(0, take(0, type.bits), type.is_signed);
}

void Lowering::copy_async() {
  if (!has("async")) unsupported();
  if (has("bulk")) return copy_bulk();
  if (has("mbarrier")) return arrive_after_copies();
  if (has("commit_group")) return call(site(helpers::commit_copies));
  if (has("wait_group") || has("wait_all")) {
    Site made = site(helpers::wait_copies);
    made.kind = -1;
    if (has("wait_group")) made.kind = static_cast<int>(std::get<ptx::IntegerOperand>(operand(0)).bits);
    return call(std::move(made));
  }
  Site made = site(helpers::copy_async);
  give(0, plain_address(0));
  give(1, plain_address(1));
  made.bytes = static_cast<int>(std::get<ptx::IntegerOperand>(operand(2)).bits);
  Value* read_bytes = splat(static_cast<std::uint64_t>(made.bytes), 32);
  const std::size_t operands = now_->operands.size() - (has("L2::cache_hint") ? 1 : 0);
  if (operands > 3) {
    const auto* const reg = std::get_if<ptx::RegisterOperand>(&operand(3));
    const bool ignored =
        reg != nullptr && function_.registers[static_cast<std::size_t>(reg->index)].type == ptx::Type::pred;
    read_bytes = ignored ? builder_.CreateSelect(read_predicate(3), splat(0, 32), read_bytes) : read(3, 32);
  }
  give(2, read_bytes);
  call(std::move(made));
}

/// ldmatrix and stmatrix. `table`: (row · 8 + column) of each lane's 16-bit values.
void Lowering::matrix() {
  const bool is_load = now_->root == "ldmatrix";
  if (!has("m8n8") || !has("b16")) unsupported("only matrices of 16-bit values are executed");
  Site made = site(is_load ? helpers::load_matrices : helpers::store_matrices);
  made.count = matrix_count(*now_);
  made.is_matrix = true;
  const auto* const map = find_map(fmt::format("{}.x{}{}", now_->root, made.count, has("trans") ? ".trans" : ""));
  if (map == nullptr) unsupported();
  append_table(made.table, *map, [](codegen::Element e) { return e.row * 8 + e.column; });
  memory_kind(made, is_load ? 1 : 0);
  const auto* const vector = std::get_if<ptx::VectorOperand>(&operand(is_load ? 0 : 1));
  if (vector != nullptr && static_cast<int>(vector->elements.size()) != made.count)
    unsupported("the number of registers does not match");
  const int count = made.count;
  if (!is_load) {
    for (int i = 0; i < count; ++i)
      give(i + 1, vector == nullptr ? read(1, 32) : read_scalar(vector->elements[static_cast<std::size_t>(i)], 32));
    return call(std::move(made));
  }
  call(std::move(made));
  if (vector == nullptr) return write(0, take(0, 32));
  for (int i = 0; i < count; ++i) write_scalar(vector->elements[static_cast<std::size_t>(i)], take(i, 32));
}

/// `table`: (row · 8 + column) of the source's values, then of the result's values.
void Lowering::move_matrix() {
  Site made = site(helpers::transpose_matrix);
  const auto flat = [](codegen::Element e) { return e.row * 8 + e.column; };
  append_table(made.table, codegen::find_fragment("movmatrix source"), flat);
  append_table(made.table, codegen::find_fragment("movmatrix destination"), flat);
  give(0, read(1, 32));
  call_and_write(std::move(made), 32);
}

/// Returns 90 for "sm_90a".
int Lowering::architecture() const {
  int sm = 0;
  for (const char digit : module_.target.substr(std::min<std::size_t>(3, module_.target.size()))) {
    if (digit < '0' || digit > '9') break;
    sm = 10 * sm + (digit - '0');
  }
  return sm;
}

/// mma.sync. `form`: the architecture. `table`: positions of each lane's values in A, B and C, row-major (B
/// column-major).
void Lowering::multiply_matrices() {
  const std::size_t count = now_->modifiers.size();
  if (count < 8 || now_->operands.size() < 4) unsupported();
  if (has("sp") || has("block_scale") || rounds_otherwise()) unsupported();
  const auto type_of = [&](std::size_t from_end) { return now_->modifiers[count - 1 - from_end]; };
  const std::string_view types[] = {type_of(2), type_of(1), type_of(0)};
  Format formats[3]{};
  for (int i = 0; i < 3; ++i) {
    if (!find_format(types[i], formats[i])) unsupported("the CPU device does not execute this element type");
  }
  std::string_view shape;
  for (const std::string_view modifier : now_->modifiers) {
    if (modifier.size() > 4 && modifier[0] == 'm' && modifier.find('n') == 2 + (modifier[2] != 'n')) shape = modifier;
  }
  Site made = site(helpers::multiply_matrices);
  made.from = static_cast<int>(formats[0]);
  made.kind = static_cast<int>(formats[1]);
  made.to = static_cast<int>(formats[2]);
  made.flag = has("satfinite");
  made.form = architecture();
  int slot = 0;
  for (int i = 0; i < 3; ++i) {
    const int bits = facts(formats[i]).bits;
    const auto* const map = find_map(fmt::format("mma.{} {}, {}-bit", shape, "ABC"[i], bits));
    if (map == nullptr) unsupported("the CPU device does not execute this shape");
    if (i == 0) made.bytes = map->columns;      // k
    if (i == 0) made.result_bytes = map->rows;  // m
    append_table(made.table, *map, [&](codegen::Element e) {
      return i == 1 ? e.column * map->rows + e.row : e.row * map->columns + e.column;
    });
    const auto* const vector = std::get_if<ptx::VectorOperand>(&operand(static_cast<std::size_t>(i) + 1));
    const unsigned register_bits = bits == 64 ? 64 : 32;
    const int registers = map->value_count * bits / static_cast<int>(register_bits);
    if (vector == nullptr ? registers != 1 : static_cast<int>(vector->elements.size()) != registers)
      unsupported("the number of registers does not match");
    for (int r = 0; r < registers; ++r) {
      give(slot++, vector == nullptr ? read(static_cast<std::size_t>(i) + 1, register_bits)
                                     : read_scalar(vector->elements[static_cast<std::size_t>(r)], register_bits));
    }
    made.count = registers;  // registers of the result, which is gathered last
  }
  call(std::move(made));
  const auto& vector = std::get<ptx::VectorOperand>(operand(0));
  const unsigned bits = facts(formats[2]).bits == 64 ? 64 : 32;
  for (std::size_t i = 0; i < vector.elements.size(); ++i)
    write_scalar(vector.elements[i], take(static_cast<int>(i), bits));
}

}  // namespace cubit::runtime::cpu
