// Asking at accesses to memory whether their cache line is in the sample, for gcc_plugin.cc: see llvm_sampling.h for what asks
// how. Here no loop asks beforehand, and what a vector gathers asks nothing.
//
// Included where gcc's headers are known.
#ifndef BURAN_GCC_SAMPLING_H
#define BURAN_GCC_SAMPLING_H

#include "sampling.h"

namespace {

tree SampledBelow, SampledAccesses, SampledRange;

const ggc_root_tab SampleRoots[] = {
    {&SampledBelow, 1, sizeof SampledBelow, &gt_ggc_mx_tree_node, &gt_pch_nx_tree_node},
    {&SampledAccesses, 1, sizeof SampledAccesses, &gt_ggc_mx_tree_node, &gt_pch_nx_tree_node},
    {&SampledRange, 1, sizeof SampledRange, &gt_ggc_mx_tree_node, &gt_pch_nx_tree_node},
    LAST_GGC_ROOT_TAB};

class Sampling {
public:
  // For the function that cfun is.
  void add() {
    std::vector<Group> Groups;
    std::vector<Stretch> Stretches;
    basic_block BB;
    FOR_EACH_BB_FN(BB, cfun) {
      size_t First = Groups.size();
      for (gimple_stmt_iterator At = gsi_start_nondebug_bb(BB); !gsi_end_p(At); gsi_next_nondebug(&At)) {
        gimple *Statement = gsi_stmt(At);
        if (gimple_clobber_p(Statement))
          continue;
        for (tree Place : accessed(Statement))
          if (!isNear(Place))
            join(Groups, Stretches, First, Statement, Place);
        if (Requirements::fills(Statement)) {
          for (unsigned Side = 0; Side <= Requirements::copies(Statement); Side++)
            if (tree Begin = gimple_call_arg(Statement, Side);
                TREE_CODE(Begin) != ADDR_EXPR || !isNear(TREE_OPERAND(Begin, 0)))
              Stretches.push_back({Statement, Begin, gimple_call_arg(Statement, 2)});
        } else if (is_gimple_call(Statement) && !isSimpleBuiltin(as_a<gcall *>(Statement))) {
          First = Groups.size();
        }
      }
    }
    if (Groups.empty() && Stretches.empty())
      return;
    free_dominance_info(CDI_DOMINATORS);
    free_dominance_info(CDI_POST_DOMINATORS);
    for (const Stretch &This : Stretches)
      askAll(This);
    for (const Group &This : Groups)
      ask(This);
    if (current_loops)
      loops_state_set(LOOPS_NEED_FIXUP);
    mark_virtual_operands_for_renaming(cfun);
  }

private:
  // An address is the sum of these parts and a constant.
  struct Address {
    std::array<tree, 4> Parts;
    int64_t Offset;
  };

  struct Group : Together {
    Group(gimple *At, tree Place, const Address &First) : At(At), Place(Place), First(First) {}
    gimple *At; // the first of them
    tree Place;
    Address First;
  };

  // Bytes that a statement passes.
  struct Stretch {
    gimple *At;
    tree Begin, Length;
  };

  static std::vector<tree> accessed(gimple *Statement) {
    std::vector<tree> Places;
    walk_stmt_load_store_ops(Statement, &Places, note, note);
    if (!is_gimple_call(Statement))
      return Places;
    tree Pointed = NULL_TREE;
    if (gimple_call_internal_p(Statement, IFN_MASK_LOAD))
      Pointed = TREE_TYPE(gimple_call_lhs(Statement));
    else if (gimple_call_internal_p(Statement, IFN_MASK_STORE))
      Pointed = TREE_TYPE(gimple_call_arg(Statement, gimple_call_num_args(Statement) - 1));
    else if (isAtomic(Statement))
      Pointed = char_type_node;
    if (Pointed)
      Places.push_back(build2(MEM_REF, Pointed, gimple_call_arg(Statement, 0), build_int_cst(ptr_type_node, 0)));
    return Places;
  }

  static bool note(gimple *, tree, tree Place, void *Places) {
    while (TREE_CODE(Place) == BIT_FIELD_REF || TREE_CODE(Place) == VIEW_CONVERT_EXPR ||
           (TREE_CODE(Place) == COMPONENT_REF && DECL_BIT_FIELD(TREE_OPERAND(Place, 1))))
      Place = TREE_OPERAND(Place, 0);
    static_cast<std::vector<tree> *>(Places)->push_back(Place);
    return false;
  }

  static bool isAtomic(const gimple *Statement) {
    tree Callee = gimple_call_fndecl(Statement);
    if (!Callee || !fndecl_built_in_p(Callee) || !DECL_NAME(Callee) || !gimple_call_num_args(Statement))
      return false;
    const char *Name = IDENTIFIER_POINTER(DECL_NAME(Callee));
    return (startsWith(Name, "__atomic_") || startsWith(Name, "__sync_")) &&
           POINTER_TYPE_P(TREE_TYPE(gimple_call_arg(Statement, 0)));
  }

  // Local variables of up to a page, registers, and the thread's counters.
  static bool isNear(tree Place) {
    if (TYPE_ADDR_SPACE(TREE_TYPE(Place)))
      return true; // relative to a segment register
    tree Whole = get_base_address(Place);
    if (!Whole || !DECL_P(Whole))
      return !Whole;
    if (VAR_P(Whole) && (DECL_HARD_REGISTER(Whole) || (DECL_NAME(Whole) && startsWith(IDENTIFIER_POINTER(DECL_NAME(Whole)), "buran_"))))
      return true;
    tree Size = DECL_SIZE_UNIT(Whole);
    return auto_var_in_fn_p(Whole, current_function_decl) && Size && tree_fits_uhwi_p(Size) && tree_to_uhwi(Size) <= Page;
  }

  // Parts that are the same tell that two addresses are a constant apart.
  static Address addressOf(tree Place) {
    poly_int64 Bytes = 0;
    tree Base = get_addr_base_and_unit_offset(Place, &Bytes);
    HOST_WIDE_INT Offset = 0;
    if (!Base || !Bytes.is_constant(&Offset))
      return {{Place}, 0};
    if (TREE_CODE(Base) == TARGET_MEM_REF)
      return {{TMR_BASE(Base), TMR_INDEX(Base), TMR_STEP(Base), TMR_INDEX2(Base)}, Offset + wide(TMR_OFFSET(Base))};
    if (TREE_CODE(Base) != MEM_REF)
      return {{Base}, Offset};
    tree Pointer = TREE_OPERAND(Base, 0);
    Offset += wide(TREE_OPERAND(Base, 1));
    for (unsigned Depth = 0; Depth < Compared && TREE_CODE(Pointer) == SSA_NAME; Depth++) {
      gimple *Made = SSA_NAME_DEF_STMT(Pointer);
      if (!is_gimple_assign(Made) || gimple_assign_rhs_code(Made) != POINTER_PLUS_EXPR ||
          TREE_CODE(gimple_assign_rhs2(Made)) != INTEGER_CST)
        break;
      Offset += wide(gimple_assign_rhs2(Made));
      Pointer = gimple_assign_rhs1(Made);
    }
    return {{Pointer}, Offset};
  }

  static int64_t wide(tree Constant) { return int64_t(TREE_INT_CST_LOW(Constant)); }

  static bool isSame(tree One, tree Other) {
    return One == Other || (One && Other && operand_equal_p(One, Other, OEP_ADDRESS_OF));
  }

  // Into one of the last groups, from the given one on, or into a group of its own; what is longer than a line is apart.
  static void join(std::vector<Group> &Groups, std::vector<Stretch> &Stretches, size_t First, gimple *Statement,
                   tree Place) {
    tree Size = TYPE_SIZE_UNIT(TREE_TYPE(Place));
    if (Size && tree_fits_uhwi_p(Size) && tree_to_uhwi(Size) > BURAN_LINE) {
      Stretches.push_back({Statement, pointer(Place), Size});
      return;
    }
    Address Where = addressOf(Place);
    auto Apart = [&](const Group &This) -> std::optional<int64_t> {
      if (!std::equal(Where.Parts.begin(), Where.Parts.end(), This.First.Parts.begin(), isSame))
        return std::nullopt;
      return Where.Offset - This.First.Offset;
    };
    if (!joined(Groups, First, Apart))
      Groups.push_back({Statement, Place, Where});
  }

  static tree pointer(tree Place) {
    if (TREE_CODE(Place) == TARGET_MEM_REF)
      return tree_mem_ref_addr(ptr_type_node, Place);
    tree Whole = get_base_address(Place);
    if (Whole && DECL_P(Whole))
      mark_addressable(Whole);
    return build_fold_addr_expr(unshare_expr(Place));
  }

  static tree number(gimple_seq &Code, tree Value) {
    gimple_seq Steps = NULL;
    tree Found = force_gimple_operand(Value, &Steps, true, NULL_TREE);
    gimple_seq_add_seq(&Code, Steps);
    return Found;
  }

  static tree address(tree Pointer) { return fold_convert(uint64_type_node, Pointer); }

  static tree further(tree Address, int64_t Offset) {
    tree Apart = build_int_cst(uint64_type_node, Offset);
    return Offset ? fold_build2(PLUS_EXPR, uint64_type_node, Address, Apart) : Address;
  }

  static tree hash(tree Address) {
    tree Bits = build_int_cst(uint32_type_node, LineBits + 1);
    tree Pair = fold_convert(uint32_type_node, fold_build2(RSHIFT_EXPR, uint64_type_node, Address, Bits));
    return fold_build2(MULT_EXPR, uint32_type_node, Pair, build_int_cst(uint32_type_node, BURAN_LINE_FACTOR));
  }

  void askAll(const Stretch &This) {
    gimple_seq Code = NULL;
    tree Begin = number(Code, address(This.Begin));
    tree Length = number(Code, fold_convert(uint64_type_node, This.Length));
    gimple_seq_add_stmt(&Code, gimple_build_call(sampler(SampledRange), 2, Begin, Length));
    gimple_stmt_iterator At = gsi_for_stmt(This.At);
    gsi_insert_seq_before(&At, Code, GSI_SAME_STMT);
  }

  void ask(const Group &This) {
    gimple_seq Code = NULL;
    tree First = number(Code, further(address(pointer(This.Place)), This.Lowest)), Last = First, Least = hash(First);
    if (This.Lowest != This.Highest) {
      Last = number(Code, further(First, This.Highest - This.Lowest));
      Least = fold_build2(MIN_EXPR, uint32_type_node, Least, hash(Last));
    }
    Least = number(Code, Least);
    tree Limit = create_tmp_var(uint32_type_node);
    gimple *Read = gimple_build_assign(Limit, threshold());
    gimple_seq_add_stmt(&Code, Read);
    gimple_stmt_iterator At = gsi_for_stmt(This.At);
    gsi_insert_seq_before(&At, Code, GSI_SAME_STMT);

    edge Past = split_block(gimple_bb(Read), Read);
    basic_block Asking = Past->src, Rest = Past->dest, Seen = create_empty_bb(Asking);
    At = gsi_last_bb(Asking);
    gsi_insert_after(&At, gimple_build_cond(LT_EXPR, Least, Limit, NULL_TREE, NULL_TREE), GSI_NEW_STMT);
    edge Into = make_edge(Asking, Seen, EDGE_TRUE_VALUE);
    Into->probability = profile_probability::very_unlikely();
    Past->flags = (Past->flags & ~EDGE_FALLTHRU) | EDGE_FALSE_VALUE;
    Past->probability = Into->probability.invert();
    Seen->count = Into->count();
    make_single_succ_edge(Seen, Rest, EDGE_FALLTHRU);
    if (current_loops)
      add_bb_to_loop(Seen, Asking->loop_father);
    At = gsi_start_bb(Seen);
    tree Count = build_int_cst(uint32_type_node, This.Places.size());
    gcall *Call = gimple_build_call(sampler(SampledAccesses), 3, First, Last, Count);
    gimple_set_location(Call, gimple_location(This.At));
    gsi_insert_after(&At, Call, GSI_NEW_STMT);
  }

  static tree threshold() {
    if (!SampledBelow) {
      tree Var = build_decl(UNKNOWN_LOCATION, VAR_DECL, get_identifier("buran_reuse_threshold"), uint32_type_node);
      TREE_PUBLIC(Var) = DECL_EXTERNAL(Var) = TREE_USED(Var) = DECL_ARTIFICIAL(Var) = TREE_ADDRESSABLE(Var) = 1;
      varpool_node::get_create(Var);
      SampledBelow = Var;
    }
    return SampledBelow;
  }

  static tree sampler(tree &Known) {
    if (!Known)
      Known = &Known == &SampledRange
                  ? hook("buran_reuse_range", build_function_type_list(void_type_node, uint64_type_node, uint64_type_node,
                                                                       NULL_TREE))
                  : hook("buran_reuse_accesses", build_function_type_list(void_type_node, uint64_type_node,
                                                                          uint64_type_node, uint32_type_node, NULL_TREE));
    return Known;
  }
};

const pass_data SamplePassData = {
    GIMPLE_PASS, "buran_sample", OPTGROUP_NONE, TV_NONE, PROP_ssa | PROP_cfg, 0, 0, 0, TODO_update_ssa};

struct SamplePass : gimple_opt_pass {
  explicit SamplePass(gcc::context *Context) : gimple_opt_pass(SamplePassData, Context) {}

  bool gate(function *Body) final override {
    return Settings::get().Samples && canCarryCode(cgraph_node::get(Body->decl));
  }

  unsigned int execute(function *) final override {
    Sampling().add();
    return 0;
  }
};

// Behind all optimisation of trees, beside counting: each access to memory asks whether its cache line is in the sample.
void addSampling(const char *Plugin) {
  register_callback(Plugin, PLUGIN_REGISTER_GGC_ROOTS, nullptr, const_cast<ggc_root_tab *>(SampleRoots));
  insertPass(Plugin, new SamplePass(g), "sanopt", 1);
}

} // namespace

#endif
