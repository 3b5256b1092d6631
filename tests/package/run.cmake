# cmake -DBUILD=folder -DGENERATOR=... -DCOMPILER=... -DLLVM_DIR=... -P run.cmake
# Installs the build into a temporary folder, builds examples/package against it like an external
# project, and runs it. Also compiles the C++ code of docs/embedding.md.
set(scratch ${BUILD}/package)
file(REMOVE_RECURSE ${scratch})

function(step)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE out ERROR_VARIABLE out RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "expected success, got ${status} from: ${command}\n${out}")
  endif()
endfunction()

step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${scratch}/prefix)
# Also works in a project without C.
configure_file(examples/package/main.cpp ${scratch}/source/main.cpp COPYONLY)
file(READ examples/package/CMakeLists.txt text)
string(REPLACE "LANGUAGES C CXX" "LANGUAGES CXX" text "${text}")
string(APPEND text "add_library(documented OBJECT documented.cpp)\n"
                   "target_link_libraries(documented PRIVATE Braid::braid)\n")
file(WRITE ${scratch}/source/CMakeLists.txt "${text}")
file(READ docs/embedding.md page)
if(NOT page MATCHES "\n```cpp\n(([^`]|`[^`])*)\n```\n")
  message(FATAL_ERROR "expected a block of C++ in docs/embedding.md, got none")
endif()
file(WRITE ${scratch}/source/documented.cpp
     "#include \"api/session.h\"\n"
     "braid::Status documented(braid::Tensor x, braid::Tensor w1, braid::Tensor w2,\n"
     "                         braid::Tensor y, void *stream) {\n"
     "${CMAKE_MATCH_1}\nreturn status;\n}\n")
step(${CMAKE_COMMAND} -S ${scratch}/source -B ${scratch}/build -G ${GENERATOR}
     -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=Release
     -DCMAKE_PREFIX_PATH=${scratch}/prefix -DLLVM_DIR=${LLVM_DIR})
step(${CMAKE_COMMAND} --build ${scratch}/build)
step(${scratch}/prefix/bin/braid --version)
step(${scratch}/build/ag_matmul)
