#include "coroutine.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)

/* System V ABI, "Registers": the callee keeps rbx, rbp and r12 to r15. */
__asm__(".text\n"
        ".globl attune_coroutine_switch\n"
        ".hidden attune_coroutine_switch\n"
        ".type attune_coroutine_switch, @function\n"
        "attune_coroutine_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq (%rsi), %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size attune_coroutine_switch, . - attune_coroutine_switch\n");

enum { KEPT = 8, ENTRY = 6 }; /* six registers, the address to go to, and a return address of 0 */

#elif defined(__aarch64__)

/* Procedure Call Standard for the Arm 64-bit Architecture, 6.1: the callee keeps x19 to x29, and the low halves of v8 to v15; x30 is where
 * to return. */
__asm__(".text\n"
        ".globl attune_coroutine_switch\n"
        ".hidden attune_coroutine_switch\n"
        ".type attune_coroutine_switch, %function\n"
        "attune_coroutine_switch:\n"
        "    sub sp, sp, #160\n"
        "    stp x19, x20, [sp]\n"
        "    stp x21, x22, [sp, #16]\n"
        "    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n"
        "    stp x27, x28, [sp, #64]\n"
        "    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mov x9, sp\n"
        "    str x9, [x0]\n"
        "    ldr x9, [x1]\n"
        "    mov sp, x9\n"
        "    ldp x19, x20, [sp]\n"
        "    ldp x21, x22, [sp, #16]\n"
        "    ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]\n"
        "    ldp x27, x28, [sp, #64]\n"
        "    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #160\n"
        "    ret\n"
        ".size attune_coroutine_switch, . - attune_coroutine_switch\n");

enum { KEPT = 20, ENTRY = 11 };

#endif

#if defined(__x86_64__) || defined(__aarch64__)

void attune_coroutine_switch(void **from, void *const *to);

void coroutine_prepare(coroutine *c, void *stack, size_t bytes, void (*entry)(void))
{
    void **const top = (void **)(((uintptr_t)stack + bytes) & ~(uintptr_t)15);
    c->stack_pointer = top - KEPT;
    memset(c->stack_pointer, 0, KEPT * sizeof *top);
    ((void **)c->stack_pointer)[ENTRY] = (void *)(uintptr_t)entry;
}

void coroutine_switch(coroutine *from, coroutine *to)
{
    attune_coroutine_switch(&from->stack_pointer, &to->stack_pointer);
}

#else

void coroutine_prepare(coroutine *c, void *stack, size_t bytes, void (*entry)(void))
{
    getcontext(&c->context);
    c->context.uc_stack.ss_sp = stack;
    c->context.uc_stack.ss_size = bytes;
    c->context.uc_link = NULL;
    makecontext(&c->context, entry, 0);
}

void coroutine_switch(coroutine *from, coroutine *to)
{
    swapcontext(&from->context, &to->context);
}

#endif
