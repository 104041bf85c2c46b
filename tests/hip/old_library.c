/* A libamdhip64 from before the functions that the library needs. */
__attribute__((visibility("default"))) int hipInit(unsigned flags);

int hipInit(unsigned flags)
{
    (void)flags;
    return 0;
}
