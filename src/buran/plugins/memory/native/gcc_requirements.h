// What a statement asks of the machine, for gcc_plugin.cc: see llvm_requirements.h for what is counted how.
//
// Included where gcc's headers are known.
#ifndef BURAN_GCC_REQUIREMENTS_H
#define BURAN_GCC_REQUIREMENTS_H

using Amounts = std::array<uint64_t, BURAN_REQUIREMENTS>;

class Requirements {
public:
  // Adds what a statement asks for, without the length of `copied`.
  static void add(gimple *Statement, Amounts &Sum) {
    if (gimple_clobber_p(Statement))
      return;
    walk_stmt_load_store_ops(Statement, &Sum, load, store);
    if (fills(Statement)) {
      tree Length = gimple_call_arg(Statement, 2);
      uint64_t Size = tree_fits_uhwi_p(Length) ? tree_to_uhwi(Length) : 0;
      if (copies(Statement))
        access(Sum, BURAN_LOADS, Size);
      access(Sum, BURAN_STORES, Size);
    }
    operations(Statement, Sum);
    Sum[BURAN_BRANCHES] += gimple_code(Statement) == GIMPLE_COND || gimple_code(Statement) == GIMPLE_SWITCH;
    Sum[BURAN_CALLS] += calls(Statement);
    Sum[BURAN_INTEGER_OPERATIONS] += integerOperations(Statement);
  }

  // The number of bytes that a statement copies or fills, where only the run can tell.
  static tree copied(const gimple *Statement) {
    if (!fills(Statement) || tree_fits_uhwi_p(gimple_call_arg(Statement, 2)))
      return NULL_TREE;
    return gimple_call_arg(Statement, 2);
  }

  // The kinds to which that number is added.
  static std::set<unsigned> grownBy(const gimple *Statement) {
    return copies(Statement) ? std::set<unsigned>{BURAN_BYTES_LOADED, BURAN_BYTES_STORED}
                             : std::set<unsigned>{BURAN_BYTES_STORED};
  }

  static bool copies(const gimple *Statement) { return !gimple_call_builtin_p(Statement, BUILT_IN_MEMSET); }

  static bool fills(const gimple *Statement) {
    return gimple_call_builtin_p(Statement, BUILT_IN_MEMCPY) || gimple_call_builtin_p(Statement, BUILT_IN_MEMMOVE) ||
           gimple_call_builtin_p(Statement, BUILT_IN_MEMPCPY) || gimple_call_builtin_p(Statement, BUILT_IN_MEMSET);
  }

private:
  static void access(Amounts &Sum, unsigned Kind, uint64_t Size) {
    Sum[Kind]++;
    Sum[Kind == BURAN_LOADS ? BURAN_BYTES_LOADED : BURAN_BYTES_STORED] += Size;
  }

  static bool load(gimple *, tree, tree Place, void *Sum) {
    access(*static_cast<Amounts *>(Sum), BURAN_LOADS, bytes(Place));
    return false;
  }

  static bool store(gimple *, tree, tree Place, void *Sum) {
    access(*static_cast<Amounts *>(Sum), BURAN_STORES, bytes(Place));
    return false;
  }

  static uint64_t bytes(tree Place) {
    tree Size = TYPE_SIZE_UNIT(TREE_TYPE(Place));
    return Size && tree_fits_uhwi_p(Size) ? tree_to_uhwi(Size) : 0;
  }

  static uint64_t elements(tree Type) {
    return VECTOR_TYPE_P(Type) ? constant_lower_bound(TYPE_VECTOR_SUBPARTS(Type)) : 1;
  }

  // One operation, for each element, of a type and a kind.
  static void operation(Amounts &Sum, unsigned Kind, tree Type) {
    uint64_t Elements = elements(Type);
    unsigned Bits = element_precision(Type);
    Sum[BURAN_FLOPS] += Elements;
    Sum[Kind] += Elements;
    Sum[Bits <= 32 ? BURAN_FLOPS_SINGLE : Bits <= 64 ? BURAN_FLOPS_DOUBLE : BURAN_FLOPS_EXTENDED] += Elements;
  }

  static void operations(const gimple *Statement, Amounts &Sum) {
    tree Result = gimple_get_lhs(Statement);
    if (!Result || !FLOAT_TYPE_P(TREE_TYPE(Result)))
      return;
    tree Type = TREE_TYPE(Result);
    if (is_gimple_assign(Statement))
      switch (gimple_assign_rhs_code(Statement)) {
      case PLUS_EXPR:
      case MINUS_EXPR:
        return operation(Sum, BURAN_FLOPS_ADD, Type);
      case MULT_EXPR:
        return operation(Sum, BURAN_FLOPS_MULTIPLY, Type);
      case RDIV_EXPR:
        return operation(Sum, BURAN_FLOPS_DIVIDE, Type);
      default:
        return;
      }
    if (isSquareRoot(Statement))
      operation(Sum, BURAN_FLOPS_ROOT, Type);
    if (isFused(Statement)) {
      operation(Sum, BURAN_FLOPS_MULTIPLY, Type);
      operation(Sum, BURAN_FLOPS_ADD, Type);
    }
  }

  static bool isSquareRoot(const gimple *Statement) {
    switch (gimple_call_combined_fn(Statement)) {
    case CFN_SQRT:
    CASE_FLT_FN(CFN_BUILT_IN_SQRT):
      return true;
    default:
      return false;
    }
  }

  static bool isFused(const gimple *Statement) {
    switch (gimple_call_combined_fn(Statement)) {
    case CFN_FMA:
    CASE_FLT_FN(CFN_BUILT_IN_FMA):
      return true;
    default:
      return false;
    }
  }

  // Of functions that were not inlined; what a compiler makes instructions of is none.
  static bool calls(const gimple *Statement) {
    if (!is_gimple_call(Statement) || gimple_call_internal_p(Statement) || fills(Statement) || isSquareRoot(Statement))
      return false;
    tree Callee = gimple_call_fndecl(Statement);
    return !Callee || !(isHook(Statement, "buran_enter") || isHook(Statement, "buran_exit") ||
                        isHook(Statement, "buran_unwind") || is_inexpensive_builtin(Callee));
  }

  // What is only added to a pointer in the end is part of an address.
  static uint64_t integerOperations(const gimple *Statement) {
    if (!is_gimple_assign(Statement) || isOfAddress(gimple_assign_lhs(Statement), 3))
      return 0;
    tree Type = TREE_TYPE(gimple_assign_lhs(Statement));
    if ((!INTEGRAL_TYPE_P(Type) && !VECTOR_INTEGER_TYPE_P(Type)) || TREE_CODE(Type) == BOOLEAN_TYPE)
      return 0;
    switch (gimple_assign_rhs_code(Statement)) {
    case PLUS_EXPR:
    case MINUS_EXPR:
    case MULT_EXPR:
    case TRUNC_DIV_EXPR:
    case EXACT_DIV_EXPR:
    case TRUNC_MOD_EXPR:
    case LSHIFT_EXPR:
    case RSHIFT_EXPR:
    case BIT_AND_EXPR:
    case BIT_IOR_EXPR:
    case BIT_XOR_EXPR:
      return elements(Type);
    default:
      return 0;
    }
  }

  static bool isOfAddress(tree Value, int Depth) {
    if (TREE_CODE(Value) != SSA_NAME || has_zero_uses(Value))
      return false;
    imm_use_iterator At;
    use_operand_p Use;
    FOR_EACH_IMM_USE_FAST(Use, At, Value) {
      gimple *User = USE_STMT(Use);
      if (is_gimple_debug(User))
        continue;
      if (!is_gimple_assign(User))
        return false;
      bool IsAdded = gimple_assign_rhs_code(User) == POINTER_PLUS_EXPR;
      if (!IsAdded && (!Depth || !isOfAddress(gimple_assign_lhs(User), Depth - 1)))
        return false;
    }
    return true;
  }
};

#endif
