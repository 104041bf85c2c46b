// The same from C++17.
#include <attune/attune.h>
#include <attune/device.h>
#include <attune/numerics.h>

#include <cstdio>
#include <vector>

int main()
{
    std::vector<float> q{1, 1}, k{1, 1, 1, 1}, v{1, 2, 3, 4}, o{0, 0};
    attune_context *context = nullptr;
    attune_problem problem;
    attune_forward_tensors tensors;
    std::size_t bytes = 0;

    attune_problem_init(&problem, ATTUNE_F32, 1, 1, 1, 1, 2, 2, 2);
    attune_forward_tensors_init(&tensors);
    if (attune_context_open("cpu", nullptr, &context) != ATTUNE_OK ||
        attune_forward_workspace_size(context, &problem, &bytes) != ATTUNE_OK) {
        std::fprintf(stderr, "%s\n", attune_error_detail());
        return 1;
    }
    std::vector<unsigned char> workspace(bytes);
    tensors.q.handle = q.data();
    tensors.k.handle = k.data();
    tensors.v.handle = v.data();
    tensors.o.handle = o.data();
    tensors.workspace.handle = workspace.data();
    const attune_status status = attune_forward(context, &problem, &tensors, nullptr);
    std::printf("attune %s: %s, o = (%g, %g)\n", attune_version(), attune_status_name(status), o[0],
                o[1]);
    attune_context_close(context);
    return status == ATTUNE_OK && o[0] == 2 && o[1] == 3 ? 0 : 1;
}
