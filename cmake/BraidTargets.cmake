# Functions that create targets, so that the CMakeLists.txt of each folder only lists names.

# The compile options for all code in this repository. Never installed.
add_library(braid_flags INTERFACE)
target_compile_options(braid_flags INTERFACE
                       $<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;-Wshadow;-Wswitch;-Werror>)
if(CMAKE_UNITY_BUILD)
  # In a unity build, g++ treats all sources except the first of a batch as headers.
  target_compile_options(braid_flags INTERFACE
                         $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endif()

# By default, g++ spends a tenth of its time on garbage collection, even with several GiB of memory.
target_compile_options(braid_flags INTERFACE
                       "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:SHELL:--param ggc-min-heapsize=1048576>")

# ASan and TSan cannot be combined, so there are two kinds of instrumented builds.
set(braid_address_flags -fsanitize=address,undefined -fno-sanitize-recover=all)
set(braid_thread_flags -fsanitize=thread)
if(BRAID_SANITIZE AND NOT BRAID_SANITIZE MATCHES "^(address|thread)$")
  message(FATAL_ERROR "expected BRAID_SANITIZE to be address or thread, got ${BRAID_SANITIZE}")
endif()
if(BRAID_SANITIZE)
  # g++ 12 reports values as possibly uninitialised when it instruments std::variant and optional.
  target_compile_options(braid_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:
                                               ${braid_${BRAID_SANITIZE}_flags}
                                               -Wno-maybe-uninitialized>)
  target_link_options(braid_flags INTERFACE ${braid_${BRAID_SANITIZE}_flags})
endif()

# braid_library(NAME SOURCES a.cpp ... [LINK braid_ir braid::fmt ...])
# Adds a static library for one layer. LINK is public and lists the layers below; LLVM and fmt are
# linked automatically. The library is installed with the package, unless it belongs to the tests.
function(braid_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  add_library(${name} STATIC ${arg_SOURCES})
  # The library may become part of the shared library, which exports only its C interface.
  set_target_properties(${name} PROPERTIES
    POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                            $<INSTALL_INTERFACE:include/braid>)
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_link_libraries(${name} PUBLIC ${arg_LINK} braid::llvm
                                PRIVATE $<BUILD_INTERFACE:braid_flags>)
  if(NOT name STREQUAL "braid_fmt")
    target_link_libraries(${name} PUBLIC braid_fmt)
  endif()
  if(NOT CMAKE_CURRENT_SOURCE_DIR MATCHES "^${PROJECT_SOURCE_DIR}/tests")
    set_property(GLOBAL APPEND PROPERTY BRAID_LIBRARIES ${name})
  endif()
endfunction()

# braid_link_portably(TARGET)
# Links TARGET so that it depends only on the C library. Shared libraries and the contents of Python
# packages must work with glibc 2.34, but the static unwinder of g++ 12 requires 2.35, so they use
# the shared unwinder.
function(braid_link_portably target)
  get_target_property(type ${target} TYPE)
  set(unwinder -static-libgcc)
  if(SKBUILD OR type STREQUAL "SHARED_LIBRARY")
    set(unwinder -shared-libgcc)
  endif()
  if(NOT BRAID_SANITIZE)
    target_link_options(${target} PRIVATE -static-libstdc++ ${unwinder})
  endif()
endfunction()

# braid_executable(NAME SOURCES main.cpp ... [LINK braid_api ...])
# Adds a program that depends only on the C library, so that it starts on any machine.
function(braid_executable name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_LINK} braid_flags)
  target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/glibc_2_34.c)
  braid_link_portably(${name})
endfunction()

# Tests that take half a minute or more, including the time that they spend waiting.
set(braid_long_tests property_test_tsan property_test_asan backends_test_tsan mutation_test
                     generated_test lit_tools launch_test p2p_command_test
                     gpu_suite hosts_faults network_test)

# The symbolizer for sanitizer reports of code that clang has instrumented.
set(braid_symbolizer "")
if(EXISTS ${BRAID_LLVM_TOOLS}/llvm-symbolizer)
  set(braid_symbolizer " external_symbolizer_path=${BRAID_LLVM_TOOLS}/llvm-symbolizer")
endif()

# braid_add_test(NAME COMMAND program arguments ... [LABELS ...] [SECONDS n])
# Registers a test that runs in the root folder of the repository, so that it finds examples/. Exit
# status 77 means that the test was skipped; the test prints the reason.
function(braid_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "SECONDS" "COMMAND;LABELS")
  if(NOT arg_SECONDS)
    set(arg_SECONDS 1800) # only ends tests that hang; a busy machine makes tests much slower
  endif()
  add_test(NAME ${name} COMMAND ${arg_COMMAND} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_SECONDS} SKIP_RETURN_CODE 77
                                          LABELS "${arg_LABELS}")
  # ctest starts the longest tests first, because a long test at the end would run alone.
  if(name IN_LIST braid_long_tests)
    set_tests_properties(${name} PROPERTIES COST 200)
  elseif("sanitized" IN_LIST arg_LABELS)
    set_tests_properties(${name} PROPERTIES COST 60)
  endif()
  if(name MATCHES "_tsan$" OR BRAID_SANITIZE STREQUAL "thread")
    set(options "halt_on_error=1 second_deadlock_stack=1${braid_symbolizer}")
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "TSAN_OPTIONS=${options}")
  elseif(name MATCHES "_asan$" OR BRAID_SANITIZE STREQUAL "address")
    set_tests_properties(${name} PROPERTIES
                         ENVIRONMENT "UBSAN_OPTIONS=print_stacktrace=1${braid_symbolizer}")
  endif()
endfunction()

# Precompiles the headers that most tests include, which halves the compile time of tests. Optimised
# tests do not use them, because g++ 12 would report false overflows in its own standard library.
if(BRAID_BUILD_TESTS)
  file(CONFIGURE OUTPUT braid_test_headers.cpp CONTENT "// Headers are precompiled for this.\n")
  add_library(braid_test_headers OBJECT ${CMAKE_CURRENT_BINARY_DIR}/braid_test_headers.cpp)
  target_compile_features(braid_test_headers PRIVATE cxx_std_20)
  target_compile_options(braid_test_headers PRIVATE -O0)
  target_link_libraries(braid_test_headers PRIVATE GTest::gmock GTest::gtest braid::llvm
                                                   braid::fmt braid_flags)
  target_precompile_headers(
    braid_test_headers PRIVATE
    <algorithm> <functional> <map> <string> <vector> <fmt/format.h> <gmock/gmock.h>
    <gtest/gtest.h> <llvm/ADT/STLExtras.h> <llvm/ADT/SmallVector.h> <llvm/ADT/ilist.h>)
endif()

# GNU gold links tests in half the time. Installed binaries are linked by the default linker.
set(braid_test_linker "")
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -fuse-ld=gold -Wl,--version RESULT_VARIABLE refused
                OUTPUT_QUIET ERROR_QUIET)
if(refused EQUAL 0)
  set(braid_test_linker -fuse-ld=gold)
endif()

# braid_test(NAME SOURCES a_test.cpp ... [LINK braid_ir ...] [OPTIMISED])
# Adds a GoogleTest program that ctest runs as one test of the same name. GTest's main and GMock are
# linked. Use OPTIMISED for long tests: if a test and a library both contain an inline function from
# a header, the linker uses the test's copy for both, which is slow unless the test is optimised.
function(braid_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "OPTIMISED" "" "SOURCES;LINK")
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_LINK} GTest::gmock GTest::gtest GTest::gtest_main
                                        braid_flags)
  target_link_options(${name} PRIVATE ${braid_test_linker})
  if(arg_OPTIMISED)
    target_compile_options(${name} PRIVATE -O1)
  else()
    target_compile_options(${name} PRIVATE -O0) # compiles fast; the tested libraries are optimised
    target_precompile_headers(${name} REUSE_FROM braid_test_headers)
  endif()
  braid_add_test(${name} COMMAND ${name} --gtest_brief=1)
endfunction()

# braid_benchmark(NAME SOURCES a_bench.cpp ... [LINK braid_ir ...])
# Adds a Google Benchmark program. ctest runs each benchmark briefly, to check that it still works.
function(braid_benchmark name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  find_package(benchmark REQUIRED)
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_LINK} benchmark::benchmark braid_flags)
  braid_add_test(${name} COMMAND ${name} --benchmark_min_time=0.01 LABELS bench)
endfunction()
