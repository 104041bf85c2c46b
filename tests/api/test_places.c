/* Where tensors lie changes no bit: a problem is run on packed tensors, then on the same values
 * at other places. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct sizes {
    int64_t at[ATTUNE_RANK];
} sizes;

static sizes sizes_of(const attune_problem *p, int tensor)
{
    const int64_t seq = tensor == 0 || tensor == 3 ? p->seqlen_q : p->seqlen_k;
    const int64_t heads = tensor == 0 || tensor == 3 ? p->heads_q : p->heads_kv;
    return (sizes){{p->batch, seq, heads, tensor >= 2 ? p->head_dim_v : p->head_dim}};
}

static attune_buffer *buffer_of(attune_forward_tensors *t, int tensor)
{
    attune_buffer *const buffers[] = {&t->q, &t->k, &t->v, &t->o};
    return buffers[tensor];
}

static int64_t *strides_of(attune_problem *p, int tensor)
{
    int64_t *const strides[] = {p->q_strides, p->k_strides, p->v_strides, p->o_strides};
    return strides[tensor];
}

/* Copies a tensor element by element between two layouts. */
static void copy_tensor(sizes n, size_t element, const char *from,
                        const int64_t from_strides[ATTUNE_RANK], char *to,
                        const int64_t to_strides[ATTUNE_RANK])
{
    for (int64_t b = 0; b < n.at[0]; b++)
        for (int64_t s = 0; s < n.at[1]; s++)
            for (int64_t h = 0; h < n.at[2]; h++)
                for (int64_t d = 0; d < n.at[3]; d++) {
                    const int64_t at =
                        b * from_strides[0] + s * from_strides[1] + h * from_strides[2] + d;
                    const int64_t put =
                        b * to_strides[0] + s * to_strides[1] + h * to_strides[2] + d;
                    memcpy(to + put * (int64_t)element, from + at * (int64_t)element, element);
                }
}

/* Runs `packed`'s values as `placed` with the buffers given, and compares o and lse with
 * packed's. */
static void assert_placed(attune_context *context, fixture *packed, attune_problem *placed,
                          attune_forward_tensors *tensors)
{
    const size_t element = attune_dtype_size(placed->dtype);
    for (int t = 0; t < 3; t++) {
        const attune_buffer to = *buffer_of(tensors, t);
        copy_tensor(sizes_of(placed, t), element, buffer_of(&packed->tensors, t)->handle,
                    strides_of(&packed->problem, t), (char *)to.handle + to.offset,
                    strides_of(placed, t));
    }
    assert_ok(attune_forward(context, placed, tensors, NULL));

    char *const o = malloc(packed->o_bytes);
    copy_tensor(sizes_of(placed, 3), element, (const char *)tensors->o.handle + tensors->o.offset,
                placed->o_strides, o, packed->problem.o_strides);
    assert_memory_equal(o, packed->tensors.o.handle, packed->o_bytes);
    assert_memory_equal((const char *)tensors->lse.handle + tensors->lse.offset,
                        packed->tensors.lse.handle, packed->lse_bytes);
    free(o);
}

static const char *const texts[] = {
    "op=forward,b=2,hq=4,hkv=2,sq=13,sk=37,d=24,dv=40,dtype=f32,mask=causal,lse=1",
    "op=forward,b=2,hq=4,hkv=2,sq=13,sk=37,d=24,dv=40,dtype=f16,lse=1",
    "op=forward,b=2,hq=4,hkv=2,sq=13,sk=37,d=24,dv=40,dtype=bf16,mask=causal-top-left,lse=1",
};

enum { TEXTS = sizeof texts / sizeof texts[0] };

static fixture run_packed(attune_context *context, const char *text)
{
    const attune_problem problem = parse(text);
    fixture f = fixture_make(context, &problem);
    fixture_run(context, &f);
    fixture_judge(context, &f);
    return f;
}

/* Base pointers 1 to 7 elements off, each tensor by its own number, as offset and as handle. */
static void bases_need_no_alignment(void **user)
{
    (void)user;
    attune_context *const context = open_cpu(NULL);
    for (int i = 0; i < TEXTS; i++) {
        fixture packed = run_packed(context, texts[i]);
        const size_t element = attune_dtype_size(packed.problem.dtype);
        for (size_t shift = 1; shift <= 7; shift++) {
            fixture roomy = packed;
            attune_forward_tensors *const t = &roomy.tensors;
            size_t workspace;
            assert_ok(attune_forward_workspace_size(context, &roomy.problem, &workspace));
            char *const memory = aligned_alloc(64, (size_t)1 << 20), *const end =
                                                                         memory + ((size_t)1 << 20);
            memset(memory, 0xff, (size_t)1 << 20);
            for (size_t j = 0; j < 4; j++) {
                const size_t off = (j << 17) + (1 + (shift + j) % 7) * element;
                *buffer_of(t, (int)j) = shift % 2 == 0
                                            ? (attune_buffer){.handle = memory, .offset = off}
                                            : (attune_buffer){.handle = memory + off};
            }
            t->lse = (attune_buffer){.handle = memory,
                                     .offset = ((size_t)4 << 17) + shift * sizeof(float)};
            t->workspace =
                (attune_buffer){.handle = memory, .offset = ((size_t)5 << 17) + shift * 64};
            assert_placed(context, &packed, &roomy.problem, t);
            for (char *at = memory + t->workspace.offset + workspace; at < end; at++)
                assert_int_equal(*at, (char)0xff);
            free(memory);
        }
        fixture_free(&packed);
    }
    attune_context_close(context);
}

/* q, k and v interleaved in one buffer, o with gaps that nobody may write. */
static void views_of_a_bigger_buffer(void **user)
{
    (void)user;
    attune_context *const context = open_cpu(NULL);
    for (int i = 0; i < TEXTS; i++) {
        fixture packed = run_packed(context, texts[i]);
        const size_t element = attune_dtype_size(packed.problem.dtype);
        attune_problem placed = packed.problem;
        attune_forward_tensors tensors = packed.tensors;
        enum { ROW = 4 * 24 + 2 * 24 + 2 * 40 + 5, HEAD = 43 };
        const int64_t batch = (int64_t)37 * ROW + 3, o_row = 4 * HEAD + 7,
                      o_batch = 13 * o_row + 11;
        const int64_t places[] = {0, 4 * 24, 4 * 24 + 2 * 24};
        char *const memory = malloc((size_t)(2 * batch) * element);
        for (int t = 0; t < 3; t++) {
            const int64_t strides[] = {batch, ROW, t == 2 ? 40 : 24, 1};
            memcpy(strides_of(&placed, t), strides, sizeof strides);
            *buffer_of(&tensors, t) =
                (attune_buffer){.handle = memory, .offset = (size_t)places[t] * element};
        }
        const int64_t o_strides[] = {o_batch, o_row, HEAD, 1};
        memcpy(placed.o_strides, o_strides, sizeof o_strides);
        const size_t o_bytes = (size_t)(2 * o_batch) * element;
        unsigned char *const o = malloc(o_bytes);
        memset(o, 0xa5, o_bytes);
        tensors.o = (attune_buffer){.handle = o};
        assert_placed(context, &packed, &placed, &tensors);

        for (int64_t at = 0; at < 2 * o_batch; at++) {
            const int64_t in_batch = at % o_batch, in_row = in_batch % o_row;
            if (in_batch / o_row < 13 && in_row / HEAD < 4 && in_row % HEAD < 40) continue;
            for (size_t b = 0; b < element; b++)
                assert_int_equal(o[(size_t)at * element + b], 0xa5);
        }
        free(memory);
        free(o);
        fixture_free(&packed);
    }
    attune_context_close(context);
}

/* Strides and offsets beyond 32 bits of elements, over memory that exists only where it is
 * touched. */
static void strides_are_huge(void **user)
{
    (void)user;
    attune_context *const context = open_cpu(NULL);
    const size_t length = (size_t)1 << 40, base = ((size_t)1 << 32) + 4096;
    for (int i = 0; i < TEXTS; i++) {
        fixture packed = run_packed(context, texts[i]);
        attune_problem placed = packed.problem;
        attune_forward_tensors tensors = packed.tensors;
        const int64_t strides[4][ATTUNE_RANK] = {
            {(int64_t)1 << 36, ((int64_t)1 << 31) + 5, 24, 1},
            {((int64_t)1 << 35) + 1, 24, (int64_t)1 << 33, 1},
            {40, ((int64_t)1 << 30) + 7, (int64_t)1 << 36, 1},
            {(int64_t)1 << 37, 40, ((int64_t)1 << 34) + 3, 1},
        };
        void *maps[4];
        for (int t = 0; t < 4; t++) {
            maps[t] = mmap(NULL, length, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (maps[t] == MAP_FAILED) {
                print_message("no address space for sparse buffers\n");
                skip();
            }
            memcpy(strides_of(&placed, t), strides[t], sizeof strides[t]);
            *buffer_of(&tensors, t) = (attune_buffer){.handle = maps[t], .offset = base};
        }
        assert_placed(context, &packed, &placed, &tensors);
        for (int t = 0; t < 4; t++) munmap(maps[t], length);
        fixture_free(&packed);
    }
    attune_context_close(context);
}

/* Stride 0 gives what copies give. */
static void broadcasts_equal_copies(void **user)
{
    (void)user;
    attune_context *const context = open_cpu(NULL);
    for (int i = 0; i < TEXTS; i++) {
        attune_problem broadcast = parse(texts[i]);
        broadcast.k_strides[ATTUNE_BATCH] = 0;
        broadcast.v_strides[ATTUNE_HEAD] = 0;
        broadcast.q_strides[ATTUNE_SEQ] = 0;
        fixture f = fixture_make(context, &broadcast);
        fixture_run(context, &f);
        fixture_judge(context, &f);

        const attune_problem whole = parse(texts[i]);
        fixture copies = fixture_make(context, &whole);
        for (int t = 0; t < 3; t++)
            copy_tensor(sizes_of(&whole, t), attune_dtype_size(whole.dtype),
                        buffer_of(&f.tensors, t)->handle, strides_of(&f.problem, t),
                        buffer_of(&copies.tensors, t)->handle, strides_of(&copies.problem, t));
        fixture_run(context, &copies);
        assert_same_bits(&copies, &f);
        fixture_free(&copies);
        fixture_free(&f);
    }
    attune_context_close(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bases_need_no_alignment),
        cmocka_unit_test(views_of_a_bigger_buffer),
        cmocka_unit_test(strides_are_huge),
        cmocka_unit_test(broadcasts_equal_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
