/* What tests may ask of tests/cuda/fake_nvrtc.c, a libnvrtc.so.13 that turns a text into an image which tests/cuda/fake_cuda.c loads. */
#ifndef ATTUNE_TESTS_FAKE_NVRTC_H
#define ATTUNE_TESTS_FAKE_NVRTC_H

enum { FAKE_OPTIONS = 8, FAKE_ARCHITECTURES = 8 };

/* A text with #error does not compile; nor does one that holds `refused`. */
typedef struct fake_nvrtc_state {
    int major, minor;
    int architectures[FAKE_ARCHITECTURES], architecture_count; /* 10 · major + minor */
    const char *refused;                                       /* NULL: no other text */
    int create_code;                                           /* what creating a program gives */
    int compilations;                                          /* so far */
    char options[FAKE_OPTIONS][64];                            /* of the last one */
    int option_count;
    int live; /* programs that are not destroyed */
    void (*reset)(void);
} fake_nvrtc_state;

#endif
