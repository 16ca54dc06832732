#pragma once

/// Refuses to compile a file of kernels without the options that let GCC vectorise its loops: -fno-math-errno
/// and -fno-trapping-math. Without them the results are the same and the loops are several times slower,
/// which no test would notice. Every file that CMake compiles with these options includes this header.

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#if !defined(__NO_MATH_ERRNO__) || !defined(__NO_TRAPPING_MATH__)
#error \
    "compile this file with -fno-math-errno and -fno-trapping-math (compile_as_kernels in sim/CMakeLists.txt)"
#endif
#endif
