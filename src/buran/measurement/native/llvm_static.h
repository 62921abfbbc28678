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
// The reader is buran/measurement/static_features.py: keep both in step.
#ifndef BURAN_LLVM_STATIC_H
#define BURAN_LLVM_STATIC_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace buran {

inline std::string quoted(llvm::StringRef Text) {
  std::string Out = "\"";
  for (char C : Text) {
    if (C == '"' || C == '\\') {
      Out += '\\';
      Out += C;
    } else if (static_cast<unsigned char>(C) < 0x20) {
      char Escape[8];
      std::snprintf(Escape, sizeof Escape, "\\u%04x", C);
      Out += Escape;
    } else {
      Out += C;
    }
  }
  return Out + '"';
}

// Collects the lines of one module and puts them into its object file.
class StaticFeatures {
public:
  void beginUnit(llvm::StringRef Source, llvm::StringRef Filter, llvm::ArrayRef<int> RuleLines,
                 llvm::ArrayRef<int> Matched, const llvm::Module &M) {
    std::string Taken;
    for (const llvm::Function &F : M)
      if (!F.isIntrinsic() && F.hasAddressTaken(nullptr, false, true, true))
        Taken += (Taken.empty() ? "" : ", ") + quoted(F.getName());
    add("{\"unit\": " + quoted(Source) + ", \"filter\": " + quoted(Filter) + ", \"rules\": " + list(RuleLines) +
        ", \"matched\": " + list(Matched) + ", \"taken\": [" + Taken + "]}");
  }

  void addFunction(llvm::Function &F, llvm::StringRef File, bool Hooked) {
    using namespace llvm;
    DominatorTree Dominators(F);
    LoopInfo Loops(Dominators);
    unsigned Blocks = 0, Instructions = 0, Branches = 0;
    std::set<std::pair<const DIFile *, unsigned>> Lines;
    std::map<std::pair<std::string, unsigned>, unsigned> Number; // of a call's kind, in the order of the source
    std::vector<std::pair<std::pair<std::string, unsigned>, unsigned>> Calls;
    for (BasicBlock &Block : F) {
      Blocks++;
      Branches += Block.getTerminator()->getNumSuccessors() > 1 && !isa<InvokeInst>(Block.getTerminator());
      for (Instruction &I : Block) {
        if (I.isDebugOrPseudoInst() || I.isLifetimeStartOrEnd())
          continue;
        Instructions++;
        if (const DILocation *At = I.getDebugLoc(); At && At->getLine())
          Lines.insert({At->getFile(), At->getLine()});
        auto *Call = dyn_cast<CallBase>(&I);
        if (Call && !isa<IntrinsicInst>(Call) && !Call->isInlineAsm())
          count(Number, Calls, {calleeName(*Call), Loops.getLoopDepth(&Block)});
      }
    }
    const DISubprogram *Where = F.getSubprogram();
    std::string Text = "{\"name\": " + quoted(demangle(F.getName().str())) + ", \"mangled\": " + quoted(F.getName()) +
                       ", \"file\": " + quoted(File) + ", \"line\": " + std::to_string(Where ? Where->getLine() : 0) +
                       ", \"linkage\": \"" + linkage(F) + "\", \"inline\": " +
                       truth(F.hasFnAttribute(Attribute::InlineHint) || F.hasFnAttribute(Attribute::AlwaysInline)) +
                       ", \"hooked\": " + truth(Hooked) + ", \"blocks\": " + std::to_string(Blocks) +
                       ", \"instructions\": " + std::to_string(Instructions) +
                       ", \"statements\": " + (Where ? std::to_string(Lines.size()) : "null") +
                       ", \"branches\": " + std::to_string(Branches) + ", \"type\": " +
                       quoted(signature(*F.getFunctionType())) + ", \"loops\": [";
    const char *Separator = "";
    for (Loop *L : Loops.getLoopsInPreorder()) {
      DebugLoc Start = L->getStartLoc();
      Text += Separator + ("{\"line\": " + std::to_string(Start ? Start.getLine() : 0)) +
              ", \"depth\": " + std::to_string(L->getLoopDepth()) + ", \"blocks\": " +
              std::to_string(L->getNumBlocks()) + "}";
      Separator = ", ";
    }
    Text += "], \"calls\": [";
    Separator = "";
    for (auto &Entry : Calls) {
      Text += Separator + ("{\"callee\": " + quoted(Entry.first.first)) +
              ", \"depth\": " + std::to_string(Entry.first.second) + ", \"count\": " + std::to_string(Entry.second) + "}";
      Separator = ", ";
    }
    add(Text + "]}");
  }

  void emit(llvm::Module &M) const {
    std::string Code = ".pushsection .buran.static,\"\",@progbits\n";
    for (const std::string &Line : JsonLines) {
      Code += ".ascii \"";
      for (unsigned char C : Line) {
        if (C == '"' || C == '\\') {
          Code += '\\';
          Code += static_cast<char>(C);
        } else if (C < 0x20 || C > 0x7e) {
          char Escape[8];
          std::snprintf(Escape, sizeof Escape, "\\%03o", C);
          Code += Escape;
        } else {
          Code += static_cast<char>(C);
        }
      }
      Code += "\\n\"\n";
    }
    M.appendModuleInlineAsm(Code + ".popsection");
  }

private:
  void add(std::string Line) { JsonLines.push_back(std::move(Line)); }

  static std::string list(llvm::ArrayRef<int> Values) {
    std::string Out;
    for (int Value : Values)
      Out += (Out.empty() ? "" : ", ") + std::to_string(Value);
    return "[" + Out + "]";
  }

  static std::string truth(bool Value) { return Value ? "true" : "false"; }

  using CallCounts = std::vector<std::pair<std::pair<std::string, unsigned>, unsigned>>;

  static void count(std::map<std::pair<std::string, unsigned>, unsigned> &Number, CallCounts &Calls,
                    const std::pair<std::string, unsigned> &Site) {
    auto Known = Number.insert({Site, static_cast<unsigned>(Calls.size())});
    if (Known.second)
      Calls.push_back({Site, 0});
    Calls[Known.first->second].second++;
  }

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

  std::vector<std::string> JsonLines;
};

} // namespace buran

#endif
