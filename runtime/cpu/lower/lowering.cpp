// The common part of lowering: operands, results, and calls of helpers. The other files of this folder lower the
// instructions.
#include "runtime/cpu/lower/lowering.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "base/error.hpp"
#include "base/lifetime.hpp"
#include "runtime/cpu/helpers/helpers.hpp"
#include "runtime/cpu/lower/accumulators.hpp"

namespace cubit::runtime::cpu {
namespace {

constexpr std::uint64_t kRegisterAlignment = 64;

unsigned register_bits(ptx::Type type) { return static_cast<unsigned>(8 * ptx::bytes(type)); }

}  // namespace

std::string segment_name(int index) { return fmt::format("segment_{}", index); }

Lowering::Lowering(llvm::Module& target, const ptx::Module& module, const ptx::Function& function, const Layout& layout,
                   std::vector<Site>& sites)
    : target_(target),
      context_(target.getContext()),
      builder_(context_),
      module_(module),
      function_(function),
      layout_(layout),
      sites_(sites),
      accumulators_(accumulator_numbers(function)) {
  for (const int number : accumulators_) accumulator_count_ = std::max(accumulator_count_, number + 1);
}

void Lowering::lower(const Segment& segment, int index) {
  auto* const pointer = builder_.getPtrTy();
  auto* const type = llvm::FunctionType::get(builder_.getInt32Ty(), {pointer, pointer, builder_.getInt32Ty()}, false);
  auto* const code = llvm::Function::Create(type, llvm::Function::ExternalLinkage, segment_name(index), target_);
  code->addFnAttr("prefer-vector-width", "512");
  code->addFnAttr("min-legal-vector-width", "512");
  code->addFnAttr(llvm::Attribute::NoUnwind);
  code->addParamAttr(0, llvm::Attribute::NoAlias);
  code->addParamAttr(1, llvm::Attribute::NoAlias);
  builder_.SetInsertPoint(llvm::BasicBlock::Create(context_, "", code));
  frame_ = code->getArg(0);
  registers_ = code->getArg(1);
  mask_ = code->getArg(2);
  returned_ = builder_.getInt32(0);
  carry_ = nullptr;
  values_.clear();
  written_.clear();
  for (int i = segment.first; i < segment.last; ++i) instruction(function_.body[static_cast<std::size_t>(i)]);
  finish(segment);
}

void Lowering::instruction(const ptx::Instruction& instruction) {
  now_ = &instruction;
  guard_ = nullptr;
  if (instruction.guard.predicate != ptx::kNone) {
    Value* const predicate = read_register(instruction.guard.predicate);
    guard_ = instruction.guard.negated ? builder_.CreateNot(predicate) : predicate;
  }
  const auto handler = handlers().find(instruction.root);
  if (handler == handlers().end()) unsupported();
  if (accumulator_count_ != 0 && instruction.root != "wgmma") track_accumulators();
  (this->*handler->second)();
}

void Lowering::finish(const Segment& segment) {
  Value* mask = nullptr;
  for (const int index : segment.live_out) {
    if (!written_.contains(index)) continue;
    Value* const value = values_.at(index);
    const auto offset = layout_.register_offsets[static_cast<std::size_t>(index)];
    Value* const place =
        builder_.CreateConstInBoundsGEP1_64(builder_.getInt8Ty(), registers_, static_cast<std::uint64_t>(offset));
    if (function_.registers[static_cast<std::size_t>(index)].type == ptx::Type::pred) {
      Value* const before = builder_.CreateAlignedLoad(builder_.getInt32Ty(), place, llvm::Align(4));
      Value* const kept = builder_.CreateAnd(before, builder_.CreateNot(mask_));
      builder_.CreateAlignedStore(builder_.CreateOr(kept, builder_.CreateAnd(to_mask(value), mask_)), place,
                                  llvm::Align(4));
      continue;
    }
    if (mask == nullptr) mask = from_mask(mask_);
    const llvm::Align alignment(kRegisterAlignment);
    Value* const before = builder_.CreateAlignedLoad(value->getType(), place, alignment);
    builder_.CreateAlignedStore(builder_.CreateSelect(mask, value, before), place, alignment);
  }
  builder_.CreateRet(returned_);
}

void Lowering::unsupported(std::string_view why) const {
  std::string place = fmt::format("PTX line {}", now_->ptx_line);
  if (now_->location != ptx::kNone) {
    const ptx::SourceLocation& location = function_.locations[static_cast<std::size_t>(now_->location)];
    place += fmt::format(", {}:{}", module_.file_path(location.file), location.line);
  }
  throw Failure(Status::unsupported, fmt::format("PTX instruction {} ({})", now_->opcode, place),
                why.empty() ? "the CPU device does not execute this instruction" : std::string(why));
}

// ---- types and operands ----

const ptx::Operand& Lowering::operand(std::size_t index) const {
  if (index >= now_->operands.size()) unsupported("an operand is missing");
  return now_->operands[index];
}

Lowering::TypeFacts Lowering::type_at_end(std::size_t from_end) const {
  const auto& modifiers = now_->modifiers;
  ptx::Type type{};
  if (from_end >= modifiers.size() || !ptx::find_type(modifiers[modifiers.size() - 1 - from_end], type)) {
    unsupported("the CPU device does not execute this type");
  }
  if (type == ptx::Type::pred || type == ptx::Type::b128) unsupported("the CPU device does not execute this type");
  const std::string_view text = ptx::name(type);
  return {type, register_bits(type), text[0] == 'f' || text.starts_with("bf"), text[0] == 's'};
}

llvm::FixedVectorType* Lowering::integers(unsigned bits) {
  return llvm::FixedVectorType::get(builder_.getIntNTy(bits), kLanes);
}

llvm::FixedVectorType* Lowering::floats(unsigned bits) {
  return llvm::FixedVectorType::get(bits == 64 ? builder_.getDoubleTy() : builder_.getFloatTy(), kLanes);
}

llvm::Constant* Lowering::splat(std::uint64_t value, unsigned bits) {
  return llvm::ConstantInt::get(integers(bits), llvm::APInt(64, value).trunc(bits));
}

Lowering::Value* Lowering::resize(Value* value, unsigned bits, bool sign_extend) {
  auto* const type = integers(bits);
  return sign_extend ? builder_.CreateSExtOrTrunc(value, type) : builder_.CreateZExtOrTrunc(value, type);
}

Lowering::Value* Lowering::read_register(int index) {
  if (const auto known = values_.find(index); known != values_.end()) return known->second;
  const ptx::Type type = function_.registers[static_cast<std::size_t>(index)].type;
  const auto offset = layout_.register_offsets[static_cast<std::size_t>(index)];
  Value* value = nullptr;
  if (offset < 0) {  // the register was never written, so any value will do
    value = llvm::Constant::getNullValue(integers(type == ptx::Type::pred ? 1 : register_bits(type)));
  } else {
    Value* const place =
        builder_.CreateConstInBoundsGEP1_64(builder_.getInt8Ty(), registers_, static_cast<std::uint64_t>(offset));
    value = type == ptx::Type::pred
                ? from_mask(builder_.CreateAlignedLoad(builder_.getInt32Ty(), place, llvm::Align(4)))
                : builder_.CreateAlignedLoad(integers(register_bits(type)), place, llvm::Align(kRegisterAlignment));
  }
  values_[index] = value;
  return value;
}

Lowering::Value* Lowering::read(const ptx::Operand& source, unsigned bits, bool sign_extend) {
  return std::visit(
      [&](const auto& kind) -> Value* {
        using Kind = std::decay_t<decltype(kind)>;
        if constexpr (std::is_constructible_v<ptx::Scalar, Kind> && !std::is_same_v<Kind, ptx::Scalar>) {
          return read_scalar(ptx::Scalar(kind), bits, sign_extend);
        } else {
          unsupported("the CPU device does not execute an operand of this kind");
        }
      },
      source);
}

Lowering::Value* Lowering::read_scalar(const ptx::Scalar& source, unsigned bits, bool sign_extend) {
  if (const auto* reg = std::get_if<ptx::RegisterOperand>(&source)) {
    return resize(read_register(reg->index), bits, sign_extend);
  }
  if (const auto* integer = std::get_if<ptx::IntegerOperand>(&source)) return splat(integer->bits, bits);
  if (const auto* number = std::get_if<ptx::FloatOperand>(&source)) return immediate(*number, bits);
  if (const auto* name = std::get_if<ptx::SpecialOperand>(&source)) return special(name->name, bits);
  if (const auto* symbol = std::get_if<ptx::SymbolOperand>(&source)) {
    const std::uint64_t address = address_of(*symbol);
    if (bits < 64 && address >> bits != 0) {
      unsupported(fmt::format("the address of {} does not fit in {} bits; take the address in 64 bits",
                              variable_of(*symbol).name, bits));
    }
    return splat(address, bits);
  }
  unsupported("`_` cannot be read");
}

Lowering::Value* Lowering::immediate(const ptx::FloatOperand& number, unsigned bits) {
  if (number.is_double && bits == 32) {
    double value = 0;
    std::memcpy(&value, &number.bits, sizeof value);
    const auto rounded = static_cast<float>(value);
    std::uint32_t pattern = 0;
    std::memcpy(&pattern, &rounded, sizeof pattern);
    return splat(pattern, 32);
  }
  if (!number.is_double && bits == 64) unsupported("a 32-bit constant for a 64-bit operand");
  return splat(number.bits, bits);
}

Lowering::Value* Lowering::read_predicate(std::size_t index) {
  const ptx::Operand& source = operand(index);
  if (const auto* integer = std::get_if<ptx::IntegerOperand>(&source)) return splat(integer->bits != 0 ? 1 : 0, 1);
  if (const auto* name = std::get_if<ptx::SpecialOperand>(&source); name && name->name == "%is_explicit_cluster")
    return builder_.CreateICmpNE(uniform(Uniform::is_explicit_cluster, 32), splat(0, 32));
  const auto* const reg = std::get_if<ptx::RegisterOperand>(&source);
  if (reg == nullptr || function_.registers[static_cast<std::size_t>(reg->index)].type != ptx::Type::pred) {
    unsupported("a predicate is expected");
  }
  Value* const value = read_register(reg->index);
  return reg->negated ? builder_.CreateNot(value) : value;
}

Lowering::Value* Lowering::read_float(std::size_t index, unsigned bits) {
  Value* const value = builder_.CreateBitCast(read(index, bits), floats(bits));
  return bits == 32 && has("ftz") ? flushed(value) : value;
}

Lowering::Value* Lowering::frame_field(std::size_t offset) {
  return builder_.CreateConstInBoundsGEP1_64(builder_.getInt8Ty(), frame_, offset);
}

Lowering::Value* Lowering::uniform(Uniform which, unsigned bits) {
  Value* const place = frame_field(offsetof(Frame, uniform) + static_cast<std::size_t>(which) * sizeof(std::uint32_t));
  Value* const value = builder_.CreateAlignedLoad(builder_.getInt32Ty(), place, llvm::Align(4));
  return resize(builder_.CreateVectorSplat(kLanes, value), bits, false);
}

Lowering::Value* Lowering::special(std::string_view name, unsigned bits) {
  static const auto& thread_places =
      never_destroyed(std::map<std::string_view, std::size_t>{{"%tid.x", 0}, {"%tid.y", 1}, {"%tid.z", 2}});
  static const auto& uniforms =
      never_destroyed(std::map<std::string_view, Uniform>{{"%ntid.x", Uniform::ntid_x},
                                                          {"%ntid.y", Uniform::ntid_y},
                                                          {"%ntid.z", Uniform::ntid_z},
                                                          {"%ctaid.x", Uniform::ctaid_x},
                                                          {"%ctaid.y", Uniform::ctaid_y},
                                                          {"%ctaid.z", Uniform::ctaid_z},
                                                          {"%nctaid.x", Uniform::nctaid_x},
                                                          {"%nctaid.y", Uniform::nctaid_y},
                                                          {"%nctaid.z", Uniform::nctaid_z},
                                                          {"%clusterid.x", Uniform::clusterid_x},
                                                          {"%clusterid.y", Uniform::clusterid_y},
                                                          {"%clusterid.z", Uniform::clusterid_z},
                                                          {"%nclusterid.x", Uniform::nclusterid_x},
                                                          {"%nclusterid.y", Uniform::nclusterid_y},
                                                          {"%nclusterid.z", Uniform::nclusterid_z},
                                                          {"%cluster_ctaid.x", Uniform::cluster_ctaid_x},
                                                          {"%cluster_ctaid.y", Uniform::cluster_ctaid_y},
                                                          {"%cluster_ctaid.z", Uniform::cluster_ctaid_z},
                                                          {"%cluster_nctaid.x", Uniform::cluster_nctaid_x},
                                                          {"%cluster_nctaid.y", Uniform::cluster_nctaid_y},
                                                          {"%cluster_nctaid.z", Uniform::cluster_nctaid_z},
                                                          {"%cluster_ctarank", Uniform::cluster_ctarank},
                                                          {"%cluster_nctarank", Uniform::cluster_nctarank},
                                                          {"%warpid", Uniform::warpid},
                                                          {"%nwarpid", Uniform::nwarpid},
                                                          {"%dynamic_smem_size", Uniform::dynamic_smem_size},
                                                          {"%total_smem_size", Uniform::total_smem_size}});
  if (const auto tid = thread_places.find(name); tid != thread_places.end()) {
    Value* const place = frame_field(offsetof(Frame, tid) + tid->second * sizeof(std::uint32_t) * kLanes);
    return resize(builder_.CreateAlignedLoad(integers(32), place, llvm::Align(64)), bits, false);
  }
  if (const auto which = uniforms.find(name); which != uniforms.end()) return uniform(which->second, bits);
  if (name == "%globaltimer") {
    call(site(helpers::read_timer));
    return resize(take(0, 64), bits, false);
  }
  static const auto& masks_of_lane = never_destroyed(
      std::map<std::string_view, Mask (*)(int)>{{"%laneid", [](int lane) { return static_cast<Mask>(lane); }},
                                                {"%lanemask_eq", [](int lane) { return 1u << lane; }},
                                                {"%lanemask_lt", [](int lane) { return (1u << lane) - 1; }},
                                                {"%lanemask_le", [](int lane) { return (2u << lane) - 1; }},
                                                {"%lanemask_gt", [](int lane) { return ~((2u << lane) - 1); }},
                                                {"%lanemask_ge", [](int lane) { return ~((1u << lane) - 1); }},
                                                {"WARP_SZ", [](int) { return static_cast<Mask>(kLanes); }}});
  const auto of_lane = masks_of_lane.find(name);
  if (of_lane == masks_of_lane.end()) unsupported(fmt::format("the CPU device has no register {}", name));
  std::vector<llvm::Constant*> lanes;
  for (int lane = 0; lane < kLanes; ++lane) lanes.push_back(builder_.getIntN(bits, of_lane->second(lane)));
  return llvm::ConstantVector::get(lanes);
}

const ptx::Variable& Lowering::variable_of(const ptx::SymbolOperand& symbol) const {
  const auto index = static_cast<std::size_t>(symbol.index);
  switch (symbol.kind) {
    case ptx::SymbolKind::global:
      return module_.variables[index];
    case ptx::SymbolKind::local:
      return function_.variables[index];
    case ptx::SymbolKind::parameter:
      return function_.parameters[index];
    case ptx::SymbolKind::function:
      break;
  }
  unsupported("addresses of functions are not executed");
}

std::uint64_t Lowering::address_of(const ptx::SymbolOperand& symbol) const {
  const auto index = static_cast<std::size_t>(symbol.index);
  const auto offset = static_cast<std::uint64_t>(symbol.offset);
  variable_of(symbol);
  if (symbol.kind == ptx::SymbolKind::global) return layout_.module_variables[index] + offset;
  if (symbol.kind == ptx::SymbolKind::local) return layout_.function_variables[index] + offset;
  return layout_.parameters[index] + offset;
}

Lowering::Value* Lowering::base_address(const ptx::AddressOperand& place) {
  if (const auto* reg = std::get_if<ptx::RegisterOperand>(&place.base))
    return resize(read_register(reg->index), 64, false);
  if (const auto* symbol = std::get_if<ptx::SymbolOperand>(&place.base)) return splat(address_of(*symbol), 64);
  return splat(std::get<ptx::IntegerOperand>(place.base).bits, 64);
}

Lowering::Value* Lowering::address(const ptx::Operand& source, Site& site) {
  const auto* const place = std::get_if<ptx::AddressOperand>(&source);
  if (place == nullptr) unsupported("an address is expected");
  if (!place->coordinates.empty()) unsupported("only copies of tensors take coordinates");
  site.offset = place->offset;
  return base_address(*place);
}

// ---- results ----

void Lowering::write_register(int index, Value* value) {
  if (guard_ != nullptr) value = builder_.CreateSelect(guard_, value, read_register(index));
  values_[index] = value;
  written_[index] = true;
}

void Lowering::write_scalar(const ptx::Scalar& target, Value* value, bool sign_extend) {
  if (std::holds_alternative<ptx::Sink>(target)) return;
  const auto* const reg = std::get_if<ptx::RegisterOperand>(&target);
  if (reg == nullptr) unsupported("the result must be a register");
  const ptx::Type type = function_.registers[static_cast<std::size_t>(reg->index)].type;
  const bool is_bit = llvm::cast<llvm::VectorType>(value->getType())->getElementType()->isIntegerTy(1);
  if (is_bit != (type == ptx::Type::pred)) unsupported("the result does not fit the register");
  write_register(reg->index, is_bit ? value : resize(value, register_bits(type), sign_extend));
}

void Lowering::write(const ptx::Operand& target, Value* value, bool sign_extend) {
  if (std::holds_alternative<ptx::Sink>(target)) return;
  const auto* const reg = std::get_if<ptx::RegisterOperand>(&target);
  if (reg == nullptr) unsupported("the result must be a register");
  write_scalar(*reg, value, sign_extend);
}

// ---- helpers ----

Site Lowering::site(Helper helper) const {
  Site made;
  made.helper = helper;
  made.instruction = now_;
  return made;
}

Lowering::Value* Lowering::to_mask(Value* predicate) {
  return builder_.CreateBitCast(predicate, builder_.getInt32Ty());
}

Lowering::Value* Lowering::from_mask(Value* mask) { return builder_.CreateBitCast(mask, integers(1)); }

Lowering::Value* Lowering::active() { return guard_ == nullptr ? mask_ : builder_.CreateAnd(mask_, to_mask(guard_)); }

void Lowering::give(int slot, Value* value) {
  if (slot >= kSourceSlots) unsupported("the instruction has too many operands");
  Value* const place = frame_field(offsetof(Frame, sources) + static_cast<std::size_t>(slot) * kSlotBytes);
  const bool is_bit = llvm::cast<llvm::VectorType>(value->getType())->getElementType()->isIntegerTy(1);
  builder_.CreateAlignedStore(is_bit ? to_mask(value) : value, place, llvm::Align(64));
}

Lowering::Value* Lowering::take(int slot, unsigned bits) {
  if (slot >= kResultSlots) unsupported("the instruction has too many results");
  Value* const place = frame_field(offsetof(Frame, results) + static_cast<std::size_t>(slot) * kSlotBytes);
  return builder_.CreateAlignedLoad(integers(bits), place, llvm::Align(64));
}

Lowering::Value* Lowering::take_predicate(int slot) {
  Value* const place = frame_field(offsetof(Frame, results) + static_cast<std::size_t>(slot) * kSlotBytes);
  return from_mask(builder_.CreateAlignedLoad(builder_.getInt32Ty(), place, llvm::Align(64)));
}

void Lowering::call(Site made) {
  auto* const pointer = builder_.getPtrTy();
  auto* const type =
      llvm::FunctionType::get(builder_.getVoidTy(), {pointer, builder_.getInt32Ty(), builder_.getInt32Ty()}, false);
  Value* const invoke = builder_.CreateAlignedLoad(pointer, frame_field(offsetof(Frame, invoke)), llvm::Align(8));
  builder_.CreateCall(type, invoke, {frame_, active(), builder_.getInt32(static_cast<std::uint32_t>(sites_.size()))});
  sites_.push_back(std::move(made));
}

void Lowering::call_and_write(Site made, unsigned bits) {
  call(std::move(made));
  write(0, take(0, bits));
}

}  // namespace cubit::runtime::cpu
