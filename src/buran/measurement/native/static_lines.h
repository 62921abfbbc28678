// The lines of static features, for the compiler plugins; llvm_static.h says what they are for and how they travel.
#ifndef BURAN_STATIC_LINES_H
#define BURAN_STATIC_LINES_H

#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugin.h"

namespace {

struct FunctionFeatures {
  struct Loop {
    unsigned Line, Depth, Blocks;
  };
  using Site = std::pair<std::string, unsigned>; // a callee, and the depth of loops it is called at

  std::string Name, Mangled, File, Linkage, Type;
  unsigned Line = 0, Blocks = 0, Instructions = 0, Branches = 0;
  std::optional<size_t> Statements;
  bool Inline = false, Hooked = false;
  std::vector<Loop> Loops;
  std::vector<std::pair<Site, unsigned>> Calls; // with how many there are, in the order of the source

  void call(const Site &At) {
    auto Known = Number.insert({At, Calls.size()});
    if (Known.second)
      Calls.push_back({At, 0});
    Calls[Known.first->second].second++;
  }

private:
  std::map<Site, size_t> Number;
};

class StaticLines {
public:
  // Begins an object file. `Taken` are the symbols whose address something in it takes.
  void addUnit(const std::string &Source, std::vector<std::string> Taken) {
    const buran_filter &Filter = Settings::get().Filter;
    std::vector<std::string> Rules, Matched;
    for (size_t I = 0; I < Filter.count; I++) {
      Rules.push_back(std::to_string(Filter.rules[I].line));
      if (Filter.rules[I].matched)
        Matched.push_back(std::to_string(I));
    }
    for (std::string &Symbol : Taken)
      Symbol = quoted(Symbol);
    char Hash[17] = "";
    if (Filter.count)
      std::snprintf(Hash, sizeof Hash, "%016llx", static_cast<unsigned long long>(Filter.hash));
    Lines.push_back("{\"unit\": " + quoted(Source) + ", \"filter\": " + quoted(Hash) + ", \"rules\": " + list(Rules) +
                    ", \"matched\": " + list(Matched) + ", \"taken\": " + list(Taken) + "}");
  }

  void add(const FunctionFeatures &Of) {
    std::vector<std::string> Loops, Calls;
    for (const FunctionFeatures::Loop &Each : Of.Loops)
      Loops.push_back("{\"line\": " + std::to_string(Each.Line) + ", \"depth\": " + std::to_string(Each.Depth) +
                      ", \"blocks\": " + std::to_string(Each.Blocks) + "}");
    for (const auto &Each : Of.Calls)
      Calls.push_back("{\"callee\": " + quoted(Each.first.first) + ", \"depth\": " + std::to_string(Each.first.second) +
                      ", \"count\": " + std::to_string(Each.second) + "}");
    Lines.push_back("{\"name\": " + quoted(Of.Name) + ", \"mangled\": " + quoted(Of.Mangled) + ", \"file\": " +
                    quoted(Of.File) + ", \"line\": " + std::to_string(Of.Line) + ", \"linkage\": " +
                    quoted(Of.Linkage) + ", \"inline\": " + (Of.Inline ? "true" : "false") + ", \"hooked\": " +
                    (Of.Hooked ? "true" : "false") + ", \"blocks\": " + std::to_string(Of.Blocks) +
                    ", \"instructions\": " + std::to_string(Of.Instructions) + ", \"statements\": " +
                    (Of.Statements ? std::to_string(*Of.Statements) : "null") + ", \"branches\": " +
                    std::to_string(Of.Branches) + ", \"type\": " + quoted(Of.Type) + ", \"loops\": " + list(Loops) +
                    ", \"calls\": " + list(Calls) + "}");
  }

  // For the assembler.
  std::string code() const {
    std::string Code = ".pushsection .buran.static,\"\",@progbits\n";
    for (const std::string &Line : Lines)
      Code += ".ascii \"" + escaped(Line, "\\%03o", 0x7f) + "\\n\"\n";
    return Code + ".popsection";
  }

private:
  // With what is no plain character, below a space or from `Beyond` on, in another form.
  static std::string escaped(const std::string &Text, const char *Format, unsigned Beyond) {
    std::string Out;
    for (unsigned char C : Text) {
      char Other[8];
      std::snprintf(Other, sizeof Other, Format, C);
      if (C == '"' || C == '\\')
        Out += '\\';
      Out += C < 0x20 || C >= Beyond ? Other : std::string(1, static_cast<char>(C));
    }
    return Out;
  }

  static std::string quoted(const std::string &Text) { return '"' + escaped(Text, "\\u%04x", 0x100) + '"'; }

  static std::string list(const std::vector<std::string> &Items) {
    std::string Out;
    for (const std::string &Item : Items)
      Out += (Out.empty() ? "" : ", ") + Item;
    return "[" + Out + "]";
  }

  std::vector<std::string> Lines;
};

} // namespace

#endif
