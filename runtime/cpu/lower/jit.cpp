// Compiles the segments of a kernel to machine code with LLVM.
//
// Kernels run for milliseconds and are compiled in every process, so compile time matters most. The IR has no loops and
// no branches and is hardly optimised, and the code generator runs at its lowest level. A kernel spends its time in
// helpers: at the next optimisation level it is no faster, and a first launch takes a third longer.
#include <fmt/format.h>
#include <llvm/ExecutionEngine/Orc/JITTargetMachineBuilder.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Pass.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Transforms/Scalar.h>

#include <mutex>

#include "base/error.hpp"
#include "runtime/cpu/lower/lowering.hpp"
#include "runtime/cpu/program.hpp"

namespace cubit::runtime::cpu {
namespace {

void initialise_target() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
}

[[noreturn]] void refuse(llvm::Error error) {
  throw Failure(Status::internal, "the CPU device's code generator", llvm::toString(std::move(error)));
}

template <class T>
T checked(llvm::Expected<T> expected) {
  if (!expected) refuse(expected.takeError());
  return std::move(*expected);
}

std::unique_ptr<llvm::orc::LLJIT> make_jit() {
  initialise_target();
  auto machine = checked(llvm::orc::JITTargetMachineBuilder::detectHost());
  machine.setCodeGenOptLevel(llvm::CodeGenOptLevel::None);
  return checked(llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(std::move(machine)).create());
}

/// Finds operands whose types do not match before the code generator sees them.
void require_sound(const llvm::Module& target, const Program& program) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (!llvm::verifyModule(target, &stream)) return;
  throw Failure(Status::unsupported, fmt::format("PTX kernel {}", program.function->name),
                "an instruction's operands do not fit its type (" + text.substr(0, text.find('\n')) + ")");
}

void optimise(llvm::Module& target) {
  llvm::legacy::FunctionPassManager passes(&target);
  passes.add(llvm::createEarlyCSEPass());
  passes.doInitialization();
  for (llvm::Function& function : target) passes.run(function);
  passes.doFinalization();
}

}  // namespace

void generate(Program& program) {
  auto jit = make_jit();
  auto context = std::make_unique<llvm::LLVMContext>();
  auto target = std::make_unique<llvm::Module>("kernel", *context);
  target->setDataLayout(jit->getDataLayout());
  target->setTargetTriple(jit->getTargetTriple().str());
  Lowering lowering(*target, program.module, *program.function, program.layout, program.sites);
  for (std::size_t i = 0; i < program.segments.size(); ++i) lowering.lower(program.segments[i], static_cast<int>(i));
  require_sound(*target, program);
  optimise(*target);
  if (auto error = jit->addIRModule({std::move(target), std::move(context)})) refuse(std::move(error));
  for (std::size_t i = 0; i < program.segments.size(); ++i) {
    program.code.push_back(checked(jit->lookup(segment_name(static_cast<int>(i)))).toPtr<SegmentCode>());
  }
  program.compiled = std::shared_ptr<llvm::orc::LLJIT>(std::move(jit));
}

}  // namespace cubit::runtime::cpu
