# Looks for CUDA, as SHARDPROOF_GPU asks. Sets SHARDPROOF_HAS_CUDA, and SHARDPROOF_NVCC_OPTIONS: what the kernels are compiled with.
set(SHARDPROOF_HAS_CUDA OFF)
set(gpu_wanted ${SHARDPROOF_GPU})
if(gpu_wanted STREQUAL AUTO AND SHARDPROOF_SANITIZE)
  set(gpu_wanted OFF)  # sanitizers and the CUDA driver want the same addresses
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
# Turing to Blackwell, as far as the compiler knows them. CMake keeps what it is given here, and would otherwise choose one.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND CMAKE_CUDA_COMPILER)
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
  set(architectures)
  foreach(architecture 75 80 86 89 90 100)
    if(known MATCHES "compute_${architecture}[\r\n]")
      list(APPEND architectures ${architecture})
    endif()
  endforeach()
  if(architectures)
    set(CMAKE_CUDA_ARCHITECTURES "${architectures}" CACHE STRING "GPUs that kernels are compiled for")
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
elseif(NOT gpu_wanted STREQUAL AUTO)
  message(FATAL_ERROR "SHARDPROOF_GPU is ${SHARDPROOF_GPU}, and there is no CUDA toolkit with nvcc and cuBLAS: install it, or name "
    "its compiler with -DCMAKE_CUDA_COMPILER=/path/to/nvcc")
endif()
# They keep nvcc to what is written: no fusing, exact division and roots, the least numbers kept.
set(SHARDPROOF_NVCC_OPTIONS -fmad=false -prec-div=true -prec-sqrt=true -ftz=false --expt-relaxed-constexpr
  -Xcompiler=-ffp-contract=off)
