# Enables CUDA if the toolkit is installed. A GPU is needed only to run the binaries.
option(BRAID_CUDA "Build the cuda backend, if there is a CUDA toolkit" ON)

if(BRAID_CUDA AND NOT BRAID_SANITIZE)
  include(CheckLanguage)
  check_language(CUDA)
  find_package(CUDAToolkit 12.5 QUIET) # cudaGetDriverEntryPointByVersion
  if(CMAKE_CUDA_COMPILER AND CUDAToolkit_FOUND)
    set(CMAKE_CUDA_STANDARD 17) # the newest standard that CMake 3.22 supports for nvcc
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    enable_language(CUDA)
    message(STATUS "Braid: cuda backend, by CUDA ${CUDAToolkit_VERSION}")
  else()
    set(BRAID_CUDA OFF)
    message(STATUS "Braid: no cuda backend: expected nvcc of CUDA 12.5 or later, found none")
  endif()
else()
  set(BRAID_CUDA OFF)
endif()
