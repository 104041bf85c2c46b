# on_hip(<name> <architecture> <mode> <command>...): what runs after others of its architecture finds their kernels translated
function(on_hip name arch mode)
    set(test standin_hip_${arch}_${name})
    add_test(NAME ${test} COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/with_hip.sh" "${PROJECT_SOURCE_DIR}/build/standin/hip" ${arch} ${mode} ${ARGN})
    set_tests_properties(${test} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900 LABELS standin)
    if(NOT name STREQUAL "simt")
        set_tests_properties(${test} PROPERTIES DEPENDS standin_hip_${arch}_simt)
    endif()
endfunction()

set(devices --devices cpu,hip:0 --require cpu,hip:0)
set(suite $<TARGET_FILE:suite> ${devices})

# Ahead of time, in waves of 64 (gfx942) and of 32 (gfx1100). To translate a kernel takes seconds, so problems are tiny: two capacities, and of the
# others a problem each.
set(thin ${problems_tiny} --engine simt --fill normal,poison,ramp,needle,lastdim --thin)
on_hip(simt gfx942 plain ${suite} ${thin} --dtype all)
on_hip(simt gfx1100 plain ${suite} ${thin} --dtype f32,f16)
set(large --problem op=forward,b=1,hq=2,hkv=1,sq=41,sk=70,dtype=f16,mask=causal,lse=1)
on_hip(simt_d96 gfx1100 plain ${suite} ${large},d=95,dv=80 --engine simt --fill poison)
on_hip(simt_d192 gfx942 plain ${suite} ${large},d=192,dv=130 --engine simt --fill poison)
on_hip(simt_d256 gfx942 plain ${suite} ${large},d=256 --engine simt --fill poison)
on_hip(simt_seed_1 gfx942 seed-1 ${suite} ${problems_tiny} --engine simt --fill poison --dtype f32)
on_hip(simt_seed_2 gfx1100 seed-2 ${suite} ${problems_tiny} --engine simt --fill poison --dtype f16)
on_hip(simt_race gfx942 race ${suite} ${problems_tiny} --engine simt --fill poison --dtype f16)
on_hip(simt_race gfx1100 race ${suite} ${problems_tiny} --engine simt --fill poison --dtype f32)

# Matrix units: MFMA 32x32x8 and 16x16x16 on gfx942 (head_dim 64 and 32), WMMA on gfx1100.
foreach(arch gfx942 gfx1100)
    set(matrix ${suite} ${problems_tiny} --engine matrix)
    on_hip(matrix ${arch} plain ${matrix} --fill all --dtype f16,bf16 --thin)
    on_hip(matrix_seed_1 ${arch} seed-1 ${matrix} --fill poison,ramp --dtype f16)
    on_hip(matrix_race ${arch} race ${matrix} --fill poison --dtype f16)
    on_hip(reproducible ${arch} plain ${matrix} --reproducible --fill all --dtype f16,bf16 --thin)
    on_hip(reproducible_seed_2 ${arch} seed-2 ${matrix} --reproducible --fill poison --dtype f16,bf16)
    on_hip(reproducible_seed_3 ${arch} seed-3 ${matrix} --reproducible --fill ramp --dtype f16,bf16)
    on_hip(reproducible_race ${arch} race ${matrix} --reproducible --fill poison --dtype f16)
    foreach(program identities hygiene)
        on_hip(${program} ${arch} plain $<TARGET_FILE:${program}> --devices hip:0 --require hip:0)
    endforeach()
endforeach()

# Of each unit two tiles, a row alone, chunks of queries: the same bits. Preset `test` builds the tile of other keys than tuned.tsv's.
function(on_hip_same_bits unit arch kernel)
    string(REGEX MATCH "d[0-9]+" head_dim "${kernel}")
    string(REPLACE "d" "d=" head_dim "${head_dim}")
    on_hip(reproducible_same_bits_${unit} ${arch} plain $<TARGET_FILE:same_bits> --devices hip:0 --require hip:0
        --problem "op=forward,b=1,hq=2,hkv=1,sq=70,sk=150,${head_dim},dtype=f16,mask=causal,lse=1" --fill ramp --kernel "${kernel}")
endfunction()
on_hip_same_bits(u1 gfx942 "forward_f16_d64_matrix_q128k??t256b2h1r1u1")
on_hip_same_bits(u2 gfx942 "forward_f16_d32_matrix_q128k??t256b2h1r1u2")
on_hip_same_bits(u3 gfx1100 "forward_f16_d64_matrix_q128k*2*t256b2h0r1u3")

# Compiled code objects, and the same text with emulated instructions: the same bits; and not those of another model.
set(units "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/tools/gpu/units.py" --command $<TARGET_FILE:attune_command> --device hip:0 --rehearsal --budget 300)
on_hip(units gfx942 plain ${units} --expect emulated:amd)
on_hip(units gfx1100 plain ${units} --expect emulated:amd-rdna3)
on_hip(units_differ gfx942 plain ${units} --expect emulated:amd-cdna3)
set_tests_properties(standin_hip_gfx942_units_differ PROPERTIES WILL_FAIL ON)

# The tuner's whole way, by the stand-in's clock, of two tiles each; on gfx1100 one of them spills.
function(on_hip_tune arch kernels expected)
    on_hip(tune ${arch} plain $<TARGET_FILE:attune_command> tune --device hip:0 --db "${CMAKE_CURRENT_BINARY_DIR}/${arch}.db"
        --problem op=forward,b=1,hq=1,hkv=1,sq=9,sk=17,d=64,dtype=f16 --kernel "${kernels}")
    set_tests_properties(standin_hip_${arch}_tune PROPERTIES PASS_REGULAR_EXPRESSION "${expected}")
endfunction()
on_hip_tune(gfx942 "forward_f16_d64_matrix_q128k??t256b2h1r1u1" "2 candidates: 2 right.*the same bits: 1 kernel .* 0 differ.*best: .*r1u1")
on_hip_tune(gfx1100 "forward_f16_d64_matrix_q128k*2*t256b2h0r1u3" "pruned .*k128.*: spills [0-9]+ bytes.*2 candidates: 1 right, 1 pruned.*best: .*r1u3")

# At run time: a tile that no tuned.tsv names.
on_hip(compiled_here gfx1100 plain ${suite} ${large},d=24 --fill poison,ramp --kernel "*_simt_q8k16t64")
set_tests_properties(standin_hip_gfx1100_compiled_here PROPERTIES ENVIRONMENT "ATTUNE_TEST_HIPRTC=1;ATTUNE_CACHE=off")
