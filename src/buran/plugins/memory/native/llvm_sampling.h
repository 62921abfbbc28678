// Asking at accesses to memory whether their cache line is in the sample, for llvm_plugin.cpp; reuse.c says what for.
//
// The question is a multiplication and a comparison, which stand behind vectorisation: a vector that is loaded asks once,
// for its first line. Accesses of a block that are less than a line apart ask together. Local variables of up to a page
// ask nothing: they are always near. Nor does a second access through the same pointer, as in `x += 1`: nothing was
// touched in between.
//
// An innermost loop that knows how often it runs, and passes memory without leaving out a line, asks once, before it begins:
// whether any pair of lines that it passes is in the sample. Its own code stays as it is.
#ifndef BURAN_LLVM_SAMPLING_H
#define BURAN_LLVM_SAMPLING_H

#include "llvm/ADT/StringMap.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/DataLayout.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/ScalarEvolutionExpander.h"

#include <optional>

#include "plugin.h"
#include "sampling.h"

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
    Loops = M.getOrInsertFunction("buran_reuse_loop", Void, Int64, Int64, Int32);
    for (llvm::FunctionCallee Callee : {Accesses, Range, Loops})
      if (auto *F = llvm::dyn_cast<llvm::Function>(Callee.getCallee()))
        F->setDoesNotThrow();
  }

  void add(llvm::Function &F, llvm::ScalarEvolution &Evolution, const llvm::LoopInfo &Nest,
           const llvm::DominatorTree &Dominators) {
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
    llvm::SmallVector<Walk, 8> Walks;
    for (llvm::Loop *L : const_cast<llvm::LoopInfo &>(Nest).getLoopsInPreorder())
      if (std::optional<Walk> Found = walked(*L, Groups, Evolution, Dominators))
        Walks.push_back(std::move(*Found));
    for (const Walk &This : Walks)
      askBefore(This);
    for (const Group &This : Groups)
      if (!This.IsAsked)
        ask(This);
    for (llvm::AnyMemIntrinsic *Copy : Copies) {
      if (auto *Transfer = llvm::dyn_cast<llvm::AnyMemTransferInst>(Copy))
        askAll(Copy, Transfer->getRawSource());
      askAll(Copy, Copy->getRawDest());
    }
  }

private:
  struct Group : Together {
    Group(llvm::Instruction *At, llvm::Value *Place, const llvm::SCEV *Address) : At(At), Place(Place), Address(Address) {}
    llvm::Instruction *At; // the first of them
    llvm::Value *Place;
    const llvm::SCEV *Address; // of the first
    bool IsAsked = false;      // before its loop
  };

  // Accesses of a loop, as runtime.h has them.
  struct Stream {
    llvm::Value *First;
    int64_t Step;
    uint64_t Span, Accesses;
  };

  // A loop that accesses nothing but streams.
  struct Walk {
    llvm::Instruction *Before; // the end of the block that leads into it
    llvm::Value *Iterations;
    llvm::SmallVector<Stream, 8> Streams;
  };

  // What a loop walks through, if it does nothing else with memory, knows how often it runs, and has no calls.
  std::optional<Walk> walked(llvm::Loop &L, llvm::MutableArrayRef<Group> Groups, llvm::ScalarEvolution &Evolution,
                             const llvm::DominatorTree &Dominators) {
    using namespace llvm;
    BasicBlock *Before = L.getLoopPreheader(), *Latch = L.getLoopLatch();
    if (!L.isInnermost() || !Before || !Latch || L.getExitingBlock() != Latch)
      return std::nullopt;
    for (BasicBlock *Block : L.blocks())
      for (Instruction &I : *Block)
        if (isa<AnyMemIntrinsic>(I) || (isa<CallBase>(I) && !isa<IntrinsicInst>(I)))
          return std::nullopt;
    SCEVExpander Expander(Evolution, Layout, "buran");
    const SCEV *Again = Evolution.getBackedgeTakenCount(&L);
    if (isa<SCEVCouldNotCompute>(Again) || !canExpand(Expander, Again, Evolution))
      return std::nullopt;
    if (auto *Known = dyn_cast<SCEVConstant>(Again); Known && Known->getAPInt().ult(FewIterations - 1))
      return std::nullopt;
    SmallVector<Group *, 8> Own;
    for (Group &This : Groups)
      if (L.contains(This.At))
        Own.push_back(&This);
    if (Own.empty() || Own.size() > BURAN_REUSE_STREAMS)
      return std::nullopt;
    Walk Found{Before->getTerminator(), nullptr, {}};
    const int64_t Parts = unrolled(Own, L, Evolution);
    IRBuilder<> Builder(Found.Before);
    DenseMap<Value *, Value *> Known;
    for (Group *This : Own) {
      std::optional<int64_t> Step = stepOf(*This, L, Evolution);
      Value *First = Step && std::abs(*Step) <= PairBytes && Dominators.dominates(This->At->getParent(), Latch)
                         ? atFirst(This->Place, L, Found.Before, Known)
                         : nullptr;
      if (!First)
        return std::nullopt;
      int64_t Lead = Parts > 1 && *Step < 0 ? This->Highest : This->Lowest;
      First = Builder.CreateAdd(Builder.CreatePtrToInt(First, Int64), ConstantInt::getSigned(Int64, Lead));
      if (Parts > 1)
        Found.Streams.push_back({First, *Step / Parts, 0, 1});
      else
        Found.Streams.push_back({First, *Step, uint64_t(This->Highest - This->Lowest), This->Places.size()});
    }
    const SCEV *Count = Evolution.getAddExpr(Evolution.getTruncateOrZeroExtend(Again, Int64), Evolution.getOne(Int64));
    Found.Iterations = Builder.CreateMul(Expander.expandCodeFor(Count, Int64, Found.Before),
                                         ConstantInt::get(Int64, Parts));
    for (Group *This : Own)
      This->IsAsked = true;
    return Found;
  }

  // How many iterations of the source one of an unrolled loop is: all of its groups are so many places in a row that goes
  // on in the next iteration. 1 if it is not like that.
  static int64_t unrolled(llvm::ArrayRef<Group *> Own, llvm::Loop &L, llvm::ScalarEvolution &Evolution) {
    int64_t Parts = Own.front()->Places.size();
    for (const Group *This : Own) {
      int64_t Width = std::abs(stepOf(*This, L, Evolution).value_or(0)), Apart = Width / Parts;
      bool IsRow = Apart && Width % Parts == 0 && int64_t(This->Places.size()) == Parts;
      for (int64_t Part = 0; IsRow && Part < Parts; Part++)
        IsRow = This->Places.count(This->Lowest + Part * Apart);
      if (!IsRow)
        return 1;
    }
    return Parts;
  }

  static bool canExpand(const llvm::SCEVExpander &Expander, const llvm::SCEV *Wanted, llvm::ScalarEvolution &Evolution) {
#if LLVM_VERSION_MAJOR >= 15
    (void)Evolution;
    return Expander.isSafeToExpand(Wanted);
#else
    (void)Expander;
    return llvm::isSafeToExpand(Wanted, Evolution);
#endif
  }

  // By how much the address grows in each iteration, if that is known.
  static std::optional<int64_t> stepOf(const Group &This, llvm::Loop &L, llvm::ScalarEvolution &Evolution) {
    if (Evolution.isLoopInvariant(This.Address, &L))
      return 0;
    auto *Moves = llvm::dyn_cast<llvm::SCEVAddRecExpr>(This.Address);
    if (!Moves || Moves->getLoop() != &L || !Moves->isAffine())
      return std::nullopt;
    auto *Step = llvm::dyn_cast<llvm::SCEVConstant>(Moves->getStepRecurrence(Evolution));
    return Step ? std::optional<int64_t>(Step->getAPInt().getSExtValue()) : std::nullopt;
  }

  // A value as it is in the first iteration, computed before the loop; null if that would have effects or need memory.
  llvm::Value *atFirst(llvm::Value *Wanted, llvm::Loop &L, llvm::Instruction *Before,
                       llvm::DenseMap<llvm::Value *, llvm::Value *> &Known) {
    using namespace llvm;
    auto *I = dyn_cast<Instruction>(Wanted);
    if (!I || !L.contains(I))
      return Wanted;
    if (auto Found = Known.find(I); Found != Known.end())
      return Found->second;
    Known[I] = nullptr; // also the answer for a circle
    if (auto *Merged = dyn_cast<PHINode>(I))
      return Known[I] = I->getParent() == L.getHeader() ? Merged->getIncomingValueForBlock(Before->getParent()) : nullptr;
    if (I->mayReadOrWriteMemory() || !isSafeToSpeculativelyExecute(I))
      return nullptr;
    SmallVector<Value *, 4> Operands;
    for (Value *Operand : I->operands()) {
      Operands.push_back(atFirst(Operand, L, Before, Known));
      if (!Operands.back())
        return nullptr;
    }
    Instruction *Copy = I->clone();
    for (unsigned N = 0; N < Operands.size(); N++)
      Copy->setOperand(N, Operands[N]);
    Copy->setDebugLoc(DebugLoc());
    Copy->insertBefore(Before);
    return Known[I] = Copy;
  }

  // Streams with one step pass as many pairs of lines.
  struct Pace {
    uint64_t Step;
    uint64_t Span = 0;                               // the largest
    llvm::SmallVector<llvm::Value *, 8> Hashes = {}; // of the first pair of each
  };

  void askBefore(const Walk &This) {
    using namespace llvm;
    BasicBlock *Start = This.Before->getParent(), *End = SplitBlock(Start, This.Before);
    BasicBlock *Seen = BasicBlock::Create(M.getContext(), "", Start->getParent(), End);
    IRBuilder<> Builder(Start->getTerminator());
    Value *Again = Builder.CreateSub(This.Iterations, ConstantInt::get(Int64, 1));
    SmallVector<Pace, 4> Paces;
    for (const Stream &One : This.Streams) {
      uint64_t Step = std::abs(One.Step);
      auto *Like = llvm::find_if(Paces, [&](const Pace &Other) { return Other.Step == Step; });
      if (Like == Paces.end()) {
        Paces.push_back({Step});
        Like = &Paces.back();
      }
      Value *Lowest = One.First;
      if (One.Step < 0)
        Lowest = Builder.CreateAdd(Lowest, Builder.CreateMul(Again, ConstantInt::getSigned(Int64, One.Step)));
      Like->Span = std::max(Like->Span, One.Span);
      Like->Hashes.push_back(hash(Builder, Lowest));
    }
    Value *Limit = Builder.CreateLoad(Int32, Threshold);
    Start->getTerminator()->eraseFromParent();
    Builder.SetInsertPoint(Start);
    for (const Pace &One : Paces)
      scan(Builder, One, Again, Limit, Seen);
    Builder.CreateBr(End);
    Builder.SetInsertPoint(Seen);
    tell(Builder, This);
    Builder.CreateBr(End);
  }

  // Go on to `Seen` if a pair that streams of one pace pass is in the sample. One too many is looked at.
  void scan(llvm::IRBuilder<> &Builder, const Pace &One, llvm::Value *Again, llvm::Value *Limit,
            llvm::BasicBlock *Seen) {
    using namespace llvm;
    auto Number = [&](uint64_t Value) { return ConstantInt::get(Int64, Value); };
    Value *Length = Builder.CreateAdd(Builder.CreateMul(Again, Number(One.Step)), Number(One.Span + PairBytes - 1));
    Value *Count = Builder.CreateAdd(Builder.CreateLShr(Length, LineBits + 1), Number(1));
    BasicBlock *Before = Builder.GetInsertBlock();
    auto Block = [&] { return BasicBlock::Create(M.getContext(), "", Before->getParent(), Seen); };
    BasicBlock *Look = Block(), *More = Block(), *Next = Block();
    Builder.CreateBr(Look);
    Builder.SetInsertPoint(Look);
    PHINode *Moved = Builder.CreatePHI(Int32, 2), *Left = Builder.CreatePHI(Int64, 2);
    Value *Least = nullptr;
    for (Value *First : One.Hashes) {
      Value *Hash = Builder.CreateAdd(First, Moved);
      Least = Least ? Builder.CreateBinaryIntrinsic(Intrinsic::umin, Least, Hash) : Hash;
    }
    Builder.CreateCondBr(Builder.CreateICmpULT(Least, Limit), Seen, More, Rarely);
    Builder.SetInsertPoint(More);
    Value *Further = Builder.CreateAdd(Moved, ConstantInt::get(Int32, BURAN_LINE_FACTOR));
    Value *Rest = Builder.CreateSub(Left, Number(1));
    Builder.CreateCondBr(Builder.CreateIsNull(Rest), Next, Look);
    Moved->addIncoming(ConstantInt::get(Int32, 0), Before);
    Moved->addIncoming(Further, More);
    Left->addIncoming(Count, Before);
    Left->addIncoming(Rest, More);
    Builder.SetInsertPoint(Next);
  }

  // Hand the streams over, in the order of buran_reuse_stream.
  void tell(llvm::IRBuilder<> &Builder, const Walk &This) {
    using namespace llvm;
    Function &F = *Builder.GetInsertBlock()->getParent();
    IRBuilder<> Entry(&*F.getEntryBlock().getFirstInsertionPt());
    auto *Table = ArrayType::get(Int64, 4 * This.Streams.size());
    Value *Room = Entry.CreateAlloca(Table);
    auto Number = [&](uint64_t Value) -> llvm::Value * { return ConstantInt::get(Int64, Value); };
    unsigned N = 0;
    for (const Stream &One : This.Streams)
      for (Value *Field : {One.First, Number(One.Step), Number(One.Span), Number(One.Accesses)})
        Builder.CreateStore(Field, Builder.CreateConstInBoundsGEP2_64(Table, Room, 0, N++));
    Function *Called = callable(F, Walked);
    Value *Count = ConstantInt::get(Int32, This.Streams.size());
    Builder.CreateCall(Called, {Builder.CreatePtrToInt(Room, Int64), This.Iterations, Count})
        ->setCallingConv(Called->getCallingConv());
  }

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
#if LLVM_VERSION_MAJOR >= 15
    if (auto *Call = llvm::dyn_cast<llvm::IntrinsicInst>(Whole))
      if (Call->getIntrinsicID() == llvm::Intrinsic::threadlocal_address)
        Whole = Call->getArgOperand(0);
#endif
    if (llvm::isa<llvm::GlobalVariable>(Whole) && Whole->getName().take_front(6) == "buran_")
      return true; // the thread's counters
    auto *Variable = llvm::dyn_cast<llvm::AllocaInst>(Whole);
    auto *Count = Variable ? llvm::dyn_cast<llvm::ConstantInt>(Variable->getArraySize()) : nullptr;
    return Count && Count->getZExtValue() * Layout.getTypeAllocSize(Variable->getAllocatedType()) <= Page;
  }

  // Into one of the last groups, from the given one on, or into a group of its own.
  void join(llvm::SmallVectorImpl<Group> &Groups, size_t First, llvm::Instruction &I, llvm::Value *Place,
            llvm::ScalarEvolution &Evolution) {
    const llvm::SCEV *Address = Evolution.getSCEV(Place);
    auto Apart = [&](const Group &This) -> std::optional<int64_t> {
      auto *Known = llvm::dyn_cast<llvm::SCEVConstant>(Evolution.getMinusSCEV(Address, This.Address));
      if (!Known || !Known->getAPInt().isSignedIntN(32))
        return std::nullopt;
      return Known->getAPInt().getSExtValue();
    };
    if (!joined(Groups, First, Apart))
      Groups.push_back({&I, Place, Address});
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
    llvm::Function *Called = callable(*This.At->getFunction(), Touched);
    llvm::Value *Count = llvm::ConstantInt::get(Int32, This.Places.size());
    llvm::IRBuilder<>(Then).CreateCall(Called, {First, Last, Count})->setCallingConv(Called->getCallingConv());
  }

  // What is called from a function: it keeps all registers, so that nothing is moved where no line is in the sample.
  // Which these are is decided by the processor that a function is compiled for, so each such has one of its own.
  llvm::Function *callable(llvm::Function &F, llvm::StringMap<llvm::Function *> &Callable) {
    std::string Target;
    for (const char *Key : {"target-cpu", "target-features"})
      Target += F.getFnAttribute(Key).getValueAsString().str() + "\n";
    llvm::Function *&Known = Callable[Target];
    if (!Known) {
      bool IsLoop = &Callable == &Walked;
      llvm::Function *Slow = Known = keepsRegisters(F, IsLoop ? "buran_walked" : "buran_sampled");
      llvm::IRBuilder<> Builder(llvm::BasicBlock::Create(M.getContext(), "", Slow));
      Builder.CreateCall(IsLoop ? Loops : Accesses, {Slow->getArg(0), Slow->getArg(1), Slow->getArg(2)});
      Builder.CreateRetVoid();
      if (!IsLoop) {
        Known = keepsRegisters(F, "buran_touched");
        countAgain(*Known, *Slow);
      }
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

  static constexpr int64_t PairBytes = BURAN_LINE * BURAN_LINES_OF_PAIR;
  static constexpr uint64_t FewIterations = 4; // of a loop that does not ask beforehand

  llvm::Module &M;
  const llvm::DataLayout &Layout;
  llvm::Type *Int32, *Int64;
  llvm::Constant *Threshold;
  llvm::MDNode *Rarely;
  llvm::FunctionCallee Accesses, Range, Loops;
  llvm::StringMap<llvm::Function *> Touched, Walked;
};

struct SamplePass : llvm::PassInfoMixin<SamplePass> {
  static bool isRequired() { return true; }

  llvm::PreservedAnalyses run(llvm::Module &M, llvm::ModuleAnalysisManager &Analyses) {
    auto &Functions = Analyses.getResult<llvm::FunctionAnalysisManagerModuleProxy>(M).getManager();
    Sampling Sample(M);
    llvm::SmallVector<llvm::Function *, 64> Own;
    for (llvm::Function &F : M)
      if (canCarryCode(F))
        Own.push_back(&F);
    for (llvm::Function *F : Own)
      Sample.add(*F, Functions.getResult<llvm::ScalarEvolutionAnalysis>(*F), Functions.getResult<llvm::LoopAnalysis>(*F),
                 Functions.getResult<llvm::DominatorTreeAnalysis>(*F));
    return nothingPreserved();
  }
};

// At the end of the pipeline, beside counting.
inline void registerSampling(llvm::PassBuilder &Builder) {
#if LLVM_VERSION_MAJOR >= 20
  Builder.registerOptimizerLastEPCallback([](llvm::ModulePassManager &Passes, llvm::OptimizationLevel,
                                             llvm::ThinOrFullLTOPhase) { Passes.addPass(SamplePass()); });
#else
  Builder.registerOptimizerLastEPCallback(
      [](llvm::ModulePassManager &Passes, llvm::OptimizationLevel) { Passes.addPass(SamplePass()); });
#endif
}

} // namespace buran

#endif
