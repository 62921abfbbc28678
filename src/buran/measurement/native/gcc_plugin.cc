// Compiler plugin for gcc: hooks in selected functions, and counts of executed basic blocks; C, C++ and Fortran. A feature's
// headers tell what these blocks ask of the machine (gcc_requirements.h), and add passes (gcc_sampling.h).
//
// Two passes, like those of llvm_plugin.cpp, which has the reasons:
//   hooks    before anything is inlined, when functions have a control flow graph but are not in SSA form. A hooked
//            function gets a clean-up region around all of its code, so that it is left in the shadow stack also where
//            an exception passes through it;
//   counting where gcc itself would instrument for coverage (`sancov`): after inlining and scalar optimisation, before
//            the loop passes. Each count is a local variable in SSA form; it is added to the thread's counter before
//            calls after which control may not come back here or the call path may change, and before returns.
//
// For gcc 10 and later; must be built with the headers of the very gcc that loads it. Settings come from the
// environment, set by the compiler wrapper:
//   BURAN_PLUGIN_MODE     time | effort | memory
//   BURAN_PLUGIN_COUNTER  register (default) | memory: adds to the thread's counter in every block
//                         | none: somebody else counts, as -fsanitize-coverage=trace-pc does. The last two are for tests
//   BURAN_FILTER          filter file

// gcc's headers forbid malloc and others from there on.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "plugin.h"
#include "runtime.h"
#include "static_lines.h"

#include "gcc-plugin.h"
#include "plugin-version.h"

#include "tree.h"

#include "stringpool.h"

#include "attribs.h"
#include "basic-block.h"
#include "builtins.h"
#include "cfghooks.h"
#include "cfgloop.h"
#include "cgraph.h"
#include "context.h"
#include "cp/cp-tree.h"
#include "diagnostic.h"
#include "except.h"
#include "file-prefix-map.h"
#include "fold-const.h"
#include "function.h"
#include "gimple.h"

#include "gimple-expr.h"
#include "gimple-iterator.h"
#include "gimple-ssa.h"
#include "gimple-walk.h"
#include "gimplify.h"
#include "gimplify-me.h"
#include "langhooks.h"
#include "stor-layout.h"
#include "toplev.h"
#include "tree-cfg.h"
#include "tree-eh.h"
#include "tree-into-ssa.h"
#include "tree-pass.h"
#include "tree-dfa.h"
#include "tree-phinodes.h"
#include "tree-ssa-address.h"
#include "varasm.h"

#include "ssa-iterators.h"

int plugin_is_GPL_compatible;

namespace {

void refuseFilter(const std::string &Path, int Line, const char *Problem) {
  fatal_error(UNKNOWN_LOCATION, "%s:%d: %s (%<BURAN_FILTER%>)", Path.c_str(), Line, Problem);
}

// ---- names and places of functions

bool startsWith(const std::string &Text, const char *Prefix) { return Text.compare(0, strlen(Prefix), Prefix) == 0; }

bool languageIs(const char *Prefix) { return startsWith(lang_hooks.name, Prefix); }

std::string symbolOf(tree Decl) {
  const char *Name = IDENTIFIER_POINTER(DECL_ASSEMBLER_NAME(Decl));
  return *Name == '*' ? Name + 1 : Name; // '*': as it is, without the target's prefix
}

// `__mod_MOD_name` and `__mod_sub_SMOD_name` are mod::name, `name_` is name, a contained procedure is outer::name.
std::string fortranName(tree Decl) {
  std::string Symbol = symbolOf(Decl), Name = DECL_NAME(Decl) ? IDENTIFIER_POINTER(DECL_NAME(Decl)) : Symbol;
  if (Symbol == "MAIN__" || Symbol == "main")
    return Symbol;
  tree Outer = DECL_CONTEXT(Decl);
  if (Outer && TREE_CODE(Outer) == FUNCTION_DECL)
    return fortranName(Outer) + "::" + Name;
  if (!startsWith(Symbol, "__"))
    return Name;
  for (const char *Separator : {"_SMOD_", "_MOD_"}) {
    size_t At = Symbol.find(Separator, 2);
    if (At != std::string::npos)
      return Symbol.substr(2, At - 2) + "::" + Symbol.substr(At + strlen(Separator));
  }
  return Name;
}

std::string displayName(tree Decl) {
  if (languageIs("GNU F"))
    return fortranName(Decl);
  std::string Symbol = symbolOf(Decl);
  int Status = 0;
  char *Demangled = startsWith(Symbol, "_Z") ? abi::__cxa_demangle(Symbol.c_str(), nullptr, nullptr, &Status) : nullptr;
  if (!Demangled)
    return Symbol;
  std::string Name = Demangled;
  (free)(Demangled);
  return Name;
}

std::string withoutDots(const std::string &Path) {
  std::vector<std::string> Parts;
  for (size_t Start = 1; Start <= Path.size();) {
    size_t End = std::min(Path.find('/', Start), Path.size());
    std::string Part = Path.substr(Start, End - Start);
    Start = End + 1;
    if (Part == ".." && !Parts.empty())
      Parts.pop_back();
    else if (!Part.empty() && Part != "." && Part != "..")
      Parts.push_back(Part);
  }
  std::string Result;
  for (const std::string &Part : Parts)
    Result += "/" + Part;
  return Result;
}

std::string absolutePath(std::string Path) {
  if (Path[0] != '/')
    Path = std::string(get_src_pwd()) + "/" + Path;
  return remap_debug_filename(withoutDots(Path).c_str());
}

std::string sourceFile(tree Decl) {
  if (DECL_SOURCE_LOCATION(Decl) == UNKNOWN_LOCATION || DECL_SOURCE_LOCATION(Decl) == BUILTINS_LOCATION)
    return "";
  std::string Path = DECL_SOURCE_FILE(Decl);
  return Path.empty() || Path[0] == '<' ? "" : absolutePath(Path);
}

// ---- facts about functions and statements

bool isHook(const gimple *Statement, const char *Name) {
  tree Callee = is_gimple_call(Statement) ? gimple_call_fndecl(Statement) : NULL_TREE;
  return Callee && DECL_NAME(Callee) && !strcmp(IDENTIFIER_POINTER(DECL_NAME(Callee)), Name);
}

bool isIfuncResolver(cgraph_node *Node) {
  if (DECL_NAME(Node->decl)) { // those of target_clones
    std::string Symbol = symbolOf(Node->decl);
    size_t At = Symbol.rfind(".resolver");
    if (At != std::string::npos && At + strlen(".resolver") == Symbol.size())
      return true;
  }
  ipa_ref *Reference;
  for (unsigned I = 0; Node->iterate_direct_aliases(I, Reference); I++)
    if (cgraph_node *Alias = dyn_cast<cgraph_node *>(Reference->referring))
      if (Alias->ifunc_resolver)
        return true; // runs before thread-local storage exists
  return false;
}

bool canCarryCode(cgraph_node *Node) {
  tree Decl = Node->decl;
  function *Body = DECL_STRUCT_FUNCTION(Decl);
  return !Node->alias && Body && Body->cfg && Body->gimple_body == NULL && !startsWith(symbolOf(Decl), "buran_") &&
         !lookup_attribute("naked", DECL_ATTRIBUTES(Decl)) && !isIfuncResolver(Node);
}

bool isFromSystem(tree Decl) {
  std::string Symbol = symbolOf(Decl);
  for (const char *Prefix : {"_ZNSt", "_ZNKSt", "_ZSt", "_ZN9__gnu_cxx", "_ZNK9__gnu_cxx", "_ZN3MPI", "_ZNK3MPI"})
    if (startsWith(Symbol, Prefix))
      return true;
  std::string Path = sourceFile(Decl);
  for (const char *Prefix : {"/usr/include/", "/usr/lib/", "/usr/local/include/"})
    if (startsWith(Path, Prefix))
      return true;
  return Path.find("/include/c++/") != std::string::npos || Path.find("/include/openmpi/") != std::string::npos;
}

// Compiler-made functions that are no part of the source.
bool isArtificial(tree Decl) {
  std::string Symbol = symbolOf(Decl);
  for (const char *Prefix : {"_GLOBAL__", "_Z41__static_initialization_and_destruction_0", "_ZTW", "_ZTH", "__tcf_"})
    if (startsWith(Symbol, Prefix))
      return true;
  // Bodies of parallel regions and tasks belong to the function they stand in.
  if (Symbol.find("._omp_") != std::string::npos)
    return true;
  if (!languageIs("GNU F"))
    return false;
  // `main` only calls the program, MAIN__; modules contain copy and finalisation procedures of derived types.
  return Symbol == "main" || DECL_ARTIFICIAL(Decl) || Symbol.find("_MOD___") != std::string::npos;
}

// With the keyword: functions are not left out because they are defined inside of their class.
bool isDeclaredInline(tree Decl) {
  if (lookup_attribute("always_inline", DECL_ATTRIBUTES(Decl)))
    return true;
  if (!DECL_DECLARED_INLINE_P(Decl))
    return false;
  return !(languageIs("GNU C++") && DECL_LANG_SPECIFIC(Decl) && DECL_INITIALIZED_IN_CLASS_P(Decl));
}

// A builtin that does not call back into the program, does not throw, and comes back. `leaf` says the first two.
bool isSimpleBuiltin(const gcall *Call) {
  tree Callee = gimple_call_fndecl(Call);
  if (gimple_call_internal_p(Call))
    return true;
  if (!Callee || !fndecl_built_in_p(Callee))
    return false;
  if (fndecl_built_in_p(Callee, BUILT_IN_UNREACHABLE))
    return true;
  int Flags = gimple_call_flags(Call);
  return (Flags & ECF_LEAF) && (Flags & ECF_NOTHROW) && !(Flags & (ECF_NORETURN | ECF_RETURNS_TWICE));
}

// Several translation units may bring it along, and the linker keeps one.
bool isShared(tree Decl) { return DECL_ONE_ONLY(Decl) || DECL_COMDAT(Decl) || DECL_WEAK(Decl); }

#if __has_include("gcc_requirements.h")
#include "gcc_requirements.h"
#else
using Amounts = std::array<uint64_t, BURAN_REQUIREMENTS>;
struct Requirements {
  static void add(gimple *, Amounts &) {}
  static tree copied(const gimple *) { return NULL_TREE; }
  static std::set<unsigned> grownBy(const gimple *) { return {}; }
};
#endif
#include "gcc_static.h"

// Decides which functions are hooked. Looks at the code of callees, so all decisions come before the first hook.
class Selection {
public:
  bool isSelected(cgraph_node *Node) {
    tree Decl = Node->decl;
    if (isArtificial(Decl))
      return false;
    switch (buran_filter_decide(&Settings::get().Filter, symbolOf(Decl).c_str(), displayName(Decl).c_str(),
                                sourceFile(Decl).c_str())) {
    case BURAN_INCLUDE:
      return true;
    case BURAN_EXCLUDE:
      return false;
    case BURAN_NO_RULE:
      break;
    }
    std::string Symbol = symbolOf(Decl);
    if (Symbol == "main" || Symbol == "MAIN__")
      return true;
    return !isDeclaredInline(Decl) && !isFromSystem(Decl) && !isTiny(Decl);
  }

private:
  bool isTiny(tree Decl) {
    auto Known = Tiny.find(DECL_UID(Decl));
    if (Known != Tiny.end())
      return Known->second;
    Tiny[DECL_UID(Decl)] = false; // also the answer for recursion
    bool Answer = looksTiny(Decl);
    return Tiny[DECL_UID(Decl)] = Answer;
  }

  bool looksTiny(tree Decl) {
    function *Body = DECL_STRUCT_FUNCTION(Decl);
    if (!Body || !Body->cfg || !loops_for_fn(Body) || number_of_loops(Body) > 1)
      return false;
    unsigned Blocks = 0;
    basic_block Block;
    FOR_EACH_BB_FN(Block, Body) {
      gimple *Last = last_stmt(Block);
      if (EDGE_COUNT(Block->succs) == 0 && Last && is_gimple_call(Last))
        continue; // a failed assertion or a throw: not what its visits usually cost
      if (++Blocks > TinyBlocks)
        return false;
      for (gimple_stmt_iterator At = gsi_start_bb(Block); !gsi_end_p(At); gsi_next(&At)) {
        gcall *Call = dyn_cast<gcall *>(gsi_stmt(At));
        if (!Call || isSimpleBuiltin(Call))
          continue;
        tree Callee = gimple_call_fndecl(Call);
        if (!Callee || !isTiny(Callee))
          return false;
      }
    }
    return true;
  }

  std::unordered_map<unsigned, bool> Tiny;
};

// ---- what is shared by the passes; trees that outlive a pass are known to the garbage collector

tree ThreadBlocks, ThreadRequirements;

const ggc_root_tab Roots[] = {
    {&ThreadBlocks, 1, sizeof ThreadBlocks, &gt_ggc_mx_tree_node, &gt_pch_nx_tree_node},
    {&ThreadRequirements, 1, sizeof ThreadRequirements, &gt_ggc_mx_tree_node, &gt_pch_nx_tree_node},
    LAST_GGC_ROOT_TAB};

// Region of a hook -> the function it was made for, both by DECL_UID; clones of a function share its origin.
std::unordered_map<unsigned, unsigned> OwnerOfRegion;

// Volatile, because gcc has decided long before which functions touch no memory.
tree threadVariable(tree &Variable, const char *Name, tree Type) {
  if (Variable)
    return Variable;
  tree Var = build_decl(UNKNOWN_LOCATION, VAR_DECL, get_identifier(Name), Type);
  TREE_THIS_VOLATILE(Var) = TREE_SIDE_EFFECTS(Var) = 1;
  TREE_PUBLIC(Var) = DECL_EXTERNAL(Var) = TREE_USED(Var) = DECL_ARTIFICIAL(Var) = TREE_ADDRESSABLE(Var) = 1;
  set_decl_tls_model(Var, TLS_MODEL_INITIAL_EXEC);
  varpool_node::get_create(Var);
  return Variable = Var;
}

// The thread's counters: blocks, then what they ask for in the order of runtime.h.
constexpr unsigned CounterCount = 1 + BURAN_REQUIREMENTS;

tree threadCounter(unsigned Which) {
  tree Number = build_qualified_type(uint64_type_node, TYPE_QUAL_VOLATILE);
  if (Which == 0)
    return threadVariable(ThreadBlocks, "buran_blocks", Number);
  tree All = threadVariable(ThreadRequirements, "buran_requirements", build_array_type_nelts(Number, BURAN_REQUIREMENTS));
  tree Place = build4(ARRAY_REF, Number, All, build_int_cst(sizetype, Which - 1), NULL_TREE, NULL_TREE);
  TREE_THIS_VOLATILE(Place) = TREE_SIDE_EFFECTS(Place) = 1;
  return Place;
}

// gcc has analysed its variables when the first pass begins.
void define(tree Var) {
  varpool_node::finalize_decl(Var);
  varpool_node *Node = varpool_node::get(Var);
  if (!Node->analyzed)
    Node->analyze();
}

// Of the runtime. Leaf: it calls nothing of the program, and never jumps back into it.
tree hook(const char *Name, tree Type) {
  tree Decl = build_fn_decl(Name, Type);
  TREE_NOTHROW(Decl) = DECL_ARTIFICIAL(Decl) = 1;
  DECL_ATTRIBUTES(Decl) = tree_cons(get_identifier("leaf"), NULL_TREE, DECL_ATTRIBUTES(Decl));
  return Decl;
}

constexpr int EveryPlace = 0; // where the reference pass stands several times in the list

void insertPass(const char *Plugin, opt_pass *Pass, const char *Before, int Place) {
  register_pass_info Info = {Pass, Before, Place, PASS_POS_INSERT_BEFORE};
  register_callback(Plugin, PLUGIN_PASS_MANAGER_SETUP, nullptr, &Info);
}

} // namespace

#if __has_include("gcc_sampling.h")
#include "gcc_sampling.h"
#endif

namespace {

// ---- hooks

class Hooks {
public:
  Hooks() {
    Enter = hook("buran_enter", build_function_type_list(uint32_type_node, ptr_type_node, NULL_TREE));
    Exit = hook("buran_exit", build_function_type_list(void_type_node, uint32_type_node, NULL_TREE));
    Unwind = hook("buran_unwind", build_function_type_list(void_type_node, uint32_type_node, NULL_TREE));
    makeRegionType();
  }

  // For the function that cfun is.
  void add() {
    tree Decl = current_function_decl;
    // Hooked functions do something, whatever their attributes say: gcc must not drop or merge calls of them.
    TREE_READONLY(Decl) = DECL_PURE_P(Decl) = DECL_LOOPING_CONST_OR_PURE_P(Decl) = 0;
    Token = create_tmp_var(uint32_type_node, "buran_token");

    // Collected before anything is inserted.
    std::vector<gimple *> Returns, Throwing;
    std::vector<basic_block> LandingPads;
    std::vector<edge> AfterSetjmp;
    basic_block Block;
    FOR_EACH_BB_FN(Block, cfun) {
      for (gimple_stmt_iterator At = gsi_start_bb(Block); !gsi_end_p(At); gsi_next(&At)) {
        gimple *Statement = gsi_stmt(At);
        if (glabel *Label = dyn_cast<glabel *>(Statement)) {
          if (EH_LANDING_PAD_NR(gimple_label_label(Label)) && (LandingPads.empty() || LandingPads.back() != Block))
            LandingPads.push_back(Block);
          continue;
        }
        if (gimple_code(Statement) == GIMPLE_RETURN)
          Returns.push_back(mustTailCallBefore(At));
        if (flag_exceptions && stmt_could_throw_p(cfun, Statement) && lookup_stmt_eh_lp(Statement) == 0)
          Throwing.push_back(Statement);
        if (is_gimple_call(Statement) && (gimple_call_flags(Statement) & ECF_RETURNS_TWICE))
          if (edge After = find_fallthru_edge(Block->succs))
            AfterSetjmp.push_back(After);
      }
    }

    for (edge After : AfterSetjmp)
      gsi_insert_on_edge_immediate(After, call(Unwind, Token));
    for (basic_block Pad : LandingPads) {
      gimple_stmt_iterator At = gsi_after_labels(Pad);
      gsi_insert_before(&At, call(Unwind, Token), GSI_SAME_STMT);
    }
    for (gimple *Return : Returns) {
      gimple_stmt_iterator At = gsi_for_stmt(Return);
      gsi_insert_before(&At, call(Exit, Token), GSI_SAME_STMT);
    }
    if (!Throwing.empty())
      leaveWhenThrown(Throwing);

    gcall *Entry = call(Enter, build_fold_addr_expr(region(Decl)));
    gimple_call_set_lhs(Entry, Token);
    gsi_insert_on_edge_immediate(single_succ_edge(ENTRY_BLOCK_PTR_FOR_FN(cfun)), Entry);
    cgraph_edge::rebuild_edges();
  }

private:
  static gcall *call(tree Callee, tree Argument) {
    gcall *Call = gimple_build_call(Callee, 1, Argument);
    gimple_set_location(Call, DECL_SOURCE_LOCATION(current_function_decl));
    gimple_set_block(Call, DECL_INITIAL(current_function_decl));
    return Call;
  }

  // The return, or the call before it that must stay the last thing the function does.
  static gimple *mustTailCallBefore(gimple_stmt_iterator At) {
    gimple *Return = gsi_stmt(At);
#if GCCPLUGIN_VERSION >= 15000
    gsi_prev_nondebug(&At);
    if (!gsi_end_p(At) && is_gimple_call(gsi_stmt(At)) && gimple_call_must_tail_p(as_a<gcall *>(gsi_stmt(At))))
      return gsi_stmt(At);
#endif
    return Return;
  }

  // A clean-up region around everything: what would leave the function by a throw passes through a block that calls
  // the exit hook.
  void leaveWhenThrown(const std::vector<gimple *> &Throwing) {
    eh_region Outermost = cfun->eh->region_tree;
    eh_region Cleanup = gen_eh_region_cleanup(NULL);
    for (eh_region Region = Outermost; Region; Region = Region->next_peer)
      Region->outer = Cleanup;
    Cleanup->inner = Outermost;
    Cleanup->next_peer = NULL;
    if (!DECL_FUNCTION_PERSONALITY(current_function_decl))
      DECL_FUNCTION_PERSONALITY(current_function_decl) = lang_hooks.eh_personality();

    eh_landing_pad Pad = gen_eh_landing_pad(Cleanup);
    Pad->post_landing_pad = create_artificial_label(UNKNOWN_LOCATION);
    EH_LANDING_PAD_NR(Pad->post_landing_pad) = Pad->index;
    basic_block Block = create_empty_bb(EXIT_BLOCK_PTR_FOR_FN(cfun)->prev_bb);
    if (current_loops)
      add_bb_to_loop(Block, current_loops->tree_root);
    gimple_stmt_iterator At = gsi_start_bb(Block);
    gsi_insert_after(&At, gimple_build_label(Pad->post_landing_pad), GSI_NEW_STMT);
    gsi_insert_after(&At, call(Exit, Token), GSI_NEW_STMT);
    gsi_insert_after(&At, gimple_build_resx(Cleanup->index), GSI_NEW_STMT);

    for (gimple *Statement : Throwing) {
      add_stmt_to_eh_lp(Statement, Pad->index);
      basic_block Home = gimple_bb(Statement);
      if (gsi_stmt(gsi_last_bb(Home)) != Statement)
        split_block(Home, Statement);
      make_eh_edges(Statement);
    }
    free_dominance_info(CDI_DOMINATORS);
    free_dominance_info(CDI_POST_DOMINATORS);
    if (current_loops)
      loops_state_set(LOOPS_NEED_FIXUP);
  }

  // The layout of buran_region.
  void makeRegionType() {
    tree Text = build_pointer_type(build_qualified_type(char_type_node, TYPE_QUAL_CONST));
    tree Types[] = {Text, Text, Text, uint32_type_node, uint32_type_node, uint32_type_node, int32_type()};
    tree Chain = NULL_TREE;
    RegionType = make_node(RECORD_TYPE);
    for (tree Type : Types) {
      tree Field = build_decl(BUILTINS_LOCATION, FIELD_DECL, NULL_TREE, Type);
      DECL_CHAIN(Field) = Chain;
      Chain = Field;
    }
    finish_builtin_struct(RegionType, "buran_region", Chain, NULL_TREE);
  }

  static tree int32_type() { return build_nonstandard_integer_type(32, 0); }

  // Functions that several translation units emit share one region, or they would appear once for each.
  tree region(tree Decl) {
    std::string Symbol = symbolOf(Decl);
    uint32_t Line = DECL_SOURCE_LOCATION(Decl) == UNKNOWN_LOCATION ? 0 : DECL_SOURCE_LINE(Decl);
    tree Var = build_decl(BUILTINS_LOCATION, VAR_DECL, get_identifier((RegionPrefix + Symbol).c_str()), RegionType);
    TREE_STATIC(Var) = DECL_ARTIFICIAL(Var) = DECL_IGNORED_P(Var) = TREE_USED(Var) = TREE_ADDRESSABLE(Var) = 1;
    SET_DECL_ASSEMBLER_NAME(Var, DECL_NAME(Var));

    vec<constructor_elt, va_gc> *Fields = NULL;
    tree Field = TYPE_FIELDS(RegionType);
    auto Add = [&](tree Value) {
      CONSTRUCTOR_APPEND_ELT(Fields, Field, fold_convert(TREE_TYPE(Field), Value));
      Field = DECL_CHAIN(Field);
    };
    for (const std::string &Text : {displayName(Decl), Symbol, sourceFile(Decl)})
      Add(build_string_literal(Text.size() + 1, Text.c_str()));
    for (uint32_t Number : {Line, uint32_t(BURAN_KIND_FUNCTION), 0u, uint32_t(BURAN_STATE_UNSEEN)})
      Add(build_int_cst(uint32_type_node, Number));
    DECL_INITIAL(Var) = build_constructor(RegionType, Fields);
    TREE_STATIC(DECL_INITIAL(Var)) = TREE_CONSTANT(DECL_INITIAL(Var)) = 1;

    if (isShared(Decl) || DECL_EXTERNAL(Decl)) {
      TREE_PUBLIC(Var) = 1;
      DECL_VISIBILITY(Var) = VISIBILITY_HIDDEN;
      DECL_VISIBILITY_SPECIFIED(Var) = 1;
      make_decl_one_only(Var, DECL_ASSEMBLER_NAME(Var));
    }
    define(Var);
    OwnerOfRegion[DECL_UID(Var)] = DECL_UID(DECL_ORIGIN(Decl));
    return Var;
  }

  tree Enter, Exit, Unwind, RegionType, Token;
};

// Objects of different modes must not be linked into one binary (build_info.c defines one of the two symbols).
void addModeReference() {
  std::string Name = "buran_objects_are_for_" + Settings::get().Mode;
  tree Mark = build_decl(UNKNOWN_LOCATION, VAR_DECL, get_identifier(Name.c_str()), char_type_node);
  TREE_PUBLIC(Mark) = DECL_EXTERNAL(Mark) = TREE_USED(Mark) = DECL_ARTIFICIAL(Mark) = TREE_ADDRESSABLE(Mark) = 1;
  tree Reference = build_decl(UNKNOWN_LOCATION, VAR_DECL, get_identifier("buran.mode"), ptr_type_node);
  TREE_STATIC(Reference) = TREE_USED(Reference) = DECL_ARTIFICIAL(Reference) = DECL_PRESERVE_P(Reference) = 1;
  DECL_IGNORED_P(Reference) = 1;
  DECL_INITIAL(Reference) = fold_convert(ptr_type_node, build_fold_addr_expr(Mark));
  set_decl_section_name(Reference, ".data.rel.ro.buran");
  define(Reference);
}

// By which the runtime knows that details are counted.
void addMarkOfDetails() {
  tree Mark = build_decl(UNKNOWN_LOCATION, VAR_DECL, get_identifier("buran_counts_details"), char_type_node);
  TREE_PUBLIC(Mark) = TREE_STATIC(Mark) = TREE_USED(Mark) = DECL_ARTIFICIAL(Mark) = DECL_PRESERVE_P(Mark) = 1;
  TREE_READONLY(Mark) = DECL_IGNORED_P(Mark) = 1;
  DECL_INITIAL(Mark) = build_int_cst(char_type_node, 1);
  DECL_WEAK(Mark) = 1;
  define(Mark);
}

void describe(const std::vector<cgraph_node *> &Present, const std::set<cgraph_node *> &Hooked) {
  StaticFeatures Features;
  Features.beginUnit(absolutePath(main_input_filename));
  for (cgraph_node *Node : Present)
    if (!DECL_EXTERNAL(Node->decl)) // described where it is defined
      Features.addFunction(Node->decl, Hooked.count(Node));
  Features.emit();
}

const pass_data HookPassData = {SIMPLE_IPA_PASS, "buran_hooks", OPTGROUP_NONE, TV_NONE, PROP_cfg, 0, 0, 0, 0};

struct HookPass : simple_ipa_opt_pass {
  explicit HookPass(gcc::context *Context) : simple_ipa_opt_pass(HookPassData, Context) {}

  unsigned int execute(function *) final override {
    if (seen_error())
      return 0;
    addModeReference();
    if (Settings::get().Effort && Settings::get().Requirements == BURAN_REQUIREMENTS)
      addMarkOfDetails();
    Selection Select;
    std::vector<cgraph_node *> Present, Selected;
    cgraph_node *Node;
    FOR_EACH_DEFINED_FUNCTION(Node)
      if (canCarryCode(Node))
        Present.push_back(Node);
    for (cgraph_node *Candidate : Present)
      if (Select.isSelected(Candidate))
        Selected.push_back(Candidate);
    describe(Present, {Selected.begin(), Selected.end()});
    Hooks Hook;
    for (cgraph_node *Chosen : Selected) {
      push_cfun(DECL_STRUCT_FUNCTION(Chosen->decl));
      Hook.add();
      pop_cfun();
    }
    return 0;
  }
};

// ---- counting

class Counting {
public:
  // For the function that cfun is.
  void add() {
    std::vector<Stretch> Stretches;
    bool Boundaries = false;
    basic_block BB;
    FOR_EACH_BB_FN(BB, cfun)
      Boundaries |= split(BB, Stretches);
    Locals = {};
    for (const Stretch &This : Stretches)
      for (unsigned Which = 0; Which < CounterCount; Which++)
        if (!isInMemory() && !Locals[Which] && counts(This, Which))
          Locals[Which] = create_tmp_var(uint64_type_node, "buran_count");
    for (const Stretch &This : Stretches) {
      if (This.Flush)
        flush(This);
      for (gimple *Copy : This.Copies)
        countCopied(Copy);
      gimple_stmt_iterator At = This.After ? gsi_for_stmt(This.After) : gsi_after_labels(This.BB);
      if (This.After)
        gsi_next(&At);
      for (unsigned Which = 0; Which < CounterCount; Which++)
        if (This.Counts[Which])
          count(At, Which, build_int_cst(uint64_type_node, This.Counts[Which]));
    }
    for (tree Local : Locals)
      if (Local) {
        gimple *Start = gimple_build_assign(Local, build_int_cst(uint64_type_node, 0));
        gsi_insert_on_edge_immediate(single_succ_edge(ENTRY_BLOCK_PTR_FOR_FN(cfun)), Start);
      }
    if (!Boundaries)
      ComesBack.insert(DECL_UID(current_function_decl));
    mark_virtual_operands_for_renaming(cfun);
  }

private:
  // A block, or a part of one between two statements at which the call path may change.
  struct Stretch {
    basic_block BB;
    bool BeginsBlock;
    gimple *After = nullptr; // what it begins behind, if not the labels
    gimple *Flush = nullptr; // before what its counts are added to the thread's
    std::array<uint64_t, CounterCount> Counts = {};
    std::vector<gimple *> Copies = {}; // of so many bytes as only the run can tell
  };

  // Returns whether the block has calls from which control may not come back, or in which the call path changes.
  bool split(basic_block BB, std::vector<Stretch> &Stretches) {
    bool IsEntry = single_succ(ENTRY_BLOCK_PTR_FOR_FN(cfun)) == BB, Calls = false;
    Stretch This = {BB, true};
    This.Counts[0] = isCounted(BB);
    Amounts Sum = {};
    auto End = [&](gimple *Flush) {
      std::copy_n(Sum.begin(), Settings::get().Requirements, This.Counts.begin() + 1);
      This.Flush = Flush;
      Stretches.push_back(This);
      This = {BB, false, Flush};
      Sum = {};
    };
    for (gimple_stmt_iterator At = gsi_start_bb(BB); !gsi_end_p(At); gsi_next(&At)) {
      gimple *Statement = gsi_stmt(At);
      Requirements::add(Statement, Sum);
      if (Requirements::copied(Statement))
        This.Copies.push_back(Statement);
      if (!This.After && (isHook(Statement, "buran_unwind") || (IsEntry && isOwnEnter(Statement)))) {
        This.After = Statement; // a hook that makes this call path the current one
        Calls = true;
      } else if (is_gimple_call(Statement) ? needsFlush(as_a<gcall *>(Statement)) : leaves(Statement)) {
        Calls |= gimple_code(Statement) != GIMPLE_RETURN;
        End(Statement);
      }
    }
    End(nullptr);
    return Calls;
  }

  static bool isInMemory() { return Settings::get().Counter == Settings::Memory; }

  static bool counts(const Stretch &This, unsigned Which) {
    auto Grows = [Which](gimple *Copy) { return Requirements::grownBy(Copy).count(Which - 1) > 0; };
    return This.Counts[Which] || std::any_of(This.Copies.begin(), This.Copies.end(), Grows);
  }

  // Counts of other blocks reach the first flush of a block, so that later ones only have what came since.
  void flush(const Stretch &This) {
    gimple_stmt_iterator At = gsi_for_stmt(This.Flush);
    for (unsigned Which = 0; Which < CounterCount; Which++)
      if (Locals[Which] && (This.BeginsBlock || counts(This, Which))) {
        addToThread(At, Which, Locals[Which]);
        assign(At, Locals[Which], build_int_cst(uint64_type_node, 0));
      }
  }

  void countCopied(gimple *Copy) {
    gimple_stmt_iterator At = gsi_for_stmt(Copy);
    tree Length = create_tmp_var(uint64_type_node);
    place(At, gimple_build_assign(Length, NOP_EXPR, Requirements::copied(Copy)));
    for (unsigned Kind : Requirements::grownBy(Copy))
      count(At, 1 + Kind, Length);
  }

  void count(gimple_stmt_iterator &At, unsigned Which, tree Amount) {
    if (isInMemory())
      addToThread(At, Which, Amount);
    else
      place(At, gimple_build_assign(Locals[Which], PLUS_EXPR, Locals[Which], Amount));
  }

  // A block that only passes control on is not counted: such blocks come and go with details of the compiler. Nor are
  // those that exist only in the compiler's mind.
  static bool isCounted(basic_block BB) {
    gimple_stmt_iterator At = gsi_start_nondebug_after_labels_bb(BB);
    if (gsi_end_p(At))
      return false;
    gimple *First = gsi_stmt(At);
    return !gimple_call_internal_p(First, IFN_ABNORMAL_DISPATCHER) && !gimple_call_builtin_p(First, BUILT_IN_UNREACHABLE);
  }

  // The hook that opens this very function: the entry block belongs to the function, not to its caller.
  static bool isOwnEnter(gimple *Statement) {
    if (!isHook(Statement, "buran_enter"))
      return false;
    tree Region = gimple_call_arg(Statement, 0);
    if (TREE_CODE(Region) != ADDR_EXPR || !DECL_P(TREE_OPERAND(Region, 0)))
      return false;
    auto Owner = OwnerOfRegion.find(DECL_UID(TREE_OPERAND(Region, 0)));
    return Owner != OwnerOfRegion.end() && Owner->second == DECL_UID(DECL_ORIGIN(current_function_decl));
  }

  // May control fail to come back behind this call, or may the call path change in it?
  bool needsFlush(const gcall *Call) {
    if (isSimpleBuiltin(Call) || isHook(Call, "buran_unwind"))
      return false;
    tree Callee = gimple_call_fndecl(Call);
    cgraph_node *Node = Callee ? cgraph_node::get(Callee) : nullptr;
    if (!Node || !decl_binds_to_current_def_p(Callee))
      return true;
    return !ComesBack.count(DECL_UID(Node->ultimate_alias_target()->decl));
  }

  static bool leaves(gimple *Statement) {
    return gimple_code(Statement) == GIMPLE_RETURN || stmt_can_throw_external(cfun, Statement);
  }

  static void place(gimple_stmt_iterator &At, gimple *Statement) {
    gsi_insert_before(&At, Statement, GSI_SAME_STMT);
    update_stmt(Statement);
  }

  static void assign(gimple_stmt_iterator &At, tree To, tree Value) { place(At, gimple_build_assign(To, Value)); }

  static void addToThread(gimple_stmt_iterator &At, unsigned Which, tree Value) {
    tree Before = create_tmp_var(uint64_type_node), After = create_tmp_var(uint64_type_node);
    assign(At, Before, threadCounter(Which));
    place(At, gimple_build_assign(After, PLUS_EXPR, Before, Value));
    assign(At, threadCounter(Which), After);
  }

  std::array<tree, CounterCount> Locals; // of the function, for what is counted in it

  // Functions that call nothing but such functions and simple builtins, by DECL_UID. gcc compiles callees first.
  std::unordered_set<unsigned> ComesBack;
};

const pass_data CountPassData = {
    GIMPLE_PASS, "buran_count", OPTGROUP_NONE, TV_NONE, PROP_ssa | PROP_cfg, 0, 0, 0, TODO_update_ssa};

// Stands at several places in the list of passes, of which each function meets one; all of them share the state.
struct CountPass : gimple_opt_pass {
  explicit CountPass(gcc::context *Context) : gimple_opt_pass(CountPassData, Context) {}

  opt_pass *clone() final override { return new CountPass(m_ctxt); }

  bool gate(function *Body) final override {
    return Settings::get().Effort && Settings::get().Counter != Settings::None && !Counted.count(DECL_UID(Body->decl)) &&
           canCarryCode(cgraph_node::get(Body->decl));
  }

  unsigned int execute(function *Body) final override {
    static Counting Count;
    Counted.insert(DECL_UID(Body->decl));
    Count.add();
    return 0;
  }

  static std::unordered_set<unsigned> Counted;
};
std::unordered_set<unsigned> CountPass::Counted;

} // namespace

int plugin_init(plugin_name_args *Plugin, plugin_gcc_version *Version) {
  const char *Name = Plugin->base_name;
  if (!plugin_default_version_check(Version, &gcc_version)) {
    error("the plugin of buran was built for gcc %s, but this is gcc %s", gcc_version.basever, Version->basever);
    return 1;
  }
  if (in_lto_p)
    return 0; // hooks are in the functions already
  Settings::get();
  register_callback(Name, PLUGIN_REGISTER_GGC_ROOTS, nullptr, const_cast<ggc_root_tab *>(Roots));
  insertPass(Name, new HookPass(g), "visibility", 1);
  insertPass(Name, new CountPass(g), "sancov", EveryPlace);
  insertPass(Name, new CountPass(g), "sancov_O0", EveryPlace); // without optimisation only this place is passed
#ifdef BURAN_GCC_SAMPLING_H
  addSampling(Name);
#endif
  return 0;
}
