# Finds the libraries' dependencies, and defines the imported targets braid::llvm, braid::fmt and
# braid::openblas. Dependencies are linked statically if the distribution provides static libraries,
# because the `braid` binary must start on machines that lack them. The installed package also
# includes this file, so that it uses the same dependencies.

find_package(Threads REQUIRED)

# Finds the static library `name` or, if there is none, the shared library. Searches the hints
# first.
function(braid_find_static_library variable name)
  find_library(${variable} NAMES lib${name}.a ${name} HINTS ${ARGN})
  if(NOT ${variable})
    message(FATAL_ERROR "expected the library ${name}, found no lib${name}.a or lib${name}.so")
  endif()
  mark_as_advanced(${variable})
endfunction()

# LLVM: only ADT and Support are used. The newest supported version is selected, unless LLVM_DIR
# specifies another one.
set(braid_llvm_versions 19 18 17 16 15 14)

function(braid_find_llvm)
  if(NOT LLVM_DIR)
    foreach(version ${braid_llvm_versions})
      set(folder /usr/lib/llvm-${version}/lib/cmake/llvm)
      # If only clang is installed, the headers may exist without the libraries.
      if(EXISTS ${folder}/LLVMConfig.cmake AND EXISTS /usr/lib/llvm-${version}/lib/libLLVMSupport.a)
        set(LLVM_DIR ${folder} CACHE PATH "Folder of LLVMConfig.cmake")
        break()
      endif()
    endforeach()
  endif()
  find_package(LLVM CONFIG)
  if(NOT LLVM_FOUND)
    message(FATAL_ERROR "expected LLVM of a version in ${braid_llvm_versions} (package llvm-dev), "
                        "found none; LLVM_DIR can name the folder of its LLVMConfig.cmake")
  endif()
  if(NOT LLVM_VERSION_MAJOR IN_LIST braid_llvm_versions)
    message(FATAL_ERROR "expected LLVM of a version in ${braid_llvm_versions}, "
                        "got ${LLVM_PACKAGE_VERSION} from ${LLVM_DIR}")
  endif()
  set(support_needs m rt ${CMAKE_DL_LIBS} Threads::Threads)
  braid_find_static_library(BRAID_ZLIB z)
  braid_find_static_library(BRAID_TINFO tinfo)
  list(PREPEND support_needs ${BRAID_ZLIB} ${BRAID_TINFO})
  get_target_property(llvm_needs LLVMSupport INTERFACE_LINK_LIBRARIES)
  if(llvm_needs MATCHES "zstd")
    braid_find_static_library(BRAID_ZSTD zstd)
    list(PREPEND support_needs ${BRAID_ZSTD})
  endif()
  add_library(braid::llvm INTERFACE IMPORTED GLOBAL)
  target_include_directories(braid::llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
  target_link_libraries(braid::llvm INTERFACE ${LLVM_LIBRARY_DIRS}/libLLVMSupport.a
                                              ${LLVM_LIBRARY_DIRS}/libLLVMDemangle.a
                                              ${support_needs})
  # The folder of LLVM's tools (lit, FileCheck).
  set(BRAID_LLVM_TOOLS ${LLVM_TOOLS_BINARY_DIR} CACHE INTERNAL "Folder of FileCheck")
  set(BRAID_LLVM_MAJOR ${LLVM_VERSION_MAJOR} CACHE INTERNAL "LLVM's version")
  message(STATUS "Braid: LLVM ${LLVM_PACKAGE_VERSION} in ${LLVM_DIR}")
endfunction()

# fmt: only the headers are used. cmake/fmt.cpp compiles the sources of the supported versions.
function(braid_find_fmt)
  find_package(fmt REQUIRED)
  get_target_property(includes fmt::fmt-header-only INTERFACE_INCLUDE_DIRECTORIES)
  add_library(braid::fmt INTERFACE IMPORTED GLOBAL)
  target_include_directories(braid::fmt SYSTEM INTERFACE ${includes})
  if(fmt_VERSION VERSION_GREATER_EQUAL 11)
    target_compile_definitions(braid::fmt INTERFACE FMT_HEADER_ONLY)
  endif()
endfunction()

function(braid_find_openblas)
  find_path(BRAID_CBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas openblas-pthread)
  if(NOT BRAID_CBLAS_INCLUDE)
    message(FATAL_ERROR "expected cblas.h of OpenBLAS (package libopenblas-dev), found none")
  endif()
  mark_as_advanced(BRAID_CBLAS_INCLUDE)
  braid_find_static_library(BRAID_OPENBLAS openblas)
  add_library(braid::openblas INTERFACE IMPORTED GLOBAL)
  target_include_directories(braid::openblas SYSTEM INTERFACE ${BRAID_CBLAS_INCLUDE})
  target_link_libraries(braid::openblas INTERFACE ${BRAID_OPENBLAS} m Threads::Threads)
endfunction()

if(NOT TARGET braid::llvm)
  braid_find_llvm()
  braid_find_fmt()
  braid_find_openblas()
endif()
