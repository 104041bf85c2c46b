/* A libcuda.so.1, or a libnvrtc.so, from before the functions that the library needs. */
__attribute__((visibility("default"))) int cuInit(unsigned flags);

int cuInit(unsigned flags)
{
    (void)flags;
    return 0;
}
