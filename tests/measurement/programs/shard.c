/* One rank of a program with many, without the many. Arguments: rank, size. */
#include <stdlib.h>

#include "internal.h"

int main(int argc, char **argv) {
    if (argc == 3) {
        buran_this_process.rank = atoi(argv[1]);
        buran_this_process.size = atoi(argv[2]);
    }
    return 0;
}
