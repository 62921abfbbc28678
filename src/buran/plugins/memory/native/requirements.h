/* What executed blocks ask of the machine, in the order of the names. Those from BURAN_DETAILS on are counted where a campaign
 * asks for any of them. */
#ifndef BURAN_REQUIREMENTS_H
#define BURAN_REQUIREMENTS_H

enum {
    BURAN_FLOPS,
    BURAN_LOADS,
    BURAN_STORES,
    BURAN_BYTES_LOADED,
    BURAN_BYTES_STORED,
    BURAN_DETAILS,
    BURAN_FLOPS_ADD = BURAN_DETAILS,
    BURAN_FLOPS_MULTIPLY,
    BURAN_FLOPS_DIVIDE,
    BURAN_FLOPS_ROOT,
    BURAN_FLOPS_SINGLE,
    BURAN_FLOPS_DOUBLE,
    BURAN_FLOPS_EXTENDED,
    BURAN_BRANCHES,
    BURAN_CALLS,
    BURAN_INTEGER_OPERATIONS,
    BURAN_REQUIREMENTS
};
#define BURAN_REQUIREMENT_NAMES                                                                                       \
    "flops", "loads", "stores", "bytes_loaded", "bytes_stored", "flops_add", "flops_multiply", "flops_divide",         \
        "flops_sqrt", "flops_single", "flops_double", "flops_extended", "branches", "function_calls",                  \
        "integer_operations"

#endif
