# Looks for CUDA if SHARDPROOF_GPU asks for it. Sets SHARDPROOF_HAS_CUDA, SHARDPROOF_CUDA (the version) or
# SHARDPROOF_NO_CUDA (why it is not compiled in), and in SHARDPROOF_NVCC_OPTIONS the options for kernels.
set(SHARDPROOF_HAS_CUDA OFF)
set(SHARDPROOF_CUDA "")
set(SHARDPROOF_NO_CUDA "the program was configured with -DSHARDPROOF_GPU=${SHARDPROOF_GPU}")
set(gpu_wanted ${SHARDPROOF_GPU})
if(gpu_wanted STREQUAL AUTO AND SHARDPROOF_SANITIZE)
  set(SHARDPROOF_NO_CUDA "the program was configured with sanitizers")
  set(gpu_wanted OFF)  # sanitizers and the CUDA driver need the same addresses
endif()
if(NOT gpu_wanted STREQUAL AUTO AND NOT gpu_wanted)
  return()
endif()

# nvcc is often not on the path.
if(NOT CMAKE_CUDA_COMPILER)
  find_program(SHARDPROOF_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_PATH ENV CUDA_HOME /usr/local/cuda PATH_SUFFIXES bin)
  if(SHARDPROOF_NVCC)
    set(CMAKE_CUDA_COMPILER ${SHARDPROOF_NVCC})
  endif()
endif()
# Kernels are compiled for the GPU of this machine. Without one, they are compiled to the intermediate code of
# the oldest architecture that the compiler knows, which every later GPU compiles for itself at the first
# start. -DCMAKE_CUDA_ARCHITECTURES=90 compiles for an H100 ahead of time.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND CMAKE_CUDA_COMPILER)
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
  string(REGEX MATCH "compute_([0-9]+)" oldest "${known}")
  if(EXISTS /dev/nvidiactl)
    set(CMAKE_CUDA_ARCHITECTURES native CACHE STRING "GPUs that kernels are compiled for")
  elseif(oldest)
    set(CMAKE_CUDA_ARCHITECTURES ${CMAKE_MATCH_1}-virtual CACHE STRING "GPUs that kernels are compiled for")
  endif()
endif()

include(CheckLanguage)
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has it
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  find_package(CUDAToolkit QUIET)
endif()
if(CMAKE_CUDA_COMPILER AND TARGET CUDA::cublas AND TARGET CUDA::cudart_static)
  set(SHARDPROOF_HAS_CUDA ON)
  set(SHARDPROOF_CUDA ${CUDAToolkit_VERSION})
elseif(NOT gpu_wanted STREQUAL AUTO)
  message(FATAL_ERROR "SHARDPROOF_GPU is ${SHARDPROOF_GPU}, but there is no CUDA toolkit with nvcc and cuBLAS: install it, or name "
    "its compiler with -DCMAKE_CUDA_COMPILER=/path/to/nvcc")
else()
  set(SHARDPROOF_NO_CUDA "CMake found no CUDA toolkit with nvcc and cuBLAS")
endif()
# With these options nvcc computes what is written: no fused operations, exact division and roots, and no
# subnormal flushed to zero. 1675 is a pragma for GCC, in code of the host.
set(SHARDPROOF_NVCC_OPTIONS -fmad=false -prec-div=true -prec-sqrt=true -ftz=false --expt-relaxed-constexpr
  -diag-suppress=1675 -Xcompiler=-ffp-contract=off)
