// Compiler plugin for clang: hooks in selected functions, and counts of executed basic blocks. A feature's headers tell what
// these blocks ask of the machine (llvm_requirements.h), and add passes (llvm_sampling.h).
//
// Two passes:
//   hooks    at the start of the pipeline, so that call paths are those of the source even where functions are
//            inlined later;
//   counting after inlining and scalar simplification, before vectorisation. Each count is kept in a local variable
//            that becomes a virtual register; it is added to the thread's counter (`buran_blocks`,
//            `buran_requirements`) before every instruction after which control may not come back here or the call
//            path may change. Counted loops then shrink to "+ trip count" by the optimiser's own means.
//
// One source for LLVM 14 and later. Settings come from the environment, set by the compiler wrapper:
//   BURAN_PLUGIN_MODE     time | effort | memory
//   BURAN_PLUGIN_COUNTER  register (default) | memory: adds to the thread's counter in every block; slow, inhibits
//                         vectorisation, and so simple that it serves as the reference in tests
//   BURAN_FILTER          filter file
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Analysis/GlobalsModRef.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#if __has_include("llvm/Plugins/PassPlugin.h")
#include "llvm/Plugins/PassPlugin.h"
#else
#include "llvm/Passes/PassPlugin.h"
#endif
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/IndVarSimplify.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"
#include "llvm/Transforms/Utils/PromoteMemToReg.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "llvm_static.h"
#include "plugin.h"
#include "runtime.h"

#if __has_include("llvm_requirements.h")
#include "llvm_requirements.h"
#else
namespace buran {
using Amounts = std::array<uint64_t, BURAN_REQUIREMENTS>;
struct Requirements {
  explicit Requirements(const llvm::DataLayout &) {}
  static void add(const llvm::Instruction &, Amounts &) {}
  static llvm::Value *copied(const llvm::Instruction &) { return nullptr; }
  static llvm::SmallVector<unsigned, 2> grownBy(const llvm::Instruction &) { return {}; }
};
} // namespace buran
#endif

using namespace llvm;

namespace {

// On hooked functions, and on the clones the optimiser makes of them; its value is the region's symbol.
constexpr const char *HookedAttribute = "buran-hooked";

void refuseFilter(const std::string &Path, int Line, const char *Problem) {
  errs() << Path << ":" << Line << ": error: " << Problem << " (BURAN_FILTER)\n";
  std::exit(2);
}

// ---- LLVM's differences between versions

void stripMemoryAttributes(Function &F) {
#if LLVM_VERSION_MAJOR >= 16
  F.removeFnAttr(Attribute::Memory);
#else
  for (auto Kind : {Attribute::ReadNone, Attribute::ReadOnly, Attribute::WriteOnly, Attribute::ArgMemOnly,
                    Attribute::InaccessibleMemOnly, Attribute::InaccessibleMemOrArgMemOnly})
    F.removeFnAttr(Kind);
#endif
  F.removeFnAttr(Attribute::Speculatable);
}

void stripMemoryAttributes(CallBase &Call) {
#if LLVM_VERSION_MAJOR >= 16
  Call.removeFnAttr(Attribute::Memory);
#else
  for (auto Kind : {Attribute::ReadNone, Attribute::ReadOnly, Attribute::WriteOnly, Attribute::ArgMemOnly,
                    Attribute::InaccessibleMemOnly, Attribute::InaccessibleMemOrArgMemOnly})
    Call.removeFnAttr(Kind);
#endif
}

PointerType *pointerType(LLVMContext &Context) {
#if LLVM_VERSION_MAJOR >= 17
  return PointerType::getUnqual(Context);
#else
  return Type::getInt8PtrTy(Context);
#endif
}

// ---- facts about functions and calls

bool isOwn(const Function &F) { return F.getName().substr(0, 6) == "buran_"; }

bool returnsTwice(const CallBase &Call) {
  const Function *Callee = Call.getCalledFunction();
  return Call.hasFnAttr(Attribute::ReturnsTwice) || (Callee && Callee->hasFnAttribute(Attribute::ReturnsTwice));
}

bool isIfuncResolver(const Function &F) {
  for (const GlobalIFunc &Indirect : F.getParent()->ifuncs())
    if (Indirect.getResolverFunction() == &F)
      return true; // runs before thread-local storage exists
  return false;
}

bool canCarryCode(const Function &F) {
  return !F.isDeclaration() && !F.hasFnAttribute(Attribute::Naked) && !isOwn(F) && !isIfuncResolver(F);
}

std::string sourceFile(const Function &F) {
  const DISubprogram *Where = F.getSubprogram();
  if (!Where)
    return "";
  SmallString<256> Path(Where->getFilename());
  if (!sys::path::is_absolute(Path) && !Where->getDirectory().empty()) {
    SmallString<256> Whole(Where->getDirectory());
    sys::path::append(Whole, Path);
    Path = Whole;
  }
  sys::path::remove_dots(Path, true);
  return std::string(Path);
}

bool startsWith(StringRef Text, StringRef Prefix) { return Text.substr(0, Prefix.size()) == Prefix; }

bool isFromSystem(const Function &F) {
  StringRef Name = F.getName();
  for (StringRef Prefix : {"_ZNSt", "_ZNKSt", "_ZSt", "_ZN9__gnu_cxx", "_ZNK9__gnu_cxx", "_ZN3MPI", "_ZNK3MPI"})
    if (startsWith(Name, Prefix))
      return true;
  std::string Path = sourceFile(F);
  for (StringRef Prefix : {"/usr/include/", "/usr/lib/", "/usr/local/include/"})
    if (startsWith(Path, Prefix))
      return true;
  return StringRef(Path).contains("/include/c++/") || StringRef(Path).contains("/include/openmpi/") ||
         StringRef(Path).contains("/lib/clang/");
}

// Compiler-made functions that are no part of the source.
bool isArtificial(const Function &F) {
  for (StringRef Prefix : {"__clang_call_terminate", "_GLOBAL__", "__cxx_global", "_ZTW", "_ZTH"})
    if (startsWith(F.getName(), Prefix))
      return true;
  // Bodies of parallel regions and tasks belong to the function they stand in.
  return startsWith(F.getName(), ".") || F.getName().contains(".omp");
}

// Decides which functions are hooked. Looks at the code of callees, so all decisions come before the first hook.
class Selection {
public:
  bool isSelected(Function &F) {
    if (isArtificial(F) || F.isPresplitCoroutine())
      return false;
    std::string Demangled = demangle(F.getName().str());
    switch (buran_filter_decide(&Settings::get().Filter, F.getName().str().c_str(), Demangled.c_str(),
                                sourceFile(F).c_str())) {
    case BURAN_INCLUDE:
      return true;
    case BURAN_EXCLUDE:
      return false;
    case BURAN_NO_RULE:
      break;
    }
    if (F.getName() == "main")
      return true;
    bool IsInline = F.hasFnAttribute(Attribute::InlineHint) || F.hasFnAttribute(Attribute::AlwaysInline);
    return !IsInline && !isFromSystem(F) && !isTiny(F);
  }

private:
  bool isTiny(Function &F) {
    auto Known = Tiny.find(&F);
    if (Known != Tiny.end())
      return Known->second;
    Tiny[&F] = false; // also the answer for recursion
    return Tiny[&F] = looksTiny(F);
  }

  bool looksTiny(Function &F) {
    if (F.isDeclaration())
      return false;
    unsigned Blocks = 0;
    for (BasicBlock &Block : F) {
      if (isa<UnreachableInst>(Block.getTerminator()))
        continue; // a failed assertion or a throw: not what its visits usually cost
      if (++Blocks > TinyBlocks)
        return false;
      for (Instruction &I : Block) {
        auto *Call = dyn_cast<CallBase>(&I);
        if (!Call || isa<IntrinsicInst>(Call))
          continue;
        Function *Callee = Call->getCalledFunction();
        if (!Callee || !isTiny(*Callee))
          return false;
      }
    }
    DominatorTree Dominators(F);
    return LoopInfo(Dominators).empty();
  }

  DenseMap<Function *, bool> Tiny;
};

// ---- hooks

class Hooks {
public:
  explicit Hooks(Module &M) : M(M), Context(M.getContext()), Pointer(pointerType(Context)) {
    Int32 = Type::getInt32Ty(Context);
    Type *Void = Type::getVoidTy(Context);
    Enter = M.getOrInsertFunction("buran_enter", FunctionType::get(Int32, {Pointer}, false));
    Exit = M.getOrInsertFunction("buran_exit", FunctionType::get(Void, {Int32}, false));
    Unwind = M.getOrInsertFunction("buran_unwind", FunctionType::get(Void, {Int32}, false));
    for (FunctionCallee Callee : {Enter, Exit, Unwind})
      if (auto *F = dyn_cast<Function>(Callee.getCallee()))
        F->setDoesNotThrow();
  }

  void add(Function &F) {
    F.addFnAttr(HookedAttribute, RegionPrefix + F.getName().str());

    // Collected before anything is inserted.
    SmallVector<Instruction *, 8> Exits, Returns;
    for (BasicBlock &Block : F) {
      Instruction *End = Block.getTerminator();
      if (isa<ReturnInst>(End) || isa<ResumeInst>(End)) {
        CallInst *MustTail = Block.getTerminatingMustTailCall();
        Exits.push_back(MustTail ? MustTail : End);
      }
      if (Block.isLandingPad())
        Returns.push_back(&*Block.getFirstInsertionPt());
      for (Instruction &I : Block)
        if (auto *Call = dyn_cast<CallBase>(&I))
          if (returnsTwice(*Call))
            Returns.push_back(afterCall(*Call));
    }
    auto Start = F.getEntryBlock().getFirstInsertionPt();
    while (isa<AllocaInst>(*Start))
      ++Start;

    IRBuilder<> Builder(&*Start);
    setLocation(Builder, F, nullptr);
    Value *Token = Builder.CreateCall(Enter, {region(F)}, "buran.token");
    for (Instruction *At : Exits)
      callAt(F, At, Exit, Token);
    for (Instruction *At : Returns)
      callAt(F, At, Unwind, Token);
    stripMemoryAttributes(F);
  }

private:
  static Instruction *afterCall(CallBase &Call) {
    if (auto *Invoke = dyn_cast<InvokeInst>(&Call))
      return &*Invoke->getNormalDest()->getFirstInsertionPt();
    return Call.getNextNode();
  }

  // A call in a function with debug information needs a location, or the verifier complains after inlining.
  static void setLocation(IRBuilder<> &Builder, Function &F, Instruction *At) {
    DISubprogram *Where = F.getSubprogram();
    if (!Where)
      return;
    DebugLoc Location = At && At->getDebugLoc()
                            ? At->getDebugLoc()
                            : DebugLoc(DILocation::get(F.getContext(), Where->getLine(), 0, Where));
    Builder.SetCurrentDebugLocation(Location);
  }

  static void callAt(Function &F, Instruction *At, FunctionCallee Callee, Value *Token) {
    IRBuilder<> Builder(At);
    setLocation(Builder, F, At);
    Builder.CreateCall(Callee, {Token});
  }

  Constant *text(StringRef Text) {
    Constant *Data = ConstantDataArray::getString(Context, Text);
    auto *Global = new GlobalVariable(M, Data->getType(), true, GlobalValue::PrivateLinkage, Data, "buran.text");
    Global->setUnnamedAddr(GlobalValue::UnnamedAddr::Global);
    return ConstantExpr::getPointerCast(Global, Pointer);
  }

  // Functions that several translation units emit share one region, or they would appear once for each.
  Constant *region(Function &F) {
    auto Number = [&](uint32_t Value) { return ConstantInt::get(Int32, Value); };
    uint32_t Line = F.getSubprogram() ? F.getSubprogram()->getLine() : 0;
    auto *Layout = StructType::get(Context, {Pointer, Pointer, Pointer, Int32, Int32, Int32, Int32});
    auto *Fields = ConstantStruct::get(
        Layout, {text(demangle(F.getName().str())), text(F.getName()), text(sourceFile(F)), Number(Line), Number(BURAN_KIND_FUNCTION),
                 Number(0), Number(BURAN_STATE_UNSEEN)});
    bool Shared = F.hasLinkOnceLinkage() || F.hasWeakLinkage() || F.hasAvailableExternallyLinkage();
    auto *Global =
        new GlobalVariable(M, Layout, false, Shared ? GlobalValue::WeakODRLinkage : GlobalValue::InternalLinkage,
                           Fields, RegionPrefix + F.getName().str());
    if (Shared) {
      Global->setVisibility(GlobalValue::HiddenVisibility);
      Global->setComdat(M.getOrInsertComdat(Global->getName()));
    }
    return ConstantExpr::getPointerCast(Global, Pointer);
  }

  Module &M;
  LLVMContext &Context;
  Type *Pointer, *Int32;
  FunctionCallee Enter, Exit, Unwind;
};

// Objects of different modes must not be linked into one binary (build_info.c defines one of the two symbols).
void addModeReference(Module &M) {
  Type *Byte = Type::getInt8Ty(M.getContext());
  std::string Name = "buran_objects_are_for_" + Settings::get().Mode;
  if (M.getGlobalVariable(Name))
    return;
  auto *Mark = new GlobalVariable(M, Byte, true, GlobalValue::ExternalLinkage, nullptr, Name);
  auto *Reference = new GlobalVariable(M, Mark->getType(), true, GlobalValue::PrivateLinkage, Mark, "buran.mode");
  Reference->setSection(".data.rel.ro.buran");
  appendToUsed(M, {Reference});
}

// By which the runtime knows that details are counted.
void addMarkOfDetails(Module &M) {
  Type *Byte = Type::getInt8Ty(M.getContext());
  appendToUsed(M, {new GlobalVariable(M, Byte, true, GlobalValue::WeakAnyLinkage, ConstantInt::get(Byte, 1),
                                      "buran_counts_details")});
}

// ---- counting

// A function pass cannot drop GlobalsAA (see nothingPreserved): with LLVM 14 the accesses are kept apart by force.
constexpr bool IsVolatile = LLVM_VERSION_MAJOR < 15;

// The thread's counters: blocks, then what they ask for in the order of runtime.h.
constexpr unsigned CounterCount = 1 + BURAN_REQUIREMENTS;
using Counters = std::array<Constant *, CounterCount>;

GlobalVariable *threadVariable(Module &M, StringRef Name, Type *Type) {
  GlobalVariable *Variable = M.getGlobalVariable(Name);
  if (!Variable) {
    Variable = new GlobalVariable(M, Type, false, GlobalValue::ExternalLinkage, nullptr, Name, nullptr,
                                  GlobalValue::InitialExecTLSModel);
    Variable->setAlignment(Align(8));
  }
  return Variable;
}

Counters threadCounters(Module &M) {
  Type *Int64 = Type::getInt64Ty(M.getContext()), *Int32 = Type::getInt32Ty(M.getContext());
  ArrayType *Array = ArrayType::get(Int64, BURAN_REQUIREMENTS);
  Counters Found = {threadVariable(M, "buran_blocks", Int64)};
  Constant *Requirements = threadVariable(M, "buran_requirements", Array);
  for (unsigned Kind = 0; Kind < BURAN_REQUIREMENTS; Kind++)
    Found[1 + Kind] = ConstantExpr::getInBoundsGetElementPtr(
        Array, Requirements, ArrayRef<Constant *>{ConstantInt::get(Int32, 0), ConstantInt::get(Int32, Kind)});
  return Found;
}

class Counting {
public:
  Counting(Module &M, function_ref<const TargetLibraryInfo &(Function &)> Library)
      : Library(Library), Counter(threadCounters(M)), Int64(Type::getInt64Ty(M.getContext())), Asks(M.getDataLayout()) {}

  void add(Function &F) {
    // Callees write the counter now, so nobody may believe any longer that they touch no memory.
    for (BasicBlock &Block : F)
      for (Instruction &I : Block)
        if (auto *Call = dyn_cast<CallBase>(&I))
          if (!isa<IntrinsicInst>(Call))
            dropMemoryClaims(*Call);
    if (Settings::get().Counter == Settings::Memory)
      countInMemory(F);
    else
      countInRegister(F);
    stripMemoryAttributes(F);
  }

private:
  // The hook that opens this very function: the entry block belongs to the function, not to its caller.
  static Instruction *ownEnter(Function &F) {
    if (!F.hasFnAttribute(HookedAttribute))
      return nullptr;
    StringRef Region = F.getFnAttribute(HookedAttribute).getValueAsString();
    for (Instruction &I : F.getEntryBlock())
      if (auto *Call = dyn_cast<CallInst>(&I))
        if (Call->getCalledFunction() && Call->getCalledFunction()->getName() == "buran_enter")
          return Call->getArgOperand(0)->stripPointerCasts()->getName() == Region ? Call : nullptr;
    return nullptr;
  }

  // A block that only passes control on is not counted: such blocks come and go with details of the compiler.
  static bool isCounted(BasicBlock &Block) {
    if (Block.isEntryBlock())
      return true;
    if (Block.getFirstInsertionPt() == Block.end())
      return false;
    auto *Branch = dyn_cast<BranchInst>(Block.getTerminator());
    if (!Branch || Branch->isConditional())
      return true;
    for (Instruction &I : Block) {
      bool Counts = !isa<PHINode>(I) && !isa<DbgInfoIntrinsic>(I) && !I.isLifetimeStartOrEnd() && &I != Branch;
      if (Counts)
        return true;
    }
    return false;
  }

  static Instruction *startOf(BasicBlock &Block) {
    if (Block.isEntryBlock())
      if (Instruction *Enter = ownEnter(*Block.getParent()))
        return Enter->getNextNode();
    auto At = Block.getFirstInsertionPt();
    while (isa<AllocaInst>(*At))
      ++At;
    if (auto *Call = dyn_cast<CallInst>(&*At)) // what was thrown over must be left before this block counts
      if (Call->getCalledFunction() && Call->getCalledFunction()->getName() == "buran_unwind")
        return Call->getNextNode();
    return &*At;
  }

  void dropMemoryClaims(CallBase &Call) {
    stripMemoryAttributes(Call);
    Function *Callee = Call.getCalledFunction();
    if (!Callee || Callee->isIntrinsic() || isLibraryFunction(*Callee, Call))
      return;
    stripMemoryAttributes(*Callee);
  }

  bool isLibraryFunction(Function &Callee, CallBase &Call) {
    LibFunc Known;
    return Library(*Call.getFunction()).getLibFunc(Callee, Known) && Callee.getName() != "qsort";
  }

  // May control fail to come back behind this call, or may the call path change in it?
  bool needsFlush(CallBase &Call, Instruction *OwnEnter) {
    if (&Call == OwnEnter || isa<IntrinsicInst>(Call))
      return false;
    if (isa<InvokeInst>(Call) || Call.isMustTailCall() || returnsTwice(Call))
      return true;
    if (Call.isInlineAsm())
      return false;
    Function *Callee = Call.getCalledFunction();
    if (!Callee)
      return true;
    if (isLibraryFunction(*Callee, Call) && !Call.doesNotReturn())
      return false;
    return !alwaysComesBack(*Callee);
  }

  // Known in full, cannot throw, and calls nothing else than such functions.
  bool alwaysComesBack(Function &F) {
    auto Known = ComesBack.find(&F);
    if (Known != ComesBack.end())
      return Known->second;
    ComesBack[&F] = false; // also the answer for recursion
    if (F.isDeclaration() || F.isInterposable() || !F.doesNotThrow() || F.hasFnAttribute(HookedAttribute))
      return false;
    for (BasicBlock &Block : F)
      for (Instruction &I : Block)
        if (auto *Call = dyn_cast<CallBase>(&I))
          if (needsFlush(*Call, nullptr))
            return false;
    return ComesBack[&F] = true;
  }

  // What is added to a counter where.
  struct Increment {
    Instruction *At;
    unsigned Which;
    Value *Amount;
  };
  using Increments = SmallVector<Increment, 32>;

  void collect(Increments &Found, Instruction *At, unsigned Which, uint64_t Amount) {
    if (Amount)
      Found.push_back({At, Which, ConstantInt::get(Int64, Amount)});
  }

  // What stands between two instructions at which call paths change is added behind it.
  void collectRequirements(Increments &Found, BasicBlock &Block, Instruction *OwnEnter) {
    buran::Amounts Sum = {};
    for (Instruction &I : Block) {
      auto *Call = dyn_cast<CallBase>(&I);
      Asks.add(I, Sum);
      if (I.isTerminator() || (Call && needsFlush(*Call, OwnEnter))) {
        for (unsigned Kind = 0; Kind < Settings::get().Requirements; Kind++)
          collect(Found, &I, 1 + Kind, Sum[Kind]);
        Sum = {};
      }
      if (Value *Length = Asks.copied(I)) {
        Length = IRBuilder<>(&I).CreateZExtOrTrunc(Length, Int64);
        for (unsigned Kind : Asks.grownBy(I))
          Found.push_back({&I, 1 + Kind, Length});
      }
    }
  }

  // The increments of a block's counter come before those that stand at the same place, and both before what is
  // inserted there later.
  Increments increments(Function &F, Instruction *OwnEnter) {
    Increments Found;
    for (BasicBlock &Block : F) {
      if (isCounted(Block))
        collect(Found, startOf(Block), 0, 1);
      collectRequirements(Found, Block, OwnEnter);
    }
    return Found;
  }

  void countInMemory(Function &F) {
    for (const Increment &This : increments(F, ownEnter(F))) {
      IRBuilder<> Builder(This.At);
      addToThread(Builder, This.Which, This.Amount);
    }
  }

  void addToThread(IRBuilder<> &Builder, unsigned Which, Value *Amount) {
    Value *Before = Builder.CreateLoad(Int64, Counter[Which], IsVolatile);
    Builder.CreateStore(Builder.CreateAdd(Before, Amount), Counter[Which], IsVolatile);
  }

  void countInRegister(Function &F) {
    Instruction *OwnEnter = ownEnter(F);
    SmallVector<Instruction *, 32> Flushes;
    for (BasicBlock &Block : F) {
      for (Instruction &I : Block)
        if (auto *Call = dyn_cast<CallBase>(&I))
          if (needsFlush(*Call, OwnEnter))
            Flushes.push_back(Call);
      Instruction *End = Block.getTerminator();
      bool Leaves = isa<ReturnInst>(End) || isa<ResumeInst>(End) || isa<CleanupReturnInst>(End);
      if (Leaves && !Block.getTerminatingMustTailCall())
        Flushes.push_back(End);
    }

    // The first increment is inserted before the instruction that follows the own enter hook, the flushes before
    // instructions that were there from the beginning: both orders stay right.
    Increments Steps = increments(F, OwnEnter);
    std::array<AllocaInst *, CounterCount> Counts = {};
    for (const Increment &This : Steps)
      if (!Counts[This.Which]) {
        IRBuilder<> Entry(&*F.getEntryBlock().getFirstInsertionPt());
        Counts[This.Which] = Entry.CreateAlloca(Int64, nullptr, "buran.count");
        Entry.CreateStore(ConstantInt::get(Int64, 0), Counts[This.Which]);
      }
    for (const Increment &This : Steps) {
      IRBuilder<> Builder(This.At);
      Value *Before = Builder.CreateLoad(Int64, Counts[This.Which]);
      Builder.CreateStore(Builder.CreateAdd(Before, This.Amount), Counts[This.Which]);
    }
    SmallVector<AllocaInst *, CounterCount> Used;
    for (unsigned Which = 0; Which < CounterCount; Which++) {
      if (!Counts[Which])
        continue;
      Used.push_back(Counts[Which]);
      for (Instruction *At : Flushes) {
        IRBuilder<> Builder(At);
        addToThread(Builder, Which, Builder.CreateLoad(Int64, Counts[Which]));
        Builder.CreateStore(ConstantInt::get(Int64, 0), Counts[Which]);
      }
    }
    DominatorTree Dominators(F);
    PromoteMemToReg(Used, Dominators);
  }

  function_ref<const TargetLibraryInfo &(Function &)> Library;
  Counters Counter;
  Type *Int64;
  buran::Requirements Asks;
  DenseMap<Function *, bool> ComesBack;
};

// GlobalsAA calls itself stateless and survives PreservedAnalyses::none(): its stale facts would forward the counter
// over calls and lose counts.
PreservedAnalyses nothingPreserved() {
  PreservedAnalyses Preserved = PreservedAnalyses::none();
  Preserved.abandon<GlobalsAA>();
  return Preserved;
}

// ---- passes

std::string sourceOf(const Module &M) {
  SmallString<256> Path(M.getSourceFileName());
  sys::fs::make_absolute(Path);
  sys::path::remove_dots(Path, true);
  return std::string(Path);
}

void describe(Module &M, ArrayRef<Function *> Present, ArrayRef<Function *> Selected) {
  buran::StaticFeatures Features;
  Features.beginUnit(std::string(sourceOf(M)), M);
  DenseSet<const Function *> Hooked(Selected.begin(), Selected.end());
  for (Function *F : Present)
    if (!F->hasAvailableExternallyLinkage()) // described where it is defined
      Features.addFunction(*F, sourceFile(*F), Hooked.contains(F));
  Features.emit(M);
}

struct HookPass : PassInfoMixin<HookPass> {
  static bool isRequired() { return true; } // also at -O0

  PreservedAnalyses run(Module &M, ModuleAnalysisManager &) {
    addModeReference(M);
    if (Settings::get().Effort)
      threadCounters(M); // the counting pass may be a function pass, which must not add globals
    if (Settings::get().Effort && Settings::get().Requirements == BURAN_REQUIREMENTS)
      addMarkOfDetails(M);
    Selection Select;
    SmallVector<Function *, 64> Present, Selected;
    for (Function &F : M)
      if (canCarryCode(F))
        Present.push_back(&F);
    for (Function *F : Present)
      if (Select.isSelected(*F))
        Selected.push_back(F);
    describe(M, Present, Selected);
    Hooks Hook(M);
    for (Function *F : Selected)
      Hook.add(*F);
    return nothingPreserved();
  }
};

#if LLVM_VERSION_MAJOR >= 15
struct CountPass : PassInfoMixin<CountPass> {
  static bool isRequired() { return true; }

  PreservedAnalyses run(Module &M, ModuleAnalysisManager &Analyses) {
    auto &Functions = Analyses.getResult<FunctionAnalysisManagerModuleProxy>(M).getManager();
    auto Library = [&](Function &F) -> const TargetLibraryInfo & {
      return Functions.getResult<TargetLibraryAnalysis>(F);
    };
    Counting Count(M, Library);
    for (Function &F : M)
      if (canCarryCode(F))
        Count.add(F);
    return nothingPreserved();
  }
};
#else
// LLVM 14 has no extension point for modules between inlining and vectorisation.
struct CountFunctionPass : PassInfoMixin<CountFunctionPass> {
  static bool isRequired() { return true; }

  PreservedAnalyses run(Function &F, FunctionAnalysisManager &Analyses) {
    if (!canCarryCode(F))
      return PreservedAnalyses::all();
    auto Library = [&](Function &) -> const TargetLibraryInfo & {
      return Analyses.getResult<TargetLibraryAnalysis>(F);
    };
    Counting(*F.getParent(), Library).add(F);
    return nothingPreserved();
  }
};
#endif

// Lets the optimiser turn "+1 per iteration" into "+ trip count" before the vectoriser looks at the loops.
void addSimplification(FunctionPassManager &Passes) {
  Passes.addPass(InstCombinePass());
  Passes.addPass(createFunctionToLoopPassAdaptor(IndVarSimplifyPass(), false, false));
  Passes.addPass(InstCombinePass());
  Passes.addPass(SimplifyCFGPass());
}

#if LLVM_VERSION_MAJOR >= 15
void addCounting(ModulePassManager &Passes, OptimizationLevel Level) {
  Passes.addPass(CountPass());
  if (Level == OptimizationLevel::O0)
    return;
  FunctionPassManager Simplification;
  addSimplification(Simplification);
  Passes.addPass(createModuleToFunctionPassAdaptor(std::move(Simplification)));
}
#endif

} // namespace

#if __has_include("llvm_sampling.h")
#include "llvm_sampling.h"
#endif

namespace {

void registerPasses(PassBuilder &Builder) {
  Builder.registerPipelineStartEPCallback(
      [](ModulePassManager &Passes, OptimizationLevel) { Passes.addPass(HookPass()); });
#ifdef BURAN_LLVM_SAMPLING_H
  if (Settings::get().Samples)
    buran::registerSampling(Builder);
#endif
  if (!Settings::get().Effort)
    return;
#if LLVM_VERSION_MAJOR >= 20
  Builder.registerOptimizerEarlyEPCallback(
      [](ModulePassManager &Passes, OptimizationLevel Level, ThinOrFullLTOPhase) { addCounting(Passes, Level); });
#elif LLVM_VERSION_MAJOR >= 15
  Builder.registerOptimizerEarlyEPCallback(
      [](ModulePassManager &Passes, OptimizationLevel Level) { addCounting(Passes, Level); });
#else
  Builder.registerVectorizerStartEPCallback([](FunctionPassManager &Passes, OptimizationLevel Level) {
    Passes.addPass(CountFunctionPass());
    if (Level != OptimizationLevel::O0)
      addSimplification(Passes);
  });
#endif
}

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "buran", "1", registerPasses};
}
