// Asking at each access to memory whether its cache line is in the sample, for llvm_plugin.cpp; reuse.c says what for.
//
// The question is a multiplication and a comparison, which stand behind vectorisation: a vector that is loaded asks once,
// for its first line. Local variables of up to a page ask nothing: they are always near. Nor does a second access
// through the same pointer, as in `x += 1`: nothing was touched in between.
#ifndef BURAN_LLVM_SAMPLING_H
#define BURAN_LLVM_SAMPLING_H

#include "llvm/ADT/DenseSet.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/DataLayout.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

#include "runtime.h"

namespace buran {

class Sampling {
public:
  explicit Sampling(llvm::Module &M)
      : Layout(M.getDataLayout()), Int64(llvm::Type::getInt64Ty(M.getContext())),
        Threshold(M.getOrInsertGlobal("buran_reuse_threshold", Int64)),
        Rarely(llvm::MDBuilder(M.getContext()).createBranchWeights(1, 1000)) {
    llvm::Type *Void = llvm::Type::getVoidTy(M.getContext());
    Access = M.getOrInsertFunction("buran_reuse_access", Void, Int64);
    Range = M.getOrInsertFunction("buran_reuse_range", Void, Int64, Int64);
    for (llvm::FunctionCallee Callee : {Access, Range})
      if (auto *F = llvm::dyn_cast<llvm::Function>(Callee.getCallee()))
        F->setDoesNotThrow();
  }

  void add(llvm::Function &F) {
    llvm::SmallVector<std::pair<llvm::Instruction *, llvm::Value *>, 64> Accesses;
    llvm::SmallVector<llvm::AnyMemIntrinsic *, 8> Copies;
    for (llvm::BasicBlock &Block : F) {
      llvm::DenseSet<llvm::Value *> Asked;
      for (llvm::Instruction &I : Block) {
        if (auto *Copy = llvm::dyn_cast<llvm::AnyMemIntrinsic>(&I))
          Copies.push_back(Copy);
        else if (llvm::Value *Place = accessed(I); Place && !isNear(Place) && Asked.insert(Place).second)
          Accesses.push_back({&I, Place});
        if (llvm::isa<llvm::CallBase>(I) && !llvm::isa<llvm::IntrinsicInst>(I))
          Asked.clear();
      }
    }
    for (auto [At, Place] : Accesses)
      ask(At, Place);
    for (llvm::AnyMemIntrinsic *Copy : Copies) {
      if (auto *Transfer = llvm::dyn_cast<llvm::AnyMemTransferInst>(Copy))
        askAll(Copy, Transfer->getRawSource());
      askAll(Copy, Copy->getRawDest());
    }
  }

private:
  // The pointer of a load, a store or an atomic change; null for other instructions.
  static llvm::Value *accessed(llvm::Instruction &I) {
    using namespace llvm;
    if (auto *Load = dyn_cast<LoadInst>(&I))
      return Load->getPointerOperand();
    if (auto *Store = dyn_cast<StoreInst>(&I))
      return Store->getPointerOperand();
    if (auto *Change = dyn_cast<AtomicRMWInst>(&I))
      return Change->getPointerOperand();
    if (auto *Exchange = dyn_cast<AtomicCmpXchgInst>(&I))
      return Exchange->getPointerOperand();
    if (auto *Call = dyn_cast<IntrinsicInst>(&I)) {
      if (Call->getIntrinsicID() == Intrinsic::masked_load)
        return Call->getArgOperand(0);
      if (Call->getIntrinsicID() == Intrinsic::masked_store)
        return Call->getArgOperand(1);
    }
    return nullptr;
  }

  bool isNear(llvm::Value *Place) {
    if (llvm::cast<llvm::PointerType>(Place->getType())->getAddressSpace())
      return true; // relative to a segment register
    llvm::Value *Whole = llvm::getUnderlyingObject(Place);
    auto *Variable = llvm::dyn_cast<llvm::AllocaInst>(Whole);
    auto *Count = Variable ? llvm::dyn_cast<llvm::ConstantInt>(Variable->getArraySize()) : nullptr;
    return Count && Count->getZExtValue() * Layout.getTypeAllocSize(Variable->getAllocatedType()) <= Page;
  }

  void ask(llvm::Instruction *At, llvm::Value *Place) {
    llvm::IRBuilder<> Builder(At);
    llvm::Value *Address = Builder.CreatePtrToInt(Place, Int64);
    llvm::Value *Pair = Builder.CreateLShr(Address, LineBits + 1);
    llvm::Value *Hash = Builder.CreateMul(Pair, llvm::ConstantInt::get(Int64, BURAN_LINE_FACTOR));
    llvm::Value *IsSampled = Builder.CreateICmpULT(Hash, Builder.CreateLoad(Int64, Threshold));
    llvm::Instruction *Then = llvm::SplitBlockAndInsertIfThen(IsSampled, At, false, Rarely);
    llvm::IRBuilder<> Rare(Then);
    Rare.CreateCall(Access, {Rare.CreateLShr(Address, LineBits)});
  }

  void askAll(llvm::AnyMemIntrinsic *Copy, llvm::Value *Place) {
    if (isNear(Place))
      return;
    llvm::IRBuilder<> Builder(Copy);
    Builder.CreateCall(Range, {Builder.CreatePtrToInt(Place, Int64), Builder.CreateZExtOrTrunc(Copy->getLength(), Int64)});
  }

  static constexpr unsigned LineBits = 6;
  static_assert(1u << LineBits == BURAN_LINE && BURAN_LINES_OF_PAIR == 2, "as in runtime.h");
  static constexpr uint64_t Page = 4096;

  const llvm::DataLayout &Layout;
  llvm::Type *Int64;
  llvm::Constant *Threshold;
  llvm::MDNode *Rarely;
  llvm::FunctionCallee Access, Range;
};

} // namespace buran

#endif
