// Static features of functions, for gcc_plugin.cc: see llvm_static.h for what they are, how they travel, and the format.
//
// Included where gcc's headers and the plugin's facts about functions are known.
#ifndef BURAN_GCC_STATIC_H
#define BURAN_GCC_STATIC_H

class StaticFeatures {
public:
  void beginUnit(const std::string &Source) {
    std::vector<std::string> Taken;
    cgraph_node *Node;
    FOR_EACH_FUNCTION(Node)
      if (!Node->alias && (Node->address_taken || DECL_VIRTUAL_P(Node->decl)))
        Taken.push_back(symbolOf(Node->decl));
    Found.addUnit(Source, std::move(Taken));
  }

  void addFunction(tree Decl, bool Hooked) {
    function *Body = DECL_STRUCT_FUNCTION(Decl);
    FunctionFeatures Of;
    std::set<std::pair<std::string, int>> Lines;
    basic_block Block;
    FOR_EACH_BB_FN(Block, Body) {
      Of.Blocks++;
      for (gimple_stmt_iterator At = gsi_start_bb(Block); !gsi_end_p(At); gsi_next(&At)) {
        const gimple *Statement = gsi_stmt(At);
        if (!isInstruction(Statement))
          continue;
        Of.Instructions++;
        Of.Branches += gimple_code(Statement) == GIMPLE_COND || gimple_code(Statement) == GIMPLE_SWITCH;
        expanded_location Where = expand_location(gimple_location(Statement));
        if (Where.file && Where.line)
          Lines.insert({Where.file, Where.line});
        std::string Callee = calleeOf(Statement);
        if (!Callee.empty())
          Of.call({Callee, bb_loop_depth(Block)});
      }
    }
    Of.Name = displayName(Decl);
    Of.Mangled = symbolOf(Decl);
    Of.File = sourceFile(Decl);
    Of.Line = DECL_SOURCE_LOCATION(Decl) != UNKNOWN_LOCATION ? DECL_SOURCE_LINE(Decl) : 0;
    Of.Linkage = linkage(Decl);
    Of.Inline = isDeclaredInline(Decl);
    Of.Hooked = Hooked;
    Of.Statements = Lines.size();
    Of.Type = signature(TREE_TYPE(Decl));
    if (loops_for_fn(Body))
      collect(loops_for_fn(Body)->tree_root->inner, Of.Loops);
    std::stable_sort(Of.Loops.begin(), Of.Loops.end(), [](auto &A, auto &B) { return A.Line < B.Line; });
    Found.add(Of);
  }

  void emit() const {
    std::string Code = Found.code();
    symtab->finalize_toplevel_asm(build_string(Code.size() + 1, Code.c_str()));
  }

private:
  static bool isInstruction(const gimple *Statement) {
    switch (gimple_code(Statement)) {
    case GIMPLE_LABEL:
    case GIMPLE_NOP:
    case GIMPLE_PREDICT:
    case GIMPLE_DEBUG:
      return false;
    default:
      return !gimple_clobber_p(Statement);
    }
  }

  // Result and parameters, as far as they decide how a function is called: one pointer is like another.
  static std::string signature(tree Type) {
    std::string Text = kind(TREE_TYPE(Type)) + "(";
    tree Parameter = TYPE_ARG_TYPES(Type);
    for (; Parameter && TREE_VALUE(Parameter) != void_type_node; Parameter = TREE_CHAIN(Parameter))
      Text += (Text.back() == '(' ? "" : ",") + kind(TREE_VALUE(Parameter));
    return Text + (Parameter ? ")" : "...)");
  }

  static std::string kind(tree Type) {
    if (VOID_TYPE_P(Type))
      return "void";
    if (POINTER_TYPE_P(Type))
      return "p";
    if (INTEGRAL_TYPE_P(Type))
      return "i" + std::to_string(TYPE_PRECISION(Type));
    if (SCALAR_FLOAT_TYPE_P(Type))
      return "f" + std::to_string(TYPE_PRECISION(Type));
    return "s";
  }

  // The symbol; "*" and the type where only the run can tell; or empty for what is no call in the machine's code.
  static std::string calleeOf(const gimple *Statement) {
    if (!is_gimple_call(Statement) || gimple_call_internal_p(Statement))
      return "";
    tree Callee = gimple_call_fndecl(Statement);
    if (!Callee)
      return "*" + signature(gimple_call_fntype(Statement));
    cgraph_node *Node = cgraph_node::get(Callee);
    if (Node && Node->alias && Node->analyzed) // a constructor may be another name of one that is alike
      Callee = Node->ultimate_alias_target()->decl;
    std::string Symbol = symbolOf(Callee);
    return startsWith(Symbol, "__builtin_") ? "" : Symbol;
  }

  static void collect(class loop *Loop, std::vector<FunctionFeatures::Loop> &Into) {
    for (; Loop; Loop = Loop->next) {
      int Line = 0;
      for (gimple_stmt_iterator At = gsi_start_bb(Loop->header); !gsi_end_p(At) && !Line; gsi_next(&At))
        Line = expand_location(gimple_location(gsi_stmt(At))).line;
      Into.push_back({unsigned(Line), loop_depth(Loop), Loop->num_nodes});
      collect(Loop->inner, Into);
    }
  }

  static std::string linkage(tree Decl) {
    if (!TREE_PUBLIC(Decl))
      return "internal";
    return isShared(Decl) ? "shared" : "external";
  }

  StaticLines Found;
};

#endif
