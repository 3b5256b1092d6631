# Finds clang++, which is used alongside the main compiler: only clang++ supports libFuzzer, and it
# compiles instrumented code faster than g++.

# Sets BRAID_CLANG to a clang++ that supports libFuzzer and the sanitizers. If none is found, sets
# BRAID_CLANG_MISSING to the reason.
function(braid_find_clang)
  if(BRAID_CLANG)
    return()
  endif()
  set(names clang++)
  foreach(version ${braid_llvm_versions})
    list(APPEND names clang++-${version})
  endforeach()
  find_program(clang NAMES ${names} HINTS ${BRAID_LLVM_TOOLS} NO_CACHE)
  if(NOT clang)
    set(BRAID_CLANG_MISSING "no clang++ found" PARENT_SCOPE)
    return()
  endif()
  set(probe ${CMAKE_BINARY_DIR}/CMakeFiles/clang_probe)
  file(WRITE ${probe}.cpp "#include <cstdint>\n#include <string>\n"
       "extern \"C\" int LLVMFuzzerTestOneInput(const uint8_t *, size_t) { return 0; }\n")
  execute_process(COMMAND ${clang} -fsanitize=fuzzer,address,undefined ${probe}.cpp -o ${probe}
                  RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
  if(failed)
    set(BRAID_CLANG_MISSING "${clang} cannot link a libFuzzer program" PARENT_SCOPE)
    return()
  endif()
  set(BRAID_CLANG ${clang} CACHE INTERNAL "A clang++ that has libFuzzer and the sanitizers")
endfunction()
