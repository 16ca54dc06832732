#pragma once

/// SIM_HOST_DEVICE before a function makes it one that CUDA kernels can call, too; to any other compiler it
/// is nothing. What is so marked is written once: a processor and a GPU run the same operations in the same
/// order. SIM_UNROLL before a loop of a constant length keeps what it indexes in a GPU's registers.
///
/// Calls   compiled by nvcc with -fmad=false and without -use_fast_math, by others with -ffp-contract=off.

#if defined(__CUDACC__)
#define SIM_HOST_DEVICE __host__ __device__
#define SIM_UNROLL _Pragma("unroll")
#else
#define SIM_HOST_DEVICE
#define SIM_UNROLL
#endif
