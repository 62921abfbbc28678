// Asking at accesses to memory whether their cache line is in the sample, for llvm_plugin.cpp; reuse.c says what for.
//
// The question is a multiplication and a comparison, which stand behind vectorisation: a vector that is loaded asks once,
// for its first line. Accesses of a block that are less than a line apart ask together. Local variables of up to a page
// ask nothing: they are always near. Nor does a second access through the same pointer, as in `x += 1`: nothing was
// touched in between.
#ifndef BURAN_LLVM_SAMPLING_H
#define BURAN_LLVM_SAMPLING_H

#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/ScalarEvolutionExpressions.h"
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
      : M(M), Layout(M.getDataLayout()), Int32(llvm::Type::getInt32Ty(M.getContext())),
        Int64(llvm::Type::getInt64Ty(M.getContext())), Threshold(M.getOrInsertGlobal("buran_reuse_threshold", Int32)),
        Rarely(llvm::MDBuilder(M.getContext()).createBranchWeights(1, 1000)) {
    llvm::Type *Void = llvm::Type::getVoidTy(M.getContext());
    Accesses = M.getOrInsertFunction("buran_reuse_accesses", Void, Int64, Int64, Int32);
    Range = M.getOrInsertFunction("buran_reuse_range", Void, Int64, Int64);
    for (llvm::FunctionCallee Callee : {Accesses, Range})
      if (auto *F = llvm::dyn_cast<llvm::Function>(Callee.getCallee()))
        F->setDoesNotThrow();
  }

  void add(llvm::Function &F, llvm::ScalarEvolution &Evolution) {
    llvm::SmallVector<Group, 64> Groups;
    llvm::SmallVector<llvm::AnyMemIntrinsic *, 8> Copies;
    for (llvm::BasicBlock &Block : F) {
      size_t First = Groups.size();
      for (llvm::Instruction &I : Block) {
        if (auto *Copy = llvm::dyn_cast<llvm::AnyMemIntrinsic>(&I))
          Copies.push_back(Copy);
        else if (llvm::Value *Place = accessed(I); Place && !isNear(Place))
          join(Groups, First, I, Place, Evolution);
        if (llvm::isa<llvm::CallBase>(I) && !llvm::isa<llvm::IntrinsicInst>(I))
          First = Groups.size();
      }
    }
    for (const Group &This : Groups)
      ask(This);
    for (llvm::AnyMemIntrinsic *Copy : Copies) {
      if (auto *Transfer = llvm::dyn_cast<llvm::AnyMemTransferInst>(Copy))
        askAll(Copy, Transfer->getRawSource());
      askAll(Copy, Copy->getRawDest());
    }
  }

private:
  // Accesses of a block without calls in between, that begin less than a line apart.
  struct Group {
    llvm::Instruction *At; // the first of them
    llvm::Value *Place;
    const llvm::SCEV *Address;            // of the first
    int64_t Lowest = 0, Highest = 0;      // relative to the first
    llvm::SmallSet<int64_t, 8> Places = {}; // all of them, relative to the first
  };

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

  // Into one of the last groups, from the given one on, or into a group of its own.
  void join(llvm::SmallVectorImpl<Group> &Groups, size_t First, llvm::Instruction &I, llvm::Value *Place,
            llvm::ScalarEvolution &Evolution) {
    const llvm::SCEV *Address = Evolution.getSCEV(Place);
    for (size_t N = Groups.size(); N > std::max(First, Groups.size() > Compared ? Groups.size() - Compared : 0); N--) {
      Group &This = Groups[N - 1];
      auto *Apart = llvm::dyn_cast<llvm::SCEVConstant>(Evolution.getMinusSCEV(Address, This.Address));
      if (!Apart || !Apart->getAPInt().isSignedIntN(32))
        continue;
      int64_t Offset = Apart->getAPInt().getSExtValue();
      int64_t Lowest = std::min(This.Lowest, Offset), Highest = std::max(This.Highest, Offset);
      if (Highest - Lowest >= int64_t(BURAN_LINE))
        continue;
      This.Lowest = Lowest;
      This.Highest = Highest;
      This.Places.insert(Offset);
      return;
    }
    Groups.push_back({&I, Place, Address});
    Groups.back().Places.insert(0);
  }

  llvm::Value *hash(llvm::IRBuilder<> &Builder, llvm::Value *Address) {
    llvm::Value *Pair = Builder.CreateTrunc(Builder.CreateLShr(Address, LineBits + 1), Int32);
    return Builder.CreateMul(Pair, llvm::ConstantInt::get(Int32, BURAN_LINE_FACTOR));
  }

  void ask(const Group &This) {
    llvm::IRBuilder<> Builder(This.At);
    llvm::Value *Place = Builder.CreatePtrToInt(This.Place, Int64);
    auto Address = [&](int64_t Offset) {
      return Offset ? Builder.CreateAdd(Place, llvm::ConstantInt::getSigned(Int64, Offset)) : Place;
    };
    llvm::Value *First = Address(This.Lowest), *Last = First, *Least = hash(Builder, First);
    if (This.Lowest != This.Highest) {
      Last = Address(This.Highest);
      Least = Builder.CreateBinaryIntrinsic(llvm::Intrinsic::umin, Least, hash(Builder, Last));
    }
    llvm::Value *IsSampled = Builder.CreateICmpULT(Least, Builder.CreateLoad(Int32, Threshold));
    llvm::Instruction *Then = llvm::SplitBlockAndInsertIfThen(IsSampled, This.At, false, Rarely);
    llvm::Function *Called = callable(*This.At->getFunction());
    llvm::Value *Count = llvm::ConstantInt::get(Int32, This.Places.size());
    llvm::IRBuilder<>(Then).CreateCall(Called, {First, Last, Count})->setCallingConv(Called->getCallingConv());
  }

  // What is called from a function: it keeps all registers, so that nothing is moved where no line is in the sample.
  // Which these are is decided by the processor that a function is compiled for, so each such has one of its own.
  llvm::Function *callable(llvm::Function &F) {
    std::string Target;
    for (const char *Key : {"target-cpu", "target-features"})
      Target += F.getFnAttribute(Key).getValueAsString().str() + "\n";
    llvm::Function *&Known = Callable[Target];
    if (!Known) {
      llvm::Function *Slow = keepsRegisters(F, "buran_sampled");
      llvm::IRBuilder<> Builder(llvm::BasicBlock::Create(M.getContext(), "", Slow));
      Builder.CreateCall(Accesses, {Slow->getArg(0), Slow->getArg(1), Slow->getArg(2)});
      Builder.CreateRetVoid();
      Known = keepsRegisters(F, "buran_touched");
      countAgain(*Known, *Slow);
    }
    return Known;
  }

  llvm::Function *keepsRegisters(llvm::Function &Caller, const char *Name) {
    llvm::Type *Void = llvm::Type::getVoidTy(M.getContext());
    auto *Type = llvm::FunctionType::get(Void, {Int64, Int64, Int32}, false);
    auto *Made = llvm::Function::Create(Type, llvm::GlobalValue::InternalLinkage, Name, M);
    if (llvm::Triple(M.getTargetTriple()).getArch() == llvm::Triple::x86_64)
      Made->setCallingConv(llvm::CallingConv::PreserveAll);
    for (const char *Key : {"target-cpu", "target-features", "frame-pointer"})
      if (Caller.hasFnAttribute(Key))
        Made->addFnAttr(Caller.getFnAttribute(Key));
    for (auto Kind : {llvm::Attribute::NoInline, llvm::Attribute::NoUnwind, llvm::Attribute::Cold})
      Made->addFnAttr(Kind);
    return Made;
  }

  // Most accesses of the sample are to the line that was touched last: these are counted without a call.
  void countAgain(llvm::Function &F, llvm::Function &Slow) {
    llvm::LLVMContext &Context = M.getContext();
    auto *Layout = llvm::StructType::get(Context, {Int64, Int64, Int64, Int64, Int64}); // buran_reuse_again
    auto *Last = llvm::dyn_cast<llvm::GlobalVariable>(M.getOrInsertGlobal("buran_reuse_last", Layout, [&] {
      return new llvm::GlobalVariable(M, Layout, false, llvm::GlobalValue::ExternalLinkage, nullptr, "buran_reuse_last",
                                      nullptr, llvm::GlobalValue::InitialExecTLSModel);
    }));
    auto *Begin = llvm::BasicBlock::Create(Context, "", &F), *Same = llvm::BasicBlock::Create(Context, "", &F),
         *Other = llvm::BasicBlock::Create(Context, "", &F);
    llvm::IRBuilder<> Builder(Begin);
    auto Field = [&](unsigned N) { return Builder.CreateLoad(Int64, Builder.CreateStructGEP(Layout, Last, N)); };
    auto At = [&](llvm::Value *Address) {
      return Builder.CreateIntToPtr(Address, llvm::PointerType::get(Int64, 0));
    };
    llvm::Value *Line = Builder.CreateSub(Field(0), llvm::ConstantInt::get(Int64, 1));
    auto IsLast = [&](unsigned N) { return Builder.CreateICmpEQ(Builder.CreateLShr(F.getArg(N), LineBits), Line); };
    llvm::Value *IsSame = Builder.CreateAnd(IsLast(0), IsLast(1));
    auto *Path = llvm::BasicBlock::Create(Context, "", &F, Same);
    Builder.CreateCondBr(IsSame, Path, Other);
    Builder.SetInsertPoint(Path);
    Builder.CreateCondBr(Builder.CreateICmpEQ(Builder.CreateLoad(Int64, At(Field(1))), Field(2)), Same, Other);
    Builder.SetInsertPoint(Same);
    llvm::Value *Count = At(Field(3)), *More = Builder.CreateMul(Builder.CreateZExt(F.getArg(2), Int64), Field(4));
    Builder.CreateStore(Builder.CreateAdd(Builder.CreateLoad(Int64, Count), More), Count);
    Builder.CreateRetVoid();
    Builder.SetInsertPoint(Other);
    Builder.CreateCall(&Slow, {F.getArg(0), F.getArg(1), F.getArg(2)})->setCallingConv(Slow.getCallingConv());
    Builder.CreateRetVoid();
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
  static constexpr size_t Compared = 16; // so many groups are looked at for one to join

  llvm::Module &M;
  const llvm::DataLayout &Layout;
  llvm::Type *Int32, *Int64;
  llvm::Constant *Threshold;
  llvm::MDNode *Rarely;
  llvm::FunctionCallee Accesses, Range;
  llvm::StringMap<llvm::Function *> Callable;
};

} // namespace buran

#endif
