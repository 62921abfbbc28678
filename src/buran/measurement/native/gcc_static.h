// Static features of functions, for gcc_plugin.cc: see llvm_static.h for what they are, how they travel, and the format.
//
// Included where gcc's headers and the plugin's facts about functions are known.
#ifndef BURAN_GCC_STATIC_H
#define BURAN_GCC_STATIC_H

class StaticFeatures {
public:
  void beginUnit(const std::string &Source, const std::string &Filter, const std::vector<int> &RuleLines,
                 const std::vector<int> &Matched) {
    std::string Taken;
    cgraph_node *Node;
    FOR_EACH_FUNCTION(Node)
      if (!Node->alias && (Node->address_taken || DECL_VIRTUAL_P(Node->decl)))
        Taken += (Taken.empty() ? "" : ", ") + quoted(symbolOf(Node->decl));
    JsonLines.push_back("{\"unit\": " + quoted(Source) + ", \"filter\": " + quoted(Filter) +
                        ", \"rules\": " + list(RuleLines) + ", \"matched\": " + list(Matched) +
                        ", \"taken\": [" + Taken + "]}");
  }

  void addFunction(tree Decl, bool Hooked) {
    function *Body = DECL_STRUCT_FUNCTION(Decl);
    unsigned Blocks = 0, Instructions = 0, Branches = 0;
    std::set<std::pair<std::string, int>> Lines;
    std::vector<std::pair<std::pair<std::string, unsigned>, unsigned>> Calls; // in the order of the source
    basic_block Block;
    FOR_EACH_BB_FN(Block, Body) {
      Blocks++;
      for (gimple_stmt_iterator At = gsi_start_bb(Block); !gsi_end_p(At); gsi_next(&At)) {
        const gimple *Statement = gsi_stmt(At);
        if (!isInstruction(Statement))
          continue;
        Instructions++;
        Branches += gimple_code(Statement) == GIMPLE_COND || gimple_code(Statement) == GIMPLE_SWITCH;
        expanded_location Where = expand_location(gimple_location(Statement));
        if (Where.file && Where.line)
          Lines.insert({Where.file, Where.line});
        std::string Callee = calleeOf(Statement);
        if (!Callee.empty())
          count(Calls, {Callee, bb_loop_depth(Block)});
      }
    }
    bool Placed = DECL_SOURCE_LOCATION(Decl) != UNKNOWN_LOCATION;
    std::string Text = "{\"name\": " + quoted(displayName(Decl)) + ", \"mangled\": " + quoted(symbolOf(Decl)) +
                       ", \"file\": " + quoted(sourceFile(Decl)) +
                       ", \"line\": " + std::to_string(Placed ? DECL_SOURCE_LINE(Decl) : 0) + ", \"linkage\": \"" +
                       linkage(Decl) + "\", \"inline\": " + truth(isDeclaredInline(Decl)) +
                       ", \"hooked\": " + truth(Hooked) + ", \"blocks\": " + std::to_string(Blocks) +
                       ", \"instructions\": " + std::to_string(Instructions) +
                       ", \"statements\": " + std::to_string(Lines.size()) +
                       ", \"branches\": " + std::to_string(Branches) + ", \"type\": " +
                       quoted(signature(TREE_TYPE(Decl))) + ", \"loops\": [" + loopsOf(Body) +
                       "], \"calls\": [";
    const char *Separator = "";
    for (auto &Entry : Calls) {
      Text += Separator + ("{\"callee\": " + quoted(Entry.first.first)) +
              ", \"depth\": " + std::to_string(Entry.first.second) + ", \"count\": " + std::to_string(Entry.second) + "}";
      Separator = ", ";
    }
    JsonLines.push_back(Text + "]}");
  }

  void emit() const {
    std::string Code = ".pushsection .buran.static,\"\",@progbits\n";
    for (const std::string &Line : JsonLines) {
      Code += ".ascii \"";
      for (unsigned char C : Line) {
        if (C == '"' || C == '\\')
          Code += std::string("\\") + static_cast<char>(C);
        else if (C < 0x20 || C > 0x7e)
          Code += formatted("\\%03o", C);
        else
          Code += static_cast<char>(C);
      }
      Code += "\\n\"\n";
    }
    Code += ".popsection";
    symtab->finalize_toplevel_asm(build_string(Code.size() + 1, Code.c_str()));
  }

private:
  using CallCounts = std::vector<std::pair<std::pair<std::string, unsigned>, unsigned>>;

  static void count(CallCounts &Calls, const std::pair<std::string, unsigned> &Site) {
    for (auto &Entry : Calls)
      if (Entry.first == Site) {
        Entry.second++;
        return;
      }
    Calls.push_back({Site, 1});
  }

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

  static std::string loopsOf(function *Body) {
    std::vector<std::pair<int, std::string>> Found;
    if (loops_for_fn(Body))
      collect(loops_for_fn(Body)->tree_root->inner, Found);
    std::stable_sort(Found.begin(), Found.end(), [](auto &A, auto &B) { return A.first < B.first; });
    std::string Text;
    for (auto &Entry : Found)
      Text += (Text.empty() ? "" : ", ") + Entry.second;
    return Text;
  }

  static void collect(class loop *Loop, std::vector<std::pair<int, std::string>> &Found) {
    for (; Loop; Loop = Loop->next) {
      int Line = 0;
      for (gimple_stmt_iterator At = gsi_start_bb(Loop->header); !gsi_end_p(At) && !Line; gsi_next(&At))
        Line = expand_location(gimple_location(gsi_stmt(At))).line;
      Found.push_back({Line, "{\"line\": " + std::to_string(Line) + ", \"depth\": " + std::to_string(loop_depth(Loop)) +
                                 ", \"blocks\": " + std::to_string(Loop->num_nodes) + "}"});
      collect(Loop->inner, Found);
    }
  }

  static std::string linkage(tree Decl) {
    if (!TREE_PUBLIC(Decl))
      return "internal";
    return isShared(Decl) ? "shared" : "external";
  }

  static std::string formatted(const char *Format, unsigned Value) {
    char Text[16];
    snprintf(Text, sizeof Text, Format, Value);
    return Text;
  }

  static std::string quoted(const std::string &Text) {
    std::string Out = "\"";
    for (char C : Text) {
      if (C == '"' || C == '\\')
        Out += '\\';
      Out += static_cast<unsigned char>(C) < 0x20 ? formatted("\\u%04x", C) : std::string(1, C);
    }
    return Out + '"';
  }

  static std::string list(const std::vector<int> &Values) {
    std::string Out;
    for (int Value : Values)
      Out += (Out.empty() ? "" : ", ") + std::to_string(Value);
    return "[" + Out + "]";
  }

  static std::string truth(bool Value) { return Value ? "true" : "false"; }

  std::vector<std::string> JsonLines;
};

#endif
