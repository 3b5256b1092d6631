# Fuzzers require clang++ and its libFuzzer, regardless of the main compiler, so they are built by
# custom commands.

# Compiles `sources` for fuzzing and appends the object files to the list named `list`. Compiling
# several sources as one translation unit reduces the compile time to a third. `name` is the name of
# the first fuzzer.
function(braid_fuzz_objects list name sources)
  set(at_once 8)
  list(LENGTH sources count)
  set(first 0)
  while(first LESS count)
    list(SUBLIST sources ${first} ${at_once} batch)
    list(TRANSFORM batch REPLACE "(.+)" "#include \"\\1\"" OUTPUT_VARIABLE includes)
    list(JOIN includes "\n" includes)
    set(unity ${CMAKE_BINARY_DIR}/fuzz/${name}_${first}.cpp)
    file(CONFIGURE OUTPUT ${unity} CONTENT "${includes}\n")
    braid_fuzz_object(object ${unity} ${batch})
    list(APPEND ${list} ${object})
    math(EXPR first "${first} + ${at_once}")
  endwhile()
  set(${list} ${${list}} PARENT_SCOPE)
endfunction()

# Compiles `source` and sets `variable` to the object file. Without optimisation, compilation takes
# less than half the time, and no bug is optimised away.
function(braid_fuzz_object variable source)
  cmake_path(GET source STEM name)
  set(object ${CMAKE_BINARY_DIR}/fuzz/${name}.o)
  set(${variable} ${object} PARENT_SCOPE)
  get_target_property(llvm_includes braid::llvm INTERFACE_INCLUDE_DIRECTORIES)
  list(TRANSFORM llvm_includes PREPEND -isystem)
  add_custom_command(
    OUTPUT ${object}
    COMMAND ${BRAID_CLANG} -std=c++20 -O0 -g1 -fsanitize=fuzzer-no-link,address,undefined
            -fno-sanitize-recover=all -fno-sanitize=vptr,function -DFMT_HEADER_ONLY
            -include ${PROJECT_SOURCE_DIR}/cmake/vector_for_clang.h
            -I${PROJECT_SOURCE_DIR} ${llvm_includes} -MD -MF ${object}.d -c ${source} -o ${object}
    DEPENDS ${source} ${ARGN}
    DEPFILE ${object}.d
    COMMENT "Compiling ${name} for fuzzing")
endfunction()

# braid_fuzzers(fuzz_a.cpp ... LIBRARY braid_ir [ONLY parser.cpp ...])
# Builds a fuzzer from each source and the sources of the library (only those listed after ONLY, if
# present), and registers a test that runs the fuzzer for FUZZ_SECONDS, starting from the seeds in
# tests/fuzz/corpus.
function(braid_fuzzers)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "LIBRARY" "ONLY")
  set(objects "")
  if(BRAID_CLANG)
    set(sources ${arg_ONLY})
    if(NOT sources)
      get_target_property(sources ${arg_LIBRARY} SOURCES)
    endif()
    get_target_property(folder ${arg_LIBRARY} SOURCE_DIR)
    set(paths "")
    foreach(source ${sources})
      cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder} NORMALIZE)
      list(APPEND paths ${source})
    endforeach()
    list(GET arg_UNPARSED_ARGUMENTS 0 first)
    cmake_path(GET first STEM name)
    braid_fuzz_objects(objects ${name} "${paths}")
  endif()
  foreach(source ${arg_UNPARSED_ARGUMENTS})
    braid_fuzzer(${source} "${objects}")
  endforeach()
endfunction()

function(braid_fuzzer source objects)
  cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  cmake_path(GET source STEM name)
  if(NOT BRAID_CLANG)
    braid_add_test(${name} COMMAND sh -c "echo 'skipped: ${BRAID_CLANG_MISSING}'; exit 77"
                   LABELS fuzz)
    return()
  endif()
  braid_fuzz_object(object ${source})
  list(APPEND objects ${object})
  set(program ${CMAKE_BINARY_DIR}/bin/${name})
  get_target_property(llvm_links braid::llvm INTERFACE_LINK_LIBRARIES)
  list(FILTER llvm_links INCLUDE REGEX "^/")
  add_custom_command(
    OUTPUT ${program}
    COMMAND ${BRAID_CLANG} -fsanitize=fuzzer,address,undefined ${objects} ${llvm_links}
            -lpthread -ldl -lm -o ${program}
    DEPENDS ${objects}
    COMMENT "Linking ${name}")
  add_custom_target(${name} ALL DEPENDS ${program})
  math(EXPR limit "${FUZZ_SECONDS} + 60")
  braid_add_test(${name} COMMAND ${CMAKE_COMMAND} -DFUZZER=${program} -DSECONDS=${FUZZ_SECONDS}
                                 -DSEEDS=${PROJECT_SOURCE_DIR}/tests/fuzz/corpus
                                 -P ${PROJECT_SOURCE_DIR}/cmake/RunFuzzer.cmake
                 LABELS fuzz SECONDS ${limit})
endfunction()
