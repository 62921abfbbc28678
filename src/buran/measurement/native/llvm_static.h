// Static features of functions, for llvm_plugin.cpp: what is known of the source before the program runs.
//
// They travel inside of the object file, in the section `.buran.static`, which is never loaded. The linker joins the
// sections of everything that goes into a program, so that a program always carries the features of exactly its own
// objects: also from static libraries and from a compiler cache. One JSON object in each line:
//
//   {"unit": ..., "filter": ..., "rules": [...], "matched": [...], "taken": [...]}
//       begins an object file: its source, the hash of the filter file, the line of each of its rules, the numbers
//       of those rules (from 0) that match something in here, and the symbols whose address something in here takes:
//       what calls through pointers and virtual functions may reach
//   {"name": ..., "mangled": ..., ...}
//       one for each function
//
// static_lines.h writes them, the reader is toolchain/static_features.py: keep both in step.
#ifndef BURAN_LLVM_STATIC_H
#define BURAN_LLVM_STATIC_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "static_lines.h"

namespace buran {

// Collects the lines of one module and puts them into its object file.
class StaticFeatures {
public:
  void beginUnit(const std::string &Source, const llvm::Module &M) {
    std::vector<std::string> Taken;
    for (const llvm::Function &F : M)
      if (!F.isIntrinsic() && F.hasAddressTaken(nullptr, false, true, true))
        Taken.push_back(F.getName().str());
    Found.addUnit(Source, std::move(Taken));
  }

  void addFunction(llvm::Function &F, llvm::StringRef File, bool Hooked) {
    using namespace llvm;
    DominatorTree Dominators(F);
    LoopInfo Loops(Dominators);
    FunctionFeatures Of;
    std::set<std::pair<const DIFile *, unsigned>> Lines;
    for (BasicBlock &Block : F) {
      Of.Blocks++;
      Of.Branches += Block.getTerminator()->getNumSuccessors() > 1 && !isa<InvokeInst>(Block.getTerminator());
      for (Instruction &I : Block) {
        if (I.isDebugOrPseudoInst() || I.isLifetimeStartOrEnd())
          continue;
        Of.Instructions++;
        if (const DILocation *At = I.getDebugLoc(); At && At->getLine())
          Lines.insert({At->getFile(), At->getLine()});
        auto *Call = dyn_cast<CallBase>(&I);
        if (Call && !isa<IntrinsicInst>(Call) && !Call->isInlineAsm())
          Of.call({calleeName(*Call), Loops.getLoopDepth(&Block)});
      }
    }
    const DISubprogram *Where = F.getSubprogram();
    Of.Name = demangle(F.getName().str());
    Of.Mangled = F.getName().str();
    Of.File = File.str();
    Of.Line = Where ? Where->getLine() : 0;
    Of.Linkage = linkage(F);
    Of.Inline = F.hasFnAttribute(Attribute::InlineHint) || F.hasFnAttribute(Attribute::AlwaysInline);
    Of.Hooked = Hooked;
    if (Where)
      Of.Statements = Lines.size();
    Of.Type = signature(*F.getFunctionType());
    for (Loop *L : Loops.getLoopsInPreorder()) {
      DebugLoc Start = L->getStartLoc();
      Of.Loops.push_back({Start ? Start.getLine() : 0, L->getLoopDepth(), unsigned(L->getNumBlocks())});
    }
    Found.add(Of);
  }

  void emit(llvm::Module &M) const { M.appendModuleInlineAsm(Found.code()); }

private:
  // The symbol; where only the run can tell, "*" and the type of what is called.
  static std::string calleeName(const llvm::CallBase &Call) {
    const llvm::Value *Callee = Call.getCalledOperand()->stripPointerCastsAndAliases();
    return llvm::isa<llvm::Function>(Callee) ? Callee->getName().str() : "*" + signature(*Call.getFunctionType());
  }

  // Result and parameters, as far as they decide how a function is called: one pointer is like another.
  static std::string signature(const llvm::FunctionType &Type) {
    std::string Text = kind(*Type.getReturnType()) + "(";
    for (llvm::Type *Parameter : Type.params())
      Text += (Text.back() == '(' ? "" : ",") + kind(*Parameter);
    return Text + (Type.isVarArg() ? "...)" : ")");
  }

  static std::string kind(const llvm::Type &Type) {
    if (Type.isVoidTy())
      return "void";
    if (Type.isPointerTy())
      return "p";
    if (Type.isIntegerTy())
      return "i" + std::to_string(Type.getIntegerBitWidth());
    if (Type.isFloatingPointTy())
      return "f" + std::to_string(Type.getScalarSizeInBits());
    return "s";
  }

  // "shared": several units may bring it along, and the linker keeps one.
  static std::string linkage(const llvm::Function &F) {
    if (F.hasLocalLinkage())
      return "internal";
    return F.hasLinkOnceLinkage() || F.hasWeakLinkage() ? "shared" : "external";
  }

  StaticLines Found;
};

} // namespace buran

#endif
