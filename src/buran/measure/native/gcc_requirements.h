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
    Sum[BURAN_FLOPS] += operations(Statement);
  }

  // The number of bytes that a statement copies or fills, where only the run can tell.
  static tree copied(const gimple *Statement) {
    if (!fills(Statement) || tree_fits_uhwi_p(gimple_call_arg(Statement, 2)))
      return NULL_TREE;
    return gimple_call_arg(Statement, 2);
  }

  static bool copies(const gimple *Statement) { return !gimple_call_builtin_p(Statement, BUILT_IN_MEMSET); }

private:
  static bool fills(const gimple *Statement) {
    return gimple_call_builtin_p(Statement, BUILT_IN_MEMCPY) || gimple_call_builtin_p(Statement, BUILT_IN_MEMMOVE) ||
           gimple_call_builtin_p(Statement, BUILT_IN_MEMPCPY) || gimple_call_builtin_p(Statement, BUILT_IN_MEMSET);
  }

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

  static uint64_t operations(const gimple *Statement) {
    tree Result = gimple_get_lhs(Statement);
    if (!Result || !FLOAT_TYPE_P(TREE_TYPE(Result)))
      return 0;
    uint64_t Elements = VECTOR_TYPE_P(TREE_TYPE(Result)) ? constant_lower_bound(TYPE_VECTOR_SUBPARTS(TREE_TYPE(Result))) : 1;
    if (is_gimple_assign(Statement))
      switch (gimple_assign_rhs_code(Statement)) {
      case PLUS_EXPR:
      case MINUS_EXPR:
      case MULT_EXPR:
      case RDIV_EXPR:
        return Elements;
      default:
        return 0;
      }
    switch (gimple_call_combined_fn(Statement)) {
    case CFN_SQRT:
    CASE_FLT_FN(CFN_BUILT_IN_SQRT):
      return Elements;
    case CFN_FMA:
    CASE_FLT_FN(CFN_BUILT_IN_FMA):
      return 2 * Elements;
    default:
      return 0;
    }
  }
};

#endif
