// Lowers PTX to LLVM IR: one function per segment, with the 32 lanes of a warp as elements of vectors.
//
// A register is a <32 x iN> of its width, and a predicate is a <32 x i1>. Within a segment registers are SSA values.
// Registers that a later segment may read are stored into the warp's register file at the end of the segment, only in
// the lanes of the segment's mask. The inactive lanes compute values that nothing reads. Everything that could trap or
// has visible effects runs under the mask, in C++ helpers that take their operands from the slots of the Frame.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "runtime/cpu/execute/frame.hpp"
#include "runtime/cpu/lower/control.hpp"
#include "runtime/cpu/program.hpp"
#include "runtime/cpu/ptx/ast.hpp"

namespace cubit::runtime::cpu {

class Lowering {
 public:
  /// Throws Failure(unsupported) if the function has more wgmma accumulators than a Site can name.
  Lowering(llvm::Module& target, const ptx::Module& module, const ptx::Function& function, const Layout& layout,
           std::vector<Site>& sites);

  /// Adds the function `segment_name(index)`. Throws Failure(unsupported) for an unknown instruction.
  void lower(const Segment& segment, int index);

 private:
  using Value = llvm::Value;
  using Handler = void (Lowering::*)();
  struct TypeFacts {
    ptx::Type type;
    unsigned bits;
    bool is_float;
    bool is_signed;
  };
  using Handlers = std::map<std::string_view, Handler>;  ///< by the first part of the opcode, such as "ld"
  static const Handlers& handlers();
  static Handlers arithmetic_handlers();
  static Handlers data_handlers();
  static Handlers control_handlers();

  void instruction(const ptx::Instruction& instruction);
  void finish(const Segment& segment);
  [[noreturn]] void unsupported(std::string_view why = {}) const;

  // Types and operands of the current instruction.
  const ptx::Operand& operand(std::size_t index) const;
  TypeFacts type_at_end(std::size_t from_end = 0) const;
  bool has(std::string_view modifier) const { return now_->has(modifier); }
  bool is_of_predicates() const { return !now_->modifiers.empty() && now_->modifiers.back() == "pred"; }
  llvm::FixedVectorType* integers(unsigned bits);
  llvm::FixedVectorType* floats(unsigned bits);
  llvm::Constant* splat(std::uint64_t value, unsigned bits);

  Value* read(std::size_t index, unsigned bits, bool sign_extend = false) {
    return read(operand(index), bits, sign_extend);
  }
  Value* read(const ptx::Operand& source, unsigned bits, bool sign_extend = false);
  Value* read_scalar(const ptx::Scalar& source, unsigned bits, bool sign_extend = false);
  Value* read_register(int index);
  Value* read_predicate(std::size_t index);
  Value* read_float(std::size_t index, unsigned bits);  ///< subnormals become zero if the instruction has .ftz
  Value* special(std::string_view name, unsigned bits);
  Value* uniform(Uniform which, unsigned bits);
  Value* immediate(const ptx::FloatOperand& number, unsigned bits);
  Value* resize(Value* value, unsigned bits, bool sign_extend);
  std::uint64_t address_of(const ptx::SymbolOperand& symbol) const;
  const ptx::Variable& variable_of(const ptx::SymbolOperand& symbol) const;
  Value* base_address(const ptx::AddressOperand& place);
  Value* address(const ptx::Operand& source, Site& site);  ///< <32 x i64>; the constant part goes into the site

  void write(std::size_t index, Value* value, bool sign_extend = false) { write(operand(index), value, sign_extend); }
  void write(const ptx::Operand& target, Value* value, bool sign_extend = false);
  void write_scalar(const ptx::Scalar& target, Value* value, bool sign_extend = false);
  void write_register(int index, Value* value);
  void write_float(std::size_t index, Value* value);  ///< applies canonical NaN, .sat and .ftz

  // Calls of helpers.
  Site site(Helper helper) const;
  void give(int slot, Value* value);
  Value* take(int slot, unsigned bits);
  Value* take_predicate(int slot);
  void call(Site made);
  void call_and_write(Site made, unsigned bits);  ///< one result, which goes into operand 0
  Value* frame_field(std::size_t offset);
  Value* to_mask(Value* predicate);
  Value* from_mask(Value* mask);
  Value* active();  ///< mask of the lanes that execute this instruction

  // Instructions in groups, one file per group: integer.cpp, float.cpp ….
  void add();
  void subtract();
  void multiply();
  void multiply_add();
  bool carries() const;  ///< the instruction reads or writes the carry flag
  void add_with_carry(Value* a, Value* b);
  void subtract_with_borrow(Value* a, Value* b);
  Value* carry_in(unsigned bits);
  void carry_out(Value* carry);
  Value* product(unsigned bits, bool is_signed);
  Value* saturating(llvm::Intrinsic::ID intrinsic);
  void divide();
  void remainder();
  void absolute();
  void negate();
  void minimum();
  void maximum();
  void smaller_or_greater(bool greater);
  Value* float_extreme(bool greater, Value* a, Value* b);
  Value* divisor_in_range(Value* divisor);
  Value* flushed_result(Value* result, Value* a, Value* b, Value* addend);
  void bit_and();
  void bit_or();
  void bit_xor();
  void bit_not();
  void binary(llvm::Instruction::BinaryOps operation);
  void logical_not();
  void shift_left();
  void shift_right();
  void funnel_shift();
  void population();
  void leading_zeros();
  void reverse_bits();
  void extract_bits();
  Value* field_operand(std::size_t index, unsigned bits);
  void insert_bits();
  void logic3();
  void permute();
  void integer_helper(int kind);
  void find_leading();
  void dot4();
  void dot2();
  void sum_of_differences();

  void fused_multiply_add();
  bool rounds_otherwise() const;  ///< rounds otherwise than to nearest
  void rounded(int kind, std::size_t operands);
  Value* half_as_float(Value* half);
  void float_binary(llvm::Instruction::BinaryOps operation);
  void half_arithmetic(int kind, std::size_t operands);
  void reciprocal();
  void square_root();
  void special_function();
  void copy_sign();
  bool is_half() const;
  Value* canonical(Value* value);
  Value* flushed(Value* value);

  void move();
  void select();
  void compare();
  /// `shift`: for packed halves, the position of the half in the register.
  Value* comparison(std::string_view name, const TypeFacts& type, std::size_t first, unsigned shift);
  void convert();
  void convert_address();
  void is_in_space();

  void load();
  void store();
  void cache_policy();
  void memory_kind(Site& made, std::size_t address_operand);
  void load_parameter();
  void atomic();
  void copy_async();
  void matrix();
  void move_matrix();
  void multiply_matrices();
  int architecture() const;
  void warpgroup();
  void multiply_warpgroup();
  int warpgroup_options(bool is_described, bool has_signs, bool has_transposition) const;
  void add_warpgroup_calls(Site made, bool is_described);
  void give_registers(std::size_t operand_index, int first, std::size_t count);
  bool immediate_sign(std::size_t operand_index) const;  ///< of imm-scale: whether the operand is -1
  bool immediate_bit(std::size_t operand_index) const;
  void track_accumulators();  ///< for an instruction that is not wgmma
  void number_accumulators(Site& made, const std::vector<int>& registers) const;
  void shuffle();
  void vote();
  void match();
  void reduce();
  void active_mask();
  void elect();
  void barrier();
  void cluster_barrier();
  void mbarrier();
  void mbarrier_change();
  void mbarrier_wait();
  void arrive_after_copies();
  void copy_bulk();
  void prefetch_bulk();
  void copy_tensor();
  void tensor_operand(std::size_t index, Site& made);
  void prefetch();
  void send_value();
  Value* plain_address(std::size_t index);  ///< address with its constant part
  void reduction_kind(Site& made);
  void map_address();
  void rank_of_address();
  void branch();
  void leave();
  void trap();
  void fence();
  void nothing() {}

  llvm::Module& target_;
  llvm::LLVMContext& context_;
  llvm::IRBuilder<> builder_;
  const ptx::Module& module_;
  const ptx::Function& function_;
  const Layout& layout_;
  std::vector<Site>& sites_;

  std::vector<int> accumulators_;  ///< for each register, its accumulator number, or kNone
  int accumulator_count_ = 0;

  const ptx::Instruction* now_ = nullptr;
  Value* frame_ = nullptr;
  Value* registers_ = nullptr;
  Value* mask_ = nullptr;         ///< i32
  Value* guard_ = nullptr;        ///< <32 x i1>, or nullptr
  Value* carry_ = nullptr;        ///< <32 x i1>: the flag CC.CF within this segment
  Value* returned_ = nullptr;     ///< i32: lanes that take the branch or leave
  std::map<int, Value*> values_;  ///< current values of registers in this segment
  std::map<int, bool> written_;
};

std::string segment_name(int index);

}  // namespace cubit::runtime::cpu
