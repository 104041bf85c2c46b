/* The generated text is compiled with -fsanitize=thread and not linked with libtsan: the calls that the compiler puts before every access of
 * memory, and that libtsan would answer, come here. These are all that gcc and clang make without atomics (gcc: sanitizer.def; LLVM:
 * ThreadSanitizer.cpp). Accesses to local variables whose address stays in the function are not announced. */
#include "memory_access.h"

#include <string.h>

#define WHERE __builtin_return_address(0)

static inline void announce(const void *address, size_t bytes, size_t alignment, bool is_write,
                            const void *where)
{
    group *const g = current_group;
    if (g != NULL) memory_access(g, address, bytes, alignment, is_write, where);
}

#define ENTRY(name, bytes, alignment, is_write)                                                    \
    void __tsan_##name(void *address);                                                             \
    void __tsan_##name(void *address)                                                              \
    {                                                                                              \
        announce(address, bytes, alignment, is_write, WHERE);                                      \
    }
#define ENTRIES(bytes)                                                                             \
    ENTRY(read##bytes, bytes, bytes, false)                                                        \
    ENTRY(write##bytes, bytes, bytes, true)                                                        \
    ENTRY(read_write##bytes, bytes, bytes, true)                                                   \
    ENTRY(volatile_read##bytes, bytes, bytes, false)                                               \
    ENTRY(volatile_write##bytes, bytes, bytes, true)                                               \
    ENTRY(unaligned_read##bytes, bytes, 1, false)                                                  \
    ENTRY(unaligned_write##bytes, bytes, 1, true)                                                  \
    ENTRY(unaligned_read_write##bytes, bytes, 1, true)                                             \
    ENTRY(unaligned_volatile_read##bytes, bytes, 1, false)                                         \
    ENTRY(unaligned_volatile_write##bytes, bytes, 1, true)

ENTRIES(1)
ENTRIES(2)
ENTRIES(4)
ENTRIES(8)
ENTRIES(16)

#define RANGE(name, is_write)                                                                      \
    void __tsan_##name(void *address, size_t bytes);                                               \
    void __tsan_##name(void *address, size_t bytes)                                                \
    {                                                                                              \
        if (bytes > 0) announce(address, bytes, 1, is_write, WHERE);                               \
    }
RANGE(read_range, false)
RANGE(write_range, true)

/* Copies of whole structs; clang before 16 calls the C library's instead, which nobody sees. */
void *__tsan_memcpy(void *to, const void *from, size_t bytes);
void *__tsan_memcpy(void *to, const void *from, size_t bytes)
{
    if (bytes > 0) announce(from, bytes, 1, false, WHERE);
    if (bytes > 0) announce(to, bytes, 1, true, WHERE);
    return memmove(to, from, bytes);
}
void *__tsan_memmove(void *to, const void *from, size_t bytes);
void *__tsan_memmove(void *to, const void *from, size_t bytes)
{
    if (bytes > 0) announce(from, bytes, 1, false, WHERE);
    if (bytes > 0) announce(to, bytes, 1, true, WHERE);
    return memmove(to, from, bytes);
}
void *__tsan_memset(void *to, int byte, size_t bytes);
void *__tsan_memset(void *to, int byte, size_t bytes)
{
    if (bytes > 0) announce(to, bytes, 1, true, WHERE);
    return memset(to, byte, bytes);
}

/* ---- of no interest here ---- */

void __tsan_init(void);
void __tsan_init(void) {}
void __tsan_func_entry(void *caller);
void __tsan_func_entry(void *caller)
{
    (void)caller;
}
void __tsan_func_exit(void);
void __tsan_func_exit(void) {}
void __tsan_vptr_read(void **address);
void __tsan_vptr_read(void **address)
{
    (void)address;
}
void __tsan_vptr_update(void **address, void *value);
void __tsan_vptr_update(void **address, void *value)
{
    (void)address, (void)value;
}
