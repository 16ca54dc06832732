#pragma once

/// SIM_HOST_DEVICE before a function lets CUDA kernels call it, too; for any other compiler the macro is
/// empty. Such a function is written once, so a CPU and a GPU run the same operations in the same order.
/// SIM_UNROLL before a loop of constant length keeps the array elements that the loop indexes in the
/// registers of a GPU.
///
/// Calls   compile with nvcc with -fmad=false and without -use_fast_math, and with other compilers with
///         -ffp-contract=off.

#if defined(__CUDACC__)
#define SIM_HOST_DEVICE __host__ __device__
#define SIM_UNROLL _Pragma("unroll")
#else
#define SIM_HOST_DEVICE
#define SIM_UNROLL
#endif
