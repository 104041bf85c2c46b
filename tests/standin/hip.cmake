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
foreach(program identities hygiene)
    on_hip(${program} gfx942 plain $<TARGET_FILE:${program}> --devices hip:0 --require hip:0)
endforeach()

# At run time: a tile that no tuned.tsv names.
on_hip(compiled_here gfx1100 plain ${suite} ${large},d=24 --fill poison,ramp --kernel "*_simt_q8k16t64")
set_tests_properties(standin_hip_gfx1100_compiled_here PROPERTIES ENVIRONMENT "ATTUNE_TEST_HIPRTC=1;ATTUNE_CACHE=off")
