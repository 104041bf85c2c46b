"""What a benchmark needs of Attune's C API, by ctypes on the shared library. The words are those of include/attune/attune.h."""

import ctypes
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_void_p

DTYPES = ("f32", "f16", "bf16")  # attune_dtype
MASK_NONE, MASK_CAUSAL = 0, 1  # attune_mask
SIZES = "batch heads_q heads_kv seqlen_q seqlen_k head_dim head_dim_v".split()
STRIDES = "q_strides k_strides v_strides o_strides".split()


class Problem(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("op", c_int),
        ("dtype", c_int),
        ("mask", c_int),
        ("return_lse", c_int32),
        *((name, c_int64) for name in SIZES),
        ("softmax_scale", c_double),
        *((name, c_int64 * 4) for name in STRIDES),
    ]


class Buffer(ctypes.Structure):
    _fields_ = [("handle", c_void_p), ("offset", c_size_t)]


class ForwardTensors(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        *((name, Buffer) for name in ("q", "k", "v", "o", "lse", "workspace")),
    ]


FUNCTIONS = {
    "attune_version": (c_char_p, []),
    "attune_status_name": (c_char_p, [c_int]),
    "attune_error_detail": (c_char_p, []),
    "attune_problem_init": (None, [POINTER(Problem), c_int] + 7 * [c_int64]),
    "attune_problem_print": (c_size_t, [POINTER(Problem), c_char_p, c_size_t]),
    "attune_forward_tensors_init": (None, [POINTER(ForwardTensors)]),
    "attune_context_open": (c_int, [c_char_p, c_void_p, POINTER(c_void_p)]),
    "attune_context_close": (None, [c_void_p]),
    "attune_plan_create": (c_int, [c_void_p, POINTER(Problem), c_void_p, POINTER(c_void_p)]),
    "attune_plan_destroy": (None, [c_void_p]),
    "attune_plan_workspace_size": (c_size_t, [c_void_p]),
    "attune_plan_kernel": (c_char_p, [c_void_p]),
    "attune_plan_run": (c_int, [c_void_p, POINTER(ForwardTensors), c_void_p]),
}


class AttuneError(RuntimeError):
    """A status that is not OK, with the library's sentence about it."""


class Library:
    def __init__(self, path):
        self._library = ctypes.CDLL(path)
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(self._library, name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name.removeprefix("attune_"), function)

    def check(self, status):
        if status != 0:
            name, detail = self.status_name(status), self.error_detail()
            raise AttuneError(f"{name.decode()}: {detail.decode()}")

    def problem(self, dtype, batch, heads, seqlen, head_dim, causal):
        """Self-attention on packed (batch, seq, head, dim)."""
        problem = Problem()
        sizes = (batch, heads, heads, seqlen, seqlen, head_dim, head_dim)
        self.problem_init(byref(problem), DTYPES.index(dtype), *sizes)
        same_struct(problem)
        problem.mask = MASK_CAUSAL if causal else MASK_NONE
        return problem

    def problem_string(self, problem):
        text = ctypes.create_string_buffer(512)
        self.problem_print(byref(problem), text, len(text))
        return text.value.decode()


class Device:
    def __init__(self, library, name):
        self.library, self.context = library, c_void_p()
        library.check(library.context_open(name.encode(), None, byref(self.context)))

    def close(self):
        self.library.context_close(self.context)


class Plan:
    def __init__(self, device, problem):
        self.library, self._plan = device.library, c_void_p()
        create = self.library.plan_create
        self.library.check(create(device.context, byref(problem), None, byref(self._plan)))
        self.kernel = self.library.plan_kernel(self._plan).decode()
        self.workspace_size = self.library.plan_workspace_size(self._plan)

    def runner(self, stream, **addresses):
        """A function that starts a run on device memory at the addresses of q, k, v, o and workspace."""
        tensors = ForwardTensors()
        self.library.forward_tensors_init(byref(tensors))
        same_struct(tensors)
        for name, address in addresses.items():
            setattr(tensors, name, Buffer(address, 0))
        return lambda: self.library.check(self.library.plan_run(self._plan, byref(tensors), stream))

    def close(self):
        self.library.plan_destroy(self._plan)


def same_struct(mirror):
    """The library, which has just filled the struct, must agree about its size."""
    if mirror.struct_size != ctypes.sizeof(mirror):
        raise AttuneError(f"{type(mirror).__name__} here is not the struct of the library's header")
