# on_cuda(<name> <mode> <command>...)
function(on_cuda name mode)
    add_test(NAME standin_cuda_${name} COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/with_cuda.sh" "${PROJECT_SOURCE_DIR}/build/standin/cuda" ${mode} ${ARGN})
    set_tests_properties(standin_cuda_${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900 LABELS standin ENVIRONMENT "OMP_WAIT_POLICY=passive")
endfunction()

set(devices --devices cpu,cuda:0 --require cpu,cuda:0)
set(suite $<TARGET_FILE:suite> ${devices})
set(thin ${problems_all} --fill normal,poison,ramp,needle,lastdim --thin)

# Ahead of time: the kernels that plans choose. Whether there are races, no value decides, and bf16 goes the way of f16.
foreach(dtype f32 f16)
    on_cuda(simt_${dtype} plain ${suite} ${thin} --engine simt --dtype ${dtype})
endforeach()
on_cuda(simt_fills plain ${suite} ${problems_tiny} --engine simt --fill all --dtype all --thin)
on_cuda(simt_seed_1 seed-1 ${suite} ${problems_tiny} ${problems_dims} --engine simt --fill poison,ramp --dtype f32)
on_cuda(simt_seed_2 seed-2 ${suite} ${problems_tiny} ${problems_dims} --engine simt --fill poison,ramp --dtype f16)
on_cuda(simt_race race ${suite} ${problems_tiny} ${problems_dims} ${problems_masks} --engine simt --fill poison --dtype f32,f16)
on_cuda(simt_same_bits plain $<TARGET_FILE:same_bits> ${devices} ${problems_tiny} --engine simt --fill ramp --dtype bf16)

# The kernels of f16 and bf16 differ in the unit's type and in how P is scaled, those of f32 (tf32) also in the loads of V: where each kernel has to be
# translated, tiny problems do.
foreach(dtype f16 bf16)
    on_cuda(matrix_${dtype} plain ${suite} ${thin} --engine matrix --dtype ${dtype})
endforeach()
on_cuda(matrix_fills plain ${suite} ${problems_tiny} --engine matrix --fill all --dtype all --thin)
on_cuda(matrix_seed_1 seed-1 ${suite} ${problems_tiny} --engine matrix --fill poison,ramp --dtype all)
on_cuda(matrix_seed_3 seed-3 ${suite} ${problems_tiles} --engine matrix --fill poison --dtype f16)
on_cuda(matrix_race race ${suite} ${problems_tiny} ${problems_tiles} --engine matrix --fill poison --dtype f16)
set(reproducible --engine matrix --reproducible)
on_cuda(reproducible plain ${suite} ${problems_tiny} ${problems_dims} ${problems_tiles} ${reproducible} --fill normal,poison,ramp --dtype f16)
on_cuda(reproducible_fills plain ${suite} ${problems_tiny} ${reproducible} --fill all --dtype f16,bf16 --thin)
on_cuda(reproducible_seed_2 seed-2 ${suite} ${problems_tiny} ${reproducible} --fill poison,ramp --dtype f16,bf16)
on_cuda(reproducible_race race ${suite} ${problems_tiny} ${reproducible} --fill poison --dtype f16,bf16)

foreach(program identities hygiene)
    on_cuda(${program} plain $<TARGET_FILE:${program}> --devices cuda:0 --require cuda:0)
endforeach()

# At run time: a tile that no tuned.tsv names.
set(elsewhere --kernel "*_simt_q8k16t64")
on_cuda(compiled_here plain ${suite} ${problems_tiny} --fill poison,ramp --dtype bf16 ${elsewhere})
on_cuda(compiled_here_race race ${suite} ${problems_tiny} --fill poison --dtype bf16 ${elsewhere})

# The tuner's whole way, by the stand-in's clock: reproducible tiles, compiled ahead of time and here.
set(tuned op=forward,b=1,hq=1,hkv=1,sq=9,sk=17,d=64,dtype=f16)
on_cuda(tune plain $<TARGET_FILE:attune_command> tune --device cuda:0 --db "${CMAKE_CURRENT_BINARY_DIR}/cuda.db" --problem ${tuned}
    --kernel "forward_f16_d64_matrix_q*k64t128b2h1r1u0")
set_tests_properties(standin_cuda_tune PROPERTIES PASS_REGULAR_EXPRESSION "the same bits: [1-9].* 0 differ.*best: .*r1u0")

# 2^x in the driver's own instruction, and one that is off by a unit in the last place of x.
set(exp2 "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/tools/gpu/exp2.py")
on_cuda(exp2 plain ${exp2})
on_cuda(exp2_fault plain ${exp2} --instructions "mul.f32 %x, %x, 0f3F800001$<SEMICOLON> ex2.approx.ftz.f32 %y, %x$<SEMICOLON>")
set_tests_properties(standin_cuda_exp2_fault PROPERTIES PASS_REGULAR_EXPRESSION "FAIL: reproducible kernels need another")

# Compiled PTX, and the same text with emulated instructions: the same bits, in every dtype that a matrix unit takes; and not those of another model.
set(units "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/tools/gpu/units.py" --command $<TARGET_FILE:attune_command> --rehearsal --budget 300)
on_cuda(units plain ${units} --expect emulated:nvidia)
on_cuda(units_differ plain ${units} --expect emulated:nvidia-hopper)
set_tests_properties(standin_cuda_units_differ PROPERTIES WILL_FAIL ON)

add_test(NAME standin_cuda_conflicts COMMAND "${Python3_EXECUTABLE}" -B "${CMAKE_CURRENT_SOURCE_DIR}/cuda_model.py" "${PROJECT_BINARY_DIR}" --check)
set_tests_properties(standin_cuda_conflicts PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600 LABELS "standin;slow")
