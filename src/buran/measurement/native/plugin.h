/* What the compiler plugins for clang and gcc have in common: their settings, which come from the environment. */
#ifndef BURAN_PLUGIN_H
#define BURAN_PLUGIN_H

#include <cstdio>
#include <cstdlib>
#include <string>

#include "filter.h"
#include "runtime.h"

namespace {

constexpr const char *RegionPrefix = "__buran_region.";

// Without a rule of the filter, functions without loops and of at most this many blocks, that call nothing but such
// functions, are not hooked: accessors, as in `double &at(int i, int j) { return values[i * n + j]; }`.
constexpr unsigned TinyBlocks = 8;

// Ends the compilation with a message about the filter file; each compiler has its own way.
[[noreturn]] void refuseFilter(const std::string &Path, int Line, const char *Problem);

struct Settings {
  enum { Register, Memory, None } Counter = Register;
  std::string Mode = "time";
  bool Effort = false, Samples = false;
  unsigned Requirements = BURAN_DETAILS; // so many of those in runtime.h are counted
  buran_filter Filter = {};

  static const Settings &get() {
    static const Settings Instance;
    return Instance;
  }

private:
  static std::string environment(const char *Name) {
    const char *Value = std::getenv(Name);
    return Value ? Value : "";
  }

  Settings() {
    if (std::string Asked = environment("BURAN_PLUGIN_MODE"); !Asked.empty())
      Mode = Asked;
    Samples = Mode == "memory";
    Effort = Mode == "effort" || Samples; // so that one run tells both
    if (environment("BURAN_REQUIREMENTS") == "detailed")
      Requirements = BURAN_REQUIREMENTS;
    std::string Which = environment("BURAN_PLUGIN_COUNTER");
    Counter = Which == "memory" ? Memory : Which == "none" ? None : Register;
    std::string Path = environment("BURAN_FILTER");
    if (Path.empty())
      return;
    std::FILE *File = std::fopen(Path.c_str(), "r");
    const char *Problem = File ? buran_filter_read(&Filter, File) : "the filter file cannot be read";
    if (File)
      std::fclose(File);
    if (Problem)
      refuseFilter(Path, Filter.line, Problem);
  }
};

} // namespace

#endif
