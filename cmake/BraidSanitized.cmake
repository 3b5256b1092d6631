# Adds sanitized tests and fuzzers to the ordinary build, so that one configure, ninja and ctest run
# covers them. A test and its libraries are compiled again, as separate targets, with the flags of
# one sanitizer and with assertions enabled. They are compiled by clang if available, because clang
# is faster than g++, especially without optimisation.

# libtsan of g++ 12 fails to start on kernels that randomise more address bits than it supports
# ("unexpected memory mapping"), so instrumented programs use fixed addresses where permitted.
set(braid_fixed_addresses "")
execute_process(COMMAND setarch -R true RESULT_VARIABLE refused OUTPUT_QUIET ERROR_QUIET)
if(refused EQUAL 0)
  set(braid_fixed_addresses setarch -R)
endif()

# The fuzzers link the same libraries as the tests under ASan. Therefore, these libraries report
# which code has run. Only the sources of the fuzzers also report compared values, which would make
# tests twice as slow.
set(braid_asan_flags ${braid_address_flags} -fno-sanitize=object-size) # ASan finds these faults
if(BRAID_CLANG)
  list(APPEND braid_asan_flags -fsanitize-coverage=inline-8bit-counters,pc-table)
endif()
set(braid_tsan_flags ${braid_thread_flags})

# The targets in which instrumented tests spend most of their time. Other targets are not optimised,
# because optimisation takes more than half of the compile time.
set(braid_busy_targets braid_ir braid_lowering braid_runtime braid_backend_cpu braid_test_support
                       backends_test handmade_test property_test session_test)

# Compiles and links `target` with clang, if a clang++ with sanitizers is available.
function(braid_compile_by_clang target)
  if(BRAID_CLANG)
    set(instead ${PROJECT_SOURCE_DIR}/cmake/clang_instead.sh)
    set(compiler ${instead} ${CMAKE_CXX_COMPILER_LAUNCHER} ${BRAID_CLANG} --)
    target_compile_options(${target} BEFORE PRIVATE
      -include ${PROJECT_SOURCE_DIR}/cmake/vector_for_clang.h)
    set_target_properties(${target} PROPERTIES
      CXX_COMPILER_LAUNCHER "${compiler}" CXX_LINKER_LAUNCHER "${instead};${BRAID_CLANG};--")
  endif()
endfunction()

# Makes `twin` an instrumented copy of `original`, and creates the instrumented libraries that it
# links. Excludes code that no instrumented test runs: the GPU backends, and the sources that match
# the BRAID_PLAIN_SOURCES property of `original`, a regular expression.
function(braid_instrument twin original sanitizer)
  get_target_property(folder ${original} SOURCE_DIR)
  get_target_property(sources ${original} SOURCES)
  get_target_property(links ${original} LINK_LIBRARIES)
  get_target_property(definitions ${original} COMPILE_DEFINITIONS)
  get_target_property(plain ${original} BRAID_PLAIN_SOURCES)
  if(plain)
    list(FILTER sources EXCLUDE REGEX "${plain}")
  endif()
  list(REMOVE_ITEM links braid_backend_cuda braid_backend_nccl)
  list(REMOVE_ITEM definitions BRAID_HAS_CUDA)
  foreach(source ${sources})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder})
    target_sources(${twin} PRIVATE ${source})
  endforeach()
  foreach(link ${links})
    braid_instrumented_link(link ${sanitizer})
    target_link_libraries(${twin} PUBLIC ${link})
  endforeach()
  if(definitions)
    target_compile_definitions(${twin} PRIVATE ${definitions})
  endif()
  # A unity build is a third faster. Sources in one unit must not define the same local names.
  set_target_properties(${twin} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
  target_include_directories(${twin} PUBLIC ${PROJECT_SOURCE_DIR})
  braid_compile_by_clang(${twin})
  set(optimisation -O0)
  if(original IN_LIST braid_busy_targets)
    set(optimisation -O1)
  endif()
  if(BRAID_CLANG AND sanitizer STREQUAL "tsan")
    target_compile_definitions(${twin} PRIVATE __SANITIZE_THREAD__=1) # defined by g++
  endif()
  # Disables warnings, because g++ reports false positives here, and the ordinary build enables all
  # warnings.
  target_compile_options(${twin} PRIVATE ${optimisation} -g1 -UNDEBUG -fno-omit-frame-pointer -w
                                         ${braid_${sanitizer}_flags})
  target_link_options(${twin} PUBLIC ${braid_${sanitizer}_flags})
endfunction()

# Threads only read what these libraries have built, so TSan would find nothing in them.
set(braid_plain_in_tsan braid_ir braid_lowering)

# Replaces the library named in `variable` with its instrumented twin, if it belongs to Braid.
function(braid_instrumented_link variable sanitizer)
  set(link ${${variable}})
  if(sanitizer STREQUAL "tsan" AND link IN_LIST braid_plain_in_tsan)
    return()
  endif()
  if(link MATCHES "braid_flags")
    set(${variable} "" PARENT_SCOPE)
    return()
  endif()
  if(NOT TARGET ${link})
    return()
  endif()
  get_target_property(imported ${link} IMPORTED)
  if(imported)
    return()
  endif()
  set(twin ${link}_${sanitizer})
  if(NOT TARGET ${twin})
    add_library(${twin} STATIC)
    braid_instrument(${twin} ${link} ${sanitizer})
  endif()
  set(${variable} ${twin} PARENT_SCOPE)
endfunction()

# braid_sanitized_test(TEST asan|tsan [arguments ...])
# Adds an instrumented copy of the test program TEST, named TEST_asan or TEST_tsan.
function(braid_sanitized_test test sanitizer)
  set(twin ${test}_${sanitizer})
  add_executable(${twin})
  braid_instrument(${twin} ${test} ${sanitizer})
  braid_add_test(${twin} COMMAND ${braid_fixed_addresses} $<TARGET_FILE:${twin}> --gtest_brief=1
                                 ${ARGN}
                 LABELS sanitized)
endfunction()

# braid_sanitized_program(NAME asan|tsan SOURCES racy.cpp LINK braid_runtime ...)
# Adds a program that is only built with instrumentation. The caller registers its tests.
function(braid_sanitized_program name sanitizer)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "SOURCES;LINK")
  add_executable(${name} ${arg_SOURCES})
  braid_compile_by_clang(${name})
  foreach(link ${arg_LINK})
    braid_instrumented_link(link ${sanitizer})
    target_link_libraries(${name} PRIVATE ${link})
  endforeach()
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(${name} PRIVATE -O1 -g1 -UNDEBUG ${braid_${sanitizer}_flags})
endfunction()

# braid_fuzzer(fuzz_a.cpp LINK braid_ir ... [SOURCES b.cpp ...])
# Adds a fuzzer, and a test that runs it for FUZZ_SECONDS, starting from the seeds in
# tests/fuzz/corpus. If there is no clang++ that supports libFuzzer, the test is skipped.
function(braid_fuzzer source)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  cmake_path(GET source STEM name)
  if(NOT BRAID_CLANG)
    braid_add_test(${name} COMMAND sh -c "echo 'skipped: ${BRAID_CLANG_MISSING}'; exit 77"
                   LABELS fuzz)
    return()
  endif()
  braid_sanitized_program(${name} asan SOURCES ${source} ${arg_SOURCES} LINK ${arg_LINK})
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer-no-link)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  math(EXPR limit "${FUZZ_SECONDS} + 600") # only ends fuzzers that hang
  braid_add_test(${name} COMMAND ${CMAKE_COMMAND} -DFUZZER=$<TARGET_FILE:${name}>
                                 -DSECONDS=${FUZZ_SECONDS}
                                 -DSEEDS=${PROJECT_SOURCE_DIR}/tests/fuzz/corpus
                                 -P ${PROJECT_SOURCE_DIR}/cmake/RunFuzzer.cmake
                 LABELS fuzz SECONDS ${limit})
endfunction()
