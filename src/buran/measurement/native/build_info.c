/* What the toolchain knows of the build; compiled once per mode, with the values as macros.
 *
 * Objects of instrumented code refer to buran_objects_are_for_<mode>, so that linking objects of two modes fails
 * instead of giving a profile that counts only a part of the program.
 */
#include "internal.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

const char *const buran_build_info[] = {
    "mode", TEXT(BURAN_INFO_MODE),
    "compiler", BURAN_INFO_COMPILER,
    "mpi", BURAN_INFO_MPI,
    "toolchain", BURAN_INFO_KIND,
    "fingerprint", BURAN_INFO_FINGERPRINT,
    NULL,
};
const int buran_counts_blocks = BURAN_INFO_COUNTS_BLOCKS;
const int buran_counts_requirements = BURAN_INFO_COUNTS_REQUIREMENTS;
const char JOIN(buran_objects_are_for_, BURAN_INFO_MODE) = 1;
