/* A libOpenCL.so.1 from before the functions that the library needs. */
__attribute__((visibility("default"))) int clGetPlatformIDs(void);

int clGetPlatformIDs(void)
{
    return 0;
}
