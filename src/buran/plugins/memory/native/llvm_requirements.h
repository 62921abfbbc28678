// What a piece of code asks of the machine, for llvm_plugin.cpp: floating-point operations and accesses to memory.
//
// An addition, subtraction, multiplication, division or square root of numbers with a point is an operation, a fused
// multiply-add is two, and one on vectors as many as the vector has elements. Local variables that any compiler keeps in
// registers are no memory, so builds without optimisation count what the source asks for too. Copying and filling a
// piece of memory is one load, one store, and all of its bytes.
#ifndef BURAN_LLVM_REQUIREMENTS_H
#define BURAN_LLVM_REQUIREMENTS_H

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/DataLayout.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Transforms/Utils/PromoteMemToReg.h"

#include <array>

#include "runtime.h"

namespace buran {

using Amounts = std::array<uint64_t, BURAN_REQUIREMENTS>;

class Requirements {
public:
  explicit Requirements(const llvm::DataLayout &Layout) : Layout(Layout) {}

  // Adds what an instruction asks for, without the length of `copied`.
  void add(const llvm::Instruction &I, Amounts &Sum) {
    using namespace llvm;
    if (auto *Load = dyn_cast<LoadInst>(&I)) {
      if (!isRegister(Load->getPointerOperand()))
        access(Sum, BURAN_LOADS, bytes(Load->getType()));
    } else if (auto *Store = dyn_cast<StoreInst>(&I)) {
      if (!isRegister(Store->getPointerOperand()))
        access(Sum, BURAN_STORES, bytes(Store->getValueOperand()->getType()));
    } else if (isa<AtomicRMWInst>(I) || isa<AtomicCmpXchgInst>(I)) {
      uint64_t Size = bytes(I.getOperand(1)->getType());
      access(Sum, BURAN_LOADS, Size);
      access(Sum, BURAN_STORES, Size);
    } else if (auto *Memory = dyn_cast<AnyMemIntrinsic>(&I)) {
      auto *Length = dyn_cast<ConstantInt>(Memory->getLength());
      uint64_t Size = Length ? Length->getZExtValue() : 0;
      if (isa<AnyMemTransferInst>(I))
        access(Sum, BURAN_LOADS, Size);
      access(Sum, BURAN_STORES, Size);
    } else {
      operations(I, Sum);
      Sum[BURAN_BRANCHES] += I.isTerminator() && I.getNumSuccessors() > 1 && !isa<InvokeInst>(I);
      Sum[BURAN_CALLS] += calls(I);
      Sum[BURAN_INTEGER_OPERATIONS] += integerOperations(I);
    }
  }

  // The number of bytes that an instruction copies or fills, where only the run can tell.
  static llvm::Value *copied(const llvm::Instruction &I) {
    auto *Memory = llvm::dyn_cast<llvm::AnyMemIntrinsic>(&I);
    return Memory && !llvm::isa<llvm::ConstantInt>(Memory->getLength()) ? Memory->getLength() : nullptr;
  }

  // The kinds to which that number is added.
  static llvm::SmallVector<unsigned, 2> grownBy(const llvm::Instruction &I) {
    if (llvm::isa<llvm::AnyMemTransferInst>(I))
      return {BURAN_BYTES_STORED, BURAN_BYTES_LOADED};
    return {BURAN_BYTES_STORED};
  }

private:
  static void access(Amounts &Sum, unsigned Kind, uint64_t Size) {
    Sum[Kind]++;
    Sum[Kind == BURAN_LOADS ? BURAN_BYTES_LOADED : BURAN_BYTES_STORED] += Size;
  }

  uint64_t bytes(llvm::Type *Type) const { return Layout.getTypeStoreSize(Type).getKnownMinValue(); }

  bool isRegister(const llvm::Value *Place) {
    auto *Variable = llvm::dyn_cast<llvm::AllocaInst>(Place);
    if (!Variable)
      return false;
    auto Known = Registers.find(Variable);
    return Known != Registers.end() ? Known->second : Registers[Variable] = llvm::isAllocaPromotable(Variable);
  }

  // One operation, for each element, of a type and a kind.
  static void operation(Amounts &Sum, unsigned Kind, llvm::Type *Type) {
    uint64_t Elements = elements(Type);
    unsigned Bits = Type->getScalarSizeInBits();
    Sum[BURAN_FLOPS] += Elements;
    Sum[Kind] += Elements;
    Sum[Bits <= 32 ? BURAN_FLOPS_SINGLE : Bits <= 64 ? BURAN_FLOPS_DOUBLE : BURAN_FLOPS_EXTENDED] += Elements;
  }

  static void operations(const llvm::Instruction &I, Amounts &Sum) {
    using namespace llvm;
    switch (I.getOpcode()) {
    case Instruction::FAdd:
    case Instruction::FSub:
      return operation(Sum, BURAN_FLOPS_ADD, I.getType());
    case Instruction::FMul:
      return operation(Sum, BURAN_FLOPS_MULTIPLY, I.getType());
    case Instruction::FDiv:
    case Instruction::FRem:
      return operation(Sum, BURAN_FLOPS_DIVIDE, I.getType());
    case Instruction::Call:
      return operationsOfCall(cast<CallInst>(I), Sum);
    }
  }

  static void operationsOfCall(const llvm::CallInst &Call, Amounts &Sum) {
    using namespace llvm;
    switch (Call.getIntrinsicID()) {
    case Intrinsic::fma:
    case Intrinsic::fmuladd:
    case Intrinsic::experimental_constrained_fma:
    case Intrinsic::experimental_constrained_fmuladd:
      operation(Sum, BURAN_FLOPS_MULTIPLY, Call.getType());
      return operation(Sum, BURAN_FLOPS_ADD, Call.getType());
    case Intrinsic::sqrt:
    case Intrinsic::experimental_constrained_sqrt:
      return operation(Sum, BURAN_FLOPS_ROOT, Call.getType());
    case Intrinsic::experimental_constrained_fadd:
    case Intrinsic::experimental_constrained_fsub:
      return operation(Sum, BURAN_FLOPS_ADD, Call.getType());
    case Intrinsic::experimental_constrained_fmul:
      return operation(Sum, BURAN_FLOPS_MULTIPLY, Call.getType());
    case Intrinsic::experimental_constrained_fdiv:
    case Intrinsic::experimental_constrained_frem:
      return operation(Sum, BURAN_FLOPS_DIVIDE, Call.getType());
    case Intrinsic::vector_reduce_fadd:
      return operation(Sum, BURAN_FLOPS_ADD, Call.getArgOperand(1)->getType());
    case Intrinsic::vector_reduce_fmul:
      return operation(Sum, BURAN_FLOPS_MULTIPLY, Call.getArgOperand(1)->getType());
    default:
      if (isSquareRoot(Call))
        operation(Sum, BURAN_FLOPS_ROOT, Call.getType());
    }
  }

  // Of functions that were not inlined; what a compiler makes instructions of is none.
  static bool calls(const llvm::Instruction &I) {
    auto *Call = llvm::dyn_cast<llvm::CallBase>(&I);
    if (!Call || llvm::isa<llvm::IntrinsicInst>(I) || Call->isInlineAsm() || isSquareRoot(*Call))
      return false;
    const llvm::Function *Callee = Call->getCalledFunction();
    return !Callee || Callee->getName().substr(0, 6) != "buran_";
  }

  static uint64_t integerOperations(const llvm::Instruction &I) {
    llvm::Type *Type = I.getType();
    return I.isBinaryOp() && Type->isIntOrIntVectorTy() && !Type->isIntOrIntVectorTy(1) ? elements(Type) : 0;
  }

  // The C library's, which sets errno: compilers make it an instruction with a test.
  static bool isSquareRoot(const llvm::CallBase &Call) {
    const llvm::Function *Callee = Call.getCalledFunction();
    llvm::StringRef Name = Callee && Callee->isDeclaration() ? Callee->getName() : "";
    return Name == "sqrt" || Name == "sqrtf" || Name == "sqrtl";
  }

  static uint64_t elements(llvm::Type *Type) {
    auto *Vector = llvm::dyn_cast<llvm::VectorType>(Type);
    return Vector ? Vector->getElementCount().getKnownMinValue() : 1;
  }

  const llvm::DataLayout &Layout;
  llvm::DenseMap<const llvm::AllocaInst *, bool> Registers;
};

} // namespace buran

#endif
