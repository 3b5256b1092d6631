# The functions that make targets, so that every folder's CMakeLists.txt is a list of names.

# What all code of this repository is compiled with. Never installed.
add_library(braid_flags INTERFACE)
target_compile_options(braid_flags INTERFACE
                       $<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;-Wshadow;-Wswitch;-Werror>)
if(CMAKE_UNITY_BUILD)
  # It takes every source but the first of a batch for a header.
  target_compile_options(braid_flags INTERFACE
                         $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endif()

# g++ collects garbage more often than a machine with a few GiB needs: a tenth of its time.
target_compile_options(braid_flags INTERFACE
                       "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:SHELL:--param ggc-min-heapsize=1048576>")

# Two sanitizers at most work together, so there are two kinds of instrumented build.
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
# A static library of one layer. LINK is public and names the layers below; LLVM and fmt come along.
# It is part of the installed package, unless it belongs to the tests.
function(braid_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  add_library(${name} STATIC ${arg_SOURCES})
  # It may become a part of the shared library, which shows nothing but its C interface.
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
# Needs the C library alone. What is for other machines starts where that is 2.34 or later: the
# static unwinder of g++ 12 asks for 2.35, so such targets take the one that every system has.
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
# A program that starts on a machine that has nothing but the C library.
function(braid_executable name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_LINK} braid_flags)
  target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/glibc_2_34.c)
  braid_link_portably(${name})
endfunction()

# Those of half a minute and more, whether they compute or wait.
set(braid_long_tests property_test_tsan property_test_asan backends_test_tsan mutation_test
                     generated_test lit_tools launch_test p2p_command_test
                     gpu_suite hosts_faults network_test)

# For the reports of what clang has instrumented.
set(braid_symbolizer "")
if(EXISTS ${BRAID_LLVM_TOOLS}/llvm-symbolizer)
  set(braid_symbolizer " external_symbolizer_path=${BRAID_LLVM_TOOLS}/llvm-symbolizer")
endif()

# braid_add_test(NAME COMMAND program arguments ... [LABELS ...] [SECONDS n])
# Registers a test that runs from the repository's root, so that it finds examples/. Exit status 77
# means skipped; the reason is in its output.
function(braid_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "SECONDS" "COMMAND;LABELS")
  if(NOT arg_SECONDS)
    set(arg_SECONDS 600)
  endif()
  add_test(NAME ${name} COMMAND ${arg_COMMAND} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_SECONDS} SKIP_RETURN_CODE 77
                                          LABELS "${arg_LABELS}")
  # ctest starts with what takes longest: one long test at the end would run alone.
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

# Headers that most tests include, compiled once for all of them: tests then take half the time to
# compile. Not for optimised code, where g++ 12 would report false overflows in its own library.
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

# GNU gold links a test in half the time. What others get is linked by the usual linker.
set(braid_test_linker "")
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -fuse-ld=gold -Wl,--version RESULT_VARIABLE refused
                OUTPUT_QUIET ERROR_QUIET)
if(refused EQUAL 0)
  set(braid_test_linker -fuse-ld=gold)
endif()

# braid_test(NAME SOURCES a_test.cpp ... [LINK braid_ir ...] [OPTIMISED])
# A GoogleTest program, run by ctest as one test of the same name. GTest's main and GMock come
# along. OPTIMISED is for what runs long: where a test and a library have the same inline function
# of a header, the linker takes the test's, for both.
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
    target_compile_options(${name} PRIVATE -O0) # what is tested is optimised; compiling counts here
    target_precompile_headers(${name} REUSE_FROM braid_test_headers)
  endif()
  braid_add_test(${name} COMMAND ${name} --gtest_brief=1)
endfunction()

# braid_benchmark(NAME SOURCES a_bench.cpp ... [LINK braid_ir ...])
# A Google Benchmark program. ctest runs every benchmark for a moment, to see that it still works.
function(braid_benchmark name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  find_package(benchmark REQUIRED)
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_LINK} benchmark::benchmark braid_flags)
  braid_add_test(${name} COMMAND ${name} --benchmark_min_time=0.01 LABELS bench)
endfunction()
