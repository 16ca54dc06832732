#pragma once

/// Runs a loop that is compiled for the vector instructions of this machine. A kernel is written once, as
/// plain loops in a lambda, and uses AVX2 and fma where the machine has them.
///
///   vectorised([&] { for (std::int64_t i = 0; i < n; ++i) out[i] = std::fma(a[i], b[i], out[i]); });
///
/// Calls   the lambda and all functions it calls are inlined, so limit them to loops over elements.
///         Compile with -O3 and -fno-math-errno, which change no bit.
/// Exact   both paths give the same bits, because elements are rounded one by one and fma is used only
///         where the code names it. On a machine without an fma instruction, each fma is a slow function
///         call.

#if defined(__x86_64__)

namespace sim {

inline bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

}  // namespace sim

#endif

#if defined(__x86_64__) && !(defined(__AVX2__) && defined(__FMA__))

namespace sim {

/// target("arch=...") would prevent the inlining.
template <typename Loop>
[[gnu::target("avx2,fma"), gnu::flatten, gnu::noinline]] void run_with_avx2(Loop& loop) {
  loop();
}

template <typename Loop>
void vectorised(Loop&& loop) {
  if (has_avx2()) {
    run_with_avx2(loop);
  } else {
    loop();
  }
}

}  // namespace sim

#else

namespace sim {

template <typename Loop>
void vectorised(Loop&& loop) {
  loop();
}

}  // namespace sim

#endif
