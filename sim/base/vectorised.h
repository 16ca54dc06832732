#pragma once

/// Runs a loop compiled for the vectors of this machine: a kernel is written once, as plain loops in a
/// lambda, and gets AVX2 and fma where they are.
///
///   vectorised([&] { for (std::int64_t i = 0; i < n; ++i) out[i] = std::fma(a[i], b[i], out[i]); });
///
/// Calls   the lambda and all it calls are inlined, so keep them to loops over elements. Compile with -O3 and
///         -fno-math-errno, which change no bit.
/// Exact   the same bits on either path: elements are rounded one by one, and fma is asked for by name. Where
///         there is no instruction for it, fma is a call, and slow.

#if defined(__x86_64__)

namespace sim {

inline bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

}  // namespace sim

#endif

#if defined(__x86_64__) && !(defined(__AVX2__) && defined(__FMA__))

namespace sim {

/// target("arch=...") would forbid the inlining.
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
