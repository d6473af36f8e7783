// Cuts basic blocks into segments, and finds the registers that live from one segment to another.
#include "runtime/cpu/lower/control.hpp"

#include <algorithm>

namespace cubit::runtime::cpu {
namespace {

using ptx::Function;
using ptx::Instruction;

bool leaves(const Instruction& instruction) { return instruction.root == "ret" || instruction.root == "exit"; }

/// Instructions that do not write their first operand.
bool has_result(const Instruction& instruction) {
  const bool is_barrier = instruction.root == "bar" || instruction.root == "barrier";
  if (is_barrier && instruction.has("red")) return true;
  static constexpr std::string_view kWithout[] = {
      "st",        "red",      "bra",       "ret",       "exit",          "bar",
      "barrier",   "cp",       "fence",     "trap",      "prefetch",      "membar",
      "call",      "stmatrix", "nanosleep", "discard",   "applypriority", "griddepcontrol",
      "prefetchu", "brkpt",    "pmevent",   "setmaxnreg"};
  return std::find(std::begin(kWithout), std::end(kWithout), instruction.root) == std::end(kWithout);
}

/// wgmma.mma_async also reads its first operand.
bool reads_result(const Instruction& instruction) { return instruction.root == "wgmma"; }

template <class Variant>
void add_register(const Variant& operand, std::vector<int>& list) {
  if (const auto* found = std::get_if<ptx::RegisterOperand>(&operand)) list.push_back(found->index);
}

void add_registers(const ptx::Operand& operand, std::vector<int>& list) {
  add_register(operand, list);
  if (const auto* vector = std::get_if<ptx::VectorOperand>(&operand)) {
    for (const ptx::Scalar& element : vector->elements) add_register(element, list);
  }
  if (const auto* parts = std::get_if<ptx::ListOperand>(&operand)) {
    for (const ptx::Scalar& element : parts->elements) add_register(element, list);
  }
  if (const auto* pair = std::get_if<ptx::PairOperand>(&operand)) {
    add_register(pair->first, list);
    add_register(pair->second, list);
  }
}

void add_address(const ptx::Operand& operand, std::vector<int>& list) {
  const auto* address = std::get_if<ptx::AddressOperand>(&operand);
  if (address == nullptr) return;
  add_register(address->base, list);
  for (const ptx::Scalar& coordinate : address->coordinates) add_register(coordinate, list);
}

class Builder {
 public:
  explicit Builder(const Function& function) : function_(function), blocks_(ptx::build_blocks(function)) {}

  std::vector<Segment> build() {
    for (const ptx::Block& block : blocks_) {
      starts_.push_back(static_cast<int>(segments_.size()));
      cut(block);
    }
    for (std::size_t i = 0; i < blocks_.size(); ++i) link(i);
    find_live_registers();
    return std::move(segments_);
  }

 private:
  const Instruction& at(int index) const { return function_.body[static_cast<std::size_t>(index)]; }

  void cut(const ptx::Block& block) {
    int first = block.first;
    for (int i = block.first; i < block.last; ++i) {
      if (!may_wait(at(i))) continue;
      if (is_retried(at(i)) && i > first) first = cut_at(first, i, End::jump);
      first = cut_at(first, i + 1, End::wait);
    }
    segments_.push_back({.first = first, .last = block.last, .live_out = {}});
  }

  int cut_at(int first, int last, End end) {
    segments_.push_back({.first = first, .last = last, .end = end, .live_out = {}});
    segments_.back().next = static_cast<int>(segments_.size());
    return last;
  }

  int start_of(int block) const { return block == ptx::kNone ? kEnd : starts_[static_cast<std::size_t>(block)]; }

  void link(std::size_t index) {
    const ptx::Block& block = blocks_[index];
    const std::size_t last =
        index + 1 < starts_.size() ? static_cast<std::size_t>(starts_[index + 1]) - 1 : segments_.size() - 1;
    Segment& segment = segments_[last];
    segment.reconverge = start_of(block.reconverge);
    const Instruction* const end = block.last > block.first ? &at(block.last - 1) : nullptr;
    if (end != nullptr && leaves(*end)) {
      segment.end = End::leave;
      segment.next = block.successors.empty() ? kEnd : start_of(block.successors[0]);
    } else if (block.successors.size() == 2) {
      segment.end = End::branch;
      segment.target = start_of(block.successors[0]);
      segment.next = start_of(block.successors[1]);
    } else {
      segment.next = block.successors.empty() ? kEnd : start_of(block.successors[0]);
    }
  }

  /// Iterates backwards to a fixed point. A guarded write keeps the old value alive.
  void find_live_registers() {
    const std::size_t registers = function_.registers.size();
    const std::size_t count = segments_.size();
    std::vector<std::vector<bool>> reads(count, std::vector<bool>(registers));
    std::vector<std::vector<bool>> writes(count, std::vector<bool>(registers));
    for (std::size_t s = 0; s < count; ++s) summarise(segments_[s], reads[s], writes[s]);
    std::vector<std::vector<bool>> in = reads;
    std::vector<std::vector<bool>> out(count, std::vector<bool>(registers));
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t s = count; s-- > 0;) {
        for (const int successor : {segments_[s].target, segments_[s].next}) {
          if (successor != kEnd) changed |= flow(in[static_cast<std::size_t>(successor)], writes[s], out[s], in[s]);
        }
      }
    }
    for (std::size_t s = 0; s < count; ++s) {
      for (std::size_t r = 0; r < registers; ++r) {
        if (out[s][r]) segments_[s].live_out.push_back(static_cast<int>(r));
      }
    }
  }

  static bool flow(const std::vector<bool>& successor, const std::vector<bool>& writes, std::vector<bool>& out,
                   std::vector<bool>& in) {
    bool changed = false;
    for (std::size_t r = 0; r < successor.size(); ++r) {
      if (!successor[r] || out[r]) continue;
      out[r] = true;
      changed = true;
      if (!writes[r]) in[r] = true;
    }
    return changed;
  }

  void summarise(const Segment& segment, std::vector<bool>& reads, std::vector<bool>& writes) const {
    for (int i = segment.first; i < segment.last; ++i) {
      const Accesses accesses = accesses_of(at(i));
      for (const int r : accesses.reads) {
        if (!writes[static_cast<std::size_t>(r)]) reads[static_cast<std::size_t>(r)] = true;
      }
      for (const int r : accesses.writes) {
        const auto index = static_cast<std::size_t>(r);
        if (at(i).guard.predicate == ptx::kNone) {
          writes[index] = true;
        } else if (!writes[index]) {
          reads[index] = true;
        }
      }
    }
  }

  const Function& function_;
  std::vector<ptx::Block> blocks_;
  std::vector<int> starts_;
  std::vector<Segment> segments_;
};

}  // namespace

bool may_wait(const Instruction& instruction) {
  if (instruction.root == "mbarrier") return instruction.has("try_wait");
  if (instruction.root != "bar" && instruction.root != "barrier") return false;
  return !instruction.has("warp") && !instruction.has("arrive");
}

bool is_retried(const Instruction& instruction) {
  return may_wait(instruction) && (instruction.root == "mbarrier" || instruction.has("red"));
}

Accesses accesses_of(const Instruction& instruction) {
  Accesses accesses;
  if (instruction.guard.predicate != ptx::kNone) accesses.reads.push_back(instruction.guard.predicate);
  for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
    const ptx::Operand& operand = instruction.operands[i];
    add_address(operand, accesses.reads);
    const bool is_result = i == 0 && has_result(instruction);
    if (is_result) add_registers(operand, accesses.writes);
    if (!is_result || reads_result(instruction)) add_registers(operand, accesses.reads);
  }
  return accesses;
}

std::vector<Segment> build_segments(const Function& function) { return Builder(function).build(); }

}  // namespace cubit::runtime::cpu
