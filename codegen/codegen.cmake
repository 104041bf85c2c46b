# attune_add_kernels(<library> <target>): renders the kernels of a target of templates/attention.toml into
# <build>/generated/<target> and adds the C sources among them to the library, each compiled for its instruction set.
# With "" for the library they are rendered and no more. attune_texts_<target> lists the kernels' texts, attune_classes_<target> the device
# classes of the target; attune_classes_<id> and attune_flags_<id> say for which of them a text is, and with which flags it is compiled;
# attune_flags_<target> are the flags of all of them, where there is one set.
#
# Rendering is one run of codegen/generate.py per target, when a template that the target reads has changed (it says itself which they
# are). It writes only what differs, so touching a template rebuilds what it feeds and nothing else. ATTUNE_EXTRA_KERNELS (globs over
# kernel ids) adds points to those that tuned.tsv names, ATTUNE_TUNED_KERNELS leaves out those of them that no glob of it matches.

set(ATTUNE_EXTRA_KERNELS "" CACHE STRING "Globs over kernel ids: points to build beyond those that tuned.tsv names")
set(ATTUNE_TUNED_KERNELS "*" CACHE STRING "Globs over kernel ids: the points to build, of those that tuned.tsv names")
set(ATTUNE_TEMPLATES_DIR "${PROJECT_SOURCE_DIR}/templates" CACHE PATH "Folder of the kernel templates")
mark_as_advanced(ATTUNE_TEMPLATES_DIR)

find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)

# Flags of every generated C kernel: nothing may fuse, reorder or approximate (docs/canonical-arithmetic.md).
set(ATTUNE_KERNEL_OPTIMIZATION -O3 CACHE STRING "Optimization of the generated C kernels")
mark_as_advanced(ATTUNE_KERNEL_OPTIMIZATION)
set(ATTUNE_KERNEL_FLAGS ${ATTUNE_KERNEL_OPTIMIZATION} -ffp-contract=off -fno-math-errno -Wno-unused-parameter)

function(attune_add_kernels library target)
    set(out "${PROJECT_BINARY_DIR}/generated/${target}")
    string(REPLACE ";" "," globs "${ATTUNE_EXTRA_KERNELS}")
    string(REPLACE ";" "," tuned_globs "${ATTUNE_TUNED_KERNELS}")
    set(command "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/codegen/generate.py" --render ${target} --arch=${CMAKE_SYSTEM_PROCESSOR}
        --templates "${ATTUNE_TEMPLATES_DIR}" "--points=${globs}" "--tuned=${tuned_globs}" --out "${out}")
    execute_process(COMMAND ${command} --outputs
        OUTPUT_VARIABLE outputs ERROR_VARIABLE reason RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(failed)
        message(FATAL_ERROR "cannot generate kernels: ${reason}")
    endif()

    set(files "")
    string(REPLACE "\n" ";" outputs "${outputs}")
    foreach(line IN LISTS outputs)
        string(REPLACE "|" ";" fields "${line}")
        list(POP_FRONT fields file classes)
        if(file STREQUAL "")
            set(attune_flags_${target} "${fields}" PARENT_SCOPE)
            continue()
        endif()
        list(APPEND files "${file}")
        string(REPLACE "," ";" classes "${classes}")
        get_filename_component(id "${file}" NAME_WE)
        if(id STREQUAL "kernel_table_${target}")
            set(attune_classes_${target} "${classes}" PARENT_SCOPE)
            set_source_files_properties("${file}" PROPERTIES INCLUDE_DIRECTORIES "${PROJECT_SOURCE_DIR}/backends;${PROJECT_SOURCE_DIR}/include")
        else()
            set(attune_classes_${id} "${classes}" PARENT_SCOPE)
            set(attune_flags_${id} "${fields}" PARENT_SCOPE)
            set_source_files_properties("${file}" PROPERTIES COMPILE_OPTIONS "${ATTUNE_KERNEL_FLAGS};${fields}")
        endif()
    endforeach()

    # What --outputs says depends on these; the texts depend also on the templates that STAMP.d names.
    file(GLOB points CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/codegen/*.py" "${PROJECT_SOURCE_DIR}/backends/*/tuned.tsv")
    list(APPEND points "${ATTUNE_TEMPLATES_DIR}/attention.toml")
    set_property(DIRECTORY "${PROJECT_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${points})

    # The stamp says that rendering ran; the texts are byproducts that keep their time when they keep their bytes.
    set(stamp "${PROJECT_BINARY_DIR}/generated/${target}.stamp")
    list(FILTER points EXCLUDE REGEX "tuned\\.tsv$")
    add_custom_command(OUTPUT "${stamp}" BYPRODUCTS ${files}
        COMMAND ${command} --stamp "${stamp}"
        DEPENDS ${points}
        DEPFILE "${stamp}.d"
        COMMENT "Rendering the kernels of ${target}" VERBATIM)
    add_custom_target(attune_render_${target} ALL DEPENDS "${stamp}")
    set_source_files_properties(${files} PROPERTIES GENERATED TRUE)
    set(texts ${files})
    list(FILTER texts EXCLUDE REGEX "/kernel_table_${target}\\.c$")
    set(attune_texts_${target} ${texts} PARENT_SCOPE)
    if(library)
        add_dependencies(${library} attune_render_${target})
        list(FILTER files INCLUDE REGEX "\\.c$")
        target_sources(${library} PRIVATE ${files})
    endif()
endfunction()

# attune_embed_images(<library> <C file> <name> <compiler> <image>...): writes a C file that defines the array <name> of gpu_image (backends/gpu/gpu.h)
# and the text <name>_compiler, which says what compiled them ("" where there are none), and adds it to the library. Each image is there under its kernel's id and its architecture: KERNEL.ARCHITECTURE.<anything>, or KERNEL.<anything> where the
# image chooses by itself. The assembler reads the images themselves.
function(attune_embed_images library file name compiler)
    string(REGEX REPLACE "[\"\\\\;]" "" compiler "${compiler}") # it is put between quotes
    if(NOT ARGN)
        set(compiler "")
    endif()
    set(blobs "")
    set(entries "")
    foreach(image IN LISTS ARGN)
        get_filename_component(image_name "${image}" NAME)
        string(REPLACE "." ";" parts "${image_name}")
        list(POP_BACK parts)
        list(POP_FRONT parts id architecture)
        set(symbol "${id}_${architecture}")
        string(APPEND blobs "EMBED(${symbol}, \"${image}\")\n")
        string(APPEND entries "    {\"${id}\", \"${architecture}\", image_${symbol}},\n")
    endforeach()
    configure_file("${PROJECT_SOURCE_DIR}/codegen/images.c.in" "${file}" @ONLY)
    set_source_files_properties("${file}" TARGET_DIRECTORY ${library} PROPERTIES OBJECT_DEPENDS "${ARGN}"
        INCLUDE_DIRECTORIES "${PROJECT_SOURCE_DIR}/backends;${PROJECT_SOURCE_DIR}/backends/gpu;${PROJECT_SOURCE_DIR}/include")
    target_sources(${library} PRIVATE "${file}")
    if(ARGN)
        add_custom_target(${name} DEPENDS ${ARGN})
        add_dependencies(${library} ${name})
    endif()
endfunction()
