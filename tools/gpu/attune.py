"""What a benchmark needs of Attune's C API, by ctypes on the shared library. The words are those of include/attune/attune.h."""

import ctypes
from collections import namedtuple
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_void_p

DTYPES = ("f32", "f16", "bf16")  # attune_dtype
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


class PlanOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("kernel", c_char_p),
        ("engine", c_char_p),
        ("reproducible", c_int32),
        ("allow_tf32", c_int32),
    ]


class KernelInfo(ctypes.Structure):
    _fields_ = [
        ("id", c_char_p),
        ("engine", c_char_p),
        ("reason", c_char_p),
        ("reproducible", c_int32),
        ("tf32", c_int32),
    ]


Kernel = namedtuple("Kernel", "id engine reproducible")
KernelVisitor = ctypes.CFUNCTYPE(c_int, POINTER(KernelInfo), c_void_p)

FUNCTIONS = {
    "attune_status_name": (c_char_p, [c_int]),
    "attune_error_detail": (c_char_p, []),
    "attune_problem_parse": (c_int, [c_char_p, POINTER(Problem)]),
    "attune_problem_init": (None, [POINTER(Problem), c_int] + 7 * [c_int64]),
    "attune_forward_tensors_init": (None, [POINTER(ForwardTensors)]),
    "attune_context_open": (c_int, [c_char_p, c_void_p, POINTER(c_void_p)]),
    "attune_context_close": (None, [c_void_p]),
    "attune_buffer_alloc": (c_int, [c_void_p, c_size_t, POINTER(Buffer)]),
    "attune_buffer_free": (None, [c_void_p, POINTER(Buffer)]),
    "attune_buffer_write": (c_int, [c_void_p, Buffer, c_char_p, c_size_t, c_void_p]),
    "attune_kernels_visit": (
        c_int,
        [c_void_p, POINTER(Problem), POINTER(PlanOptions), KernelVisitor, c_void_p],
    ),
    "attune_plan_options_init": (None, [POINTER(PlanOptions)]),
    "attune_plan_create": (
        c_int,
        [c_void_p, POINTER(Problem), POINTER(PlanOptions), POINTER(c_void_p)],
    ),
    "attune_plan_destroy": (None, [c_void_p]),
    "attune_plan_workspace_size": (c_size_t, [c_void_p]),
    "attune_plan_kernel": (c_char_p, [c_void_p]),
    "attune_plan_run": (c_int, [c_void_p, POINTER(ForwardTensors), c_void_p]),
    "attune_plan_time": (c_int, [c_void_p, POINTER(ForwardTensors), c_void_p, POINTER(c_double)]),
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

    def problem(self, text):
        """The problem of a problem string."""
        problem = Problem()
        self.problem_init(byref(problem), 0, *7 * [0])
        same_struct(problem)
        self.check(self.problem_parse(text.encode(), byref(problem)))
        return problem

    def plan_options(self, kernel=None, engine=None, reproducible=False):
        options = PlanOptions()
        self.plan_options_init(byref(options))
        same_struct(options)
        options.kernel = kernel and kernel.encode()
        options.engine = engine and engine.encode()
        options.reproducible = reproducible
        return options


class Device:
    def __init__(self, library, name):
        self.library, self.name, self.context = library, name, c_void_p()
        library.check(library.context_open(name.encode(), None, byref(self.context)))

    def kernels(self, problem, **options):
        """The kernels that a plan with these options may use, the preferred one first."""
        found = []

        def visit(info, _):
            kernel = info.contents
            if kernel.reason is None:
                name, engine = kernel.id.decode(), kernel.engine.decode()
                found.append(Kernel(name, engine, kernel.reproducible == 1))
            return 0

        library = self.library
        asked = byref(library.plan_options(**options))
        visitor = KernelVisitor(visit)
        library.check(library.kernels_visit(self.context, byref(problem), asked, visitor, None))
        return found

    def allocate(self, size):
        buffer = Buffer()
        self.library.check(self.library.buffer_alloc(self.context, size, byref(buffer)))
        return buffer

    def write(self, buffer, content):
        library = self.library
        library.check(library.buffer_write(self.context, buffer, content, len(content), None))

    def free(self, buffer):
        self.library.buffer_free(self.context, byref(buffer))

    def close(self):
        self.library.context_close(self.context)


class Plan:
    """`options`: those of Library.plan_options."""

    def __init__(self, device, problem, **options):
        library = self.library = device.library
        self._plan = c_void_p()
        asked = byref(library.plan_options(**options))
        library.check(library.plan_create(device.context, byref(problem), asked, byref(self._plan)))
        self.kernel = library.plan_kernel(self._plan).decode()
        self.workspace_size = library.plan_workspace_size(self._plan)

    def _tensors(self, buffers):
        tensors = ForwardTensors()
        self.library.forward_tensors_init(byref(tensors))
        same_struct(tensors)
        for name, buffer in buffers.items():
            setattr(tensors, name, buffer)
        return tensors

    def runner(self, stream, **addresses):
        """A function that starts a run on device memory at the addresses of q, k, v, o and workspace."""
        tensors = self._tensors({name: Buffer(at, 0) for name, at in addresses.items()})
        return lambda: self.library.check(self.library.plan_run(self._plan, byref(tensors), stream))

    def timer(self, **buffers):
        """A function that runs on these buffers, waits, and returns the run's milliseconds."""
        tensors, milliseconds = self._tensors(buffers), c_double()

        def run():
            time = self.library.plan_time
            self.library.check(time(self._plan, byref(tensors), None, byref(milliseconds)))
            return milliseconds.value

        return run

    def close(self):
        self.library.plan_destroy(self._plan)


def same_struct(mirror):
    """The library, which has just filled the struct, must agree about its size."""
    if mirror.struct_size != ctypes.sizeof(mirror):
        raise AttuneError(f"{type(mirror).__name__} here is not the struct of the library's header")
