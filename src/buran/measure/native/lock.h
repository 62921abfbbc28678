/* A lock for tables that several threads' MPI operations share: one atomic exchange when nobody else holds it.
 *
 * Only MPI_THREAD_MULTIPLE needs it: with any lesser level the program itself keeps its calls apart. Hooks of functions
 * take no locks at all.
 */
#ifndef BURAN_LOCK_H
#define BURAN_LOCK_H

#include <sched.h>

typedef struct buran_lock {
    int taken;
} buran_lock;

static inline void buran_lock_take(buran_lock *lock) {
    for (int turns = 0; __atomic_exchange_n(&lock->taken, 1, __ATOMIC_ACQUIRE);)
        while (__atomic_load_n(&lock->taken, __ATOMIC_RELAXED))
            if (++turns > 64)
                sched_yield(); /* the holder may need this core */
}

static inline void buran_lock_give(buran_lock *lock) { __atomic_store_n(&lock->taken, 0, __ATOMIC_RELEASE); }

#endif
