/* Coroutines: each work-item is one, on a stack of its own. Switching is a few instructions on x86-64 and aarch64, ucontext elsewhere. */
#ifndef ATTUNE_EMULATED_COROUTINE_H
#define ATTUNE_EMULATED_COROUTINE_H

#include <stddef.h>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#endif

typedef struct coroutine {
#if defined(__x86_64__) || defined(__aarch64__)
    void *stack_pointer; /* of one that does not run: the registers that it keeps lie there */
#else
    ucontext_t context;
#endif
} coroutine;

/* The next switch to `c` calls entry() at the top of this stack. entry never returns: it switches away for good. A coroutine needs no
 * destruction; it may be prepared anew wherever it stands. */
void coroutine_prepare(coroutine *c, void *stack, size_t bytes, void (*entry)(void));

/* Leaves `from`, which is what runs, and goes on with `to`. Both belong to this thread. */
void coroutine_switch(coroutine *from, coroutine *to);

#endif
