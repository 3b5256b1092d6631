# cmake -DBUILD=folder -DGENERATOR=... -DCOMPILER=... -DLLVM_DIR=... -P run.cmake
# Installs the build into a scratch folder, builds examples/package against that as an outside
# project would, and runs it.
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
# Of a project that has no C, either.
configure_file(examples/package/main.cpp ${scratch}/source/main.cpp COPYONLY)
file(READ examples/package/CMakeLists.txt text)
string(REPLACE "LANGUAGES C CXX" "LANGUAGES CXX" text "${text}")
file(WRITE ${scratch}/source/CMakeLists.txt "${text}")
step(${CMAKE_COMMAND} -S ${scratch}/source -B ${scratch}/build -G ${GENERATOR}
     -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=Release
     -DCMAKE_PREFIX_PATH=${scratch}/prefix -DLLVM_DIR=${LLVM_DIR})
step(${CMAKE_COMMAND} --build ${scratch}/build)
step(${scratch}/prefix/bin/braid --version)
step(${scratch}/build/ag_matmul)
