#pragma once

/// exp, log, tanh, erf and rsqrt (1 / sqrt) of a float and of a double, and sin and cos of a double. They
/// give the same bits wherever they are computed: with any compiler, for any instruction set, and in
/// CUDA.
///
/// Shapes  one element. A call is straight-line code without branches or tables. A loop of calls becomes
///         vector code if it is compiled for vectors with fma; otherwise each fma is a function call, and
///         the loop is slow.
/// Calls   exp(x), log(x), tanh(x), erf(x) and rsqrt(x) are inlined into the caller, whatever instruction
///         set it is compiled for. Compile with -ffp-contract=off (nvcc: -fmad=false), without
///         -ffast-math (nvcc: without -use_fast_math), and for speed with -O3 -fno-math-errno
///         -fno-trapping-math. These speed options change no bit. Without them GCC 12 does not vectorise
///         the loop, because sqrt could set errno, and because the side of a conditional that is
///         not taken could trap.
///         sin(x) and cos(x) require |x| below 2^24.
/// Errors  none. An undefined result is NaN, always the same quiet NaN. The results for a NaN are
///         undefined, and so are log and rsqrt of a negative number.
/// Exact   The functions use only +, -, *, /, sqrt and fma, each rounded once, and integers. The table
///         gives the largest error found, in units of the last place, rounded up, over all floats and
///         over 4 * 10^8 doubles of all magnitudes:
///
///                   exp    log    tanh   erf    rsqrt
///          float    1.02   0.84   1.20   1.04   0.51
///          double   1.05   0.87   1.23   1.14   0.51
///
///         The error of sin and cos is below 1.52 units, which is derived at turned(); the largest one
///         found is 1.49.
///         Below the smallest normal number, the unit is the smallest subnormal number. exp: 0 at -inf,
///         inf from the point where it overflows. log: -inf at 0 and -0. tanh, erf: odd functions, 1 at
///         inf. rsqrt: inf at 0, -inf at -0, 0 at inf.
/// Source  The identities are given at the functions. The polynomials are minimax fits made for this
///         header (Remez exchange at 60 digits, then rounded); each has its degree and interval beside
///         it.

#include <cstdint>
#include <limits>

#include "sim/base/host_device.h"

namespace sim::elementary {

namespace detail {

/// The function is inlined even into a caller that is compiled for another instruction set, and is
/// thereby compiled for that instruction set.
#define SIM_ELEMENTARY [[gnu::always_inline]] SIM_HOST_DEVICE inline

/// The number format of a type, and the constants that the functions use for it.
template <typename T>
struct Traits;

template <>
struct Traits<float> {
  using Bits = std::uint32_t;
  static constexpr int kMantissaBits = 23;
  static constexpr Bits kBias = 127;
  static constexpr float kLeastNormal = 0x1p-126F;
  static constexpr float kWholesFrom = 0x1p23F;  // from here on every value is a whole number
  static constexpr Bits kSqrtHalfBits = 0x3f3504f3U;
  static constexpr float kLog2E = 0x1.715476p0F;
  static constexpr float kLn2 = 0x1.62e43p-1F;
  static constexpr float kLn2Rest = -0x1.05c61p-29F;  // ln 2 - kLn2, rounded
  static constexpr float kExpLeast = -104;            // e^x is 0 at this x and below
  static constexpr float kExpMost = 89;               // e^x is infinite at this x and above
  static constexpr float kTanhOne = 10;               // tanh is 1 at this x and above
  static constexpr float kErfOne = 4;
  static constexpr float kRsqrtScale = 0x1p64F;
  static constexpr float kRootOfRsqrtScale = 0x1p32F;
};

template <>
struct Traits<double> {
  using Bits = std::uint64_t;
  static constexpr int kMantissaBits = 52;
  static constexpr Bits kBias = 1023;
  static constexpr double kLeastNormal = 0x1p-1022;
  static constexpr double kWholesFrom = 0x1p52;
  static constexpr Bits kSqrtHalfBits = 0x3fe6a09e667f3bcdU;
  static constexpr double kLog2E = 0x1.71547652b82fep0;
  static constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  static constexpr double kLn2Rest = 0x1.abc9e3b39803fp-56;
  static constexpr double kExpLeast = -746;
  static constexpr double kExpMost = 710;
  static constexpr double kTanhOne = 20;
  static constexpr double kErfOne = 6;
  static constexpr double kRsqrtScale = 0x1p128;
  static constexpr double kRootOfRsqrtScale = 0x1p64;
};

template <typename T>
using Bits = typename Traits<T>::Bits;

template <typename T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();
template <typename T>
constexpr T kNan = std::numeric_limits<T>::quiet_NaN();

template <typename T>
SIM_ELEMENTARY Bits<T> bits_of(T value) {
  return __builtin_bit_cast(Bits<T>, value);
}

template <typename T>
SIM_ELEMENTARY T of_bits(Bits<T> bits) {
  return __builtin_bit_cast(T, bits);
}

SIM_ELEMENTARY float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
SIM_ELEMENTARY double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
SIM_ELEMENTARY float sqrt(float x) { return __builtin_sqrtf(x); }
SIM_ELEMENTARY double sqrt(double x) { return __builtin_sqrt(x); }

template <typename T>
SIM_ELEMENTARY T magnitude(T x) {
  return of_bits<T>(bits_of(x) & ~bits_of(T{-0.0}));
}

/// Returns `value`, which must have no sign, with the sign of `sign`.
template <typename T>
SIM_ELEMENTARY T with_sign(T value, T sign) {
  return of_bits<T>(bits_of(value) | (bits_of(sign) & bits_of(T{-0.0})));
}

/// Returns c0 + c1 x + c2 x^2 + ...
template <typename T>
SIM_ELEMENTARY T polynomial(T, T c0) {
  return c0;
}
template <typename T, typename... Rest>
SIM_ELEMENTARY T polynomial(T x, T c0, Rest... rest) {
  return fma(x, polynomial(x, rest...), c0);
}

// ---- the polynomials --------------------------------------------------------------------------------------

/// Returns (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2. The polynomial has degree 4, and 9 for doubles.
SIM_ELEMENTARY float exp_tail(float r) {
  return polynomial(r, 0x1.fffffcp-2F, 0x1.55548cp-3F, 0x1.555858p-5F, 0x1.123ddep-7F, 0x1.6ac728p-10F);
}
SIM_ELEMENTARY double exp_tail(double r) {
  return polynomial(r, 0x1.000000000000ap-1, 0x1.55555555554fap-3, 0x1.555555555087ep-5, 0x1.1111111127befp-7,
                    0x1.6c16c18429cffp-10, 0x1.a01a012a55185p-13, 0x1.a0199a0d0ff59p-16,
                    0x1.71df25571370fp-19, 0x1.28ad72344fe64p-22, 0x1.ad7f6859df1aap-26);
}

/// Returns (log((1 + s) / (1 - s)) - 2 s) / s^3 for |s| <= (sqrt(2) - 1) / (sqrt(2) + 1). The polynomial
/// in s^2 has degree 2, and 6 for doubles.
SIM_ELEMENTARY float log_tail(float s2) {
  return polynomial(s2, 0x1.55557ap-1F, 0x1.995ed4p-2F, 0x1.31e0dap-2F);
}
SIM_ELEMENTARY double log_tail(double s2) {
  return polynomial(s2, 0x1.5555555555592p-1, 0x1.999999997feedp-2, 0x1.24924941e5446p-2,
                    0x1.c71c521039beep-3, 0x1.74663dea37e8cp-3, 0x1.39a1cc0adf90dp-3, 0x1.2f04f8e604eccp-3);
}

/// Below this, tanh is computed by a polynomial.
template <typename T>
constexpr T kTanhSwitch = T{0.625};

/// Returns (tanh(a) / a - 1) / a^2 for a <= kTanhSwitch. The polynomial in a^2 has degree 4, and 10 for
/// doubles.
SIM_ELEMENTARY float tanh_tail(float a2) {
  return polynomial(a2, -0x1.555532p-2F, 0x1.1106f6p-3F, -0x1.b835a4p-5F, 0x1.51f8cep-6F, -0x1.750ce2p-8F);
}
SIM_ELEMENTARY double tanh_tail(double a2) {
  return polynomial(a2, -0x1.55555555554ffp-2, 0x1.111111110ac93p-3, -0x1.ba1ba1b5039cap-5,
                    0x1.664f477a5f22cp-6, -0x1.226e161f41dcfp-7, 0x1.d6cf2673646cfp-9, -0x1.7d6892a3f48eap-10,
                    0x1.3365a637c6b4ep-11, -0x1.df520828dba04p-13, 0x1.438945ecc0527p-14,
                    -0x1.0d97bada22077p-16);
}

/// Below this, erf is computed by a polynomial.
template <typename T>
constexpr T kErfSwitch = T{1};

/// Returns erf(a) / a - 1 for a <= kErfSwitch. The polynomial in a^2 has degree 6, and 11 for doubles.
SIM_ELEMENTARY float erf_tail(float a2) {
  return polynomial(a2, 0x1.06eba8p-3F, -0x1.81273ep-2F, 0x1.ce2ce6p-4F, -0x1.b7f71ap-6F, 0x1.53f224p-8F,
                    -0x1.a3515ep-11F, 0x1.4771fep-14F);
}
SIM_ELEMENTARY double erf_tail(double a2) {
  return polynomial(a2, 0x1.06eba8214db68p-3, -0x1.812746b03799dp-2, 0x1.ce2f21a03f8b6p-4,
                    -0x1.b82ce311a9636p-6, 0x1.565bcceed5002p-8, -0x1.c02daeb5f154bp-11,
                    0x1.f9a29693cb7e7p-14, -0x1.f4c82ca13e2e3p-17, 0x1.b96b3be955577p-20,
                    -0x1.5b8bac2a59dd8p-23, 0x1.d3d7d80a39731p-27, -0x1.a22aeab94ba5bp-31);
}

/// Returns log(1 - erf(kErfSwitch + t)) for 0 <= t <= 3, and for doubles for 0 <= t <= 5. The polynomial
/// has degree 6, and 18 for doubles.
SIM_ELEMENTARY float log_erfc(float t) {
  return polynomial(t, -0x1.d97fcp0F, -0x1.51c988p1F, -0x1.afb44ap-1F, -0x1.520a78p-5F, 0x1.36307ep-7F,
                    -0x1.89925p-10F, 0x1.9eb11ap-14F);
}
SIM_ELEMENTARY double log_erfc(double t) {
  return polynomial(t, -0x1.d97fbf27aa2a1p0, -0x1.51c9b0006c244p1, -0x1.afabc11a28a7ap-1,
                    -0x1.5477f09cf28c8p-5, 0x1.48c9d4137aaffp-7, -0x1.033f69c233ca1p-9, 0x1.f1b49abb6fdd4p-13,
                    0x1.b8c60b90d3be2p-16, -0x1.c7753ca2629a1p-16, 0x1.41d60dbd59d7bp-17,
                    -0x1.11e137d970afdp-19, 0x1.10f46ac3e56a6p-23, 0x1.cc71127e488d4p-24,
                    -0x1.e4a1e1c058cbbp-25, 0x1.190bebc08859dp-26, -0x1.b80d71babf945p-29,
                    0x1.ceb61d04293ddp-32, -0x1.28758fe8442fbp-35, 0x1.5e0eb405ce353p-40);
}

// ---- e^x --------------------------------------------------------------------------------------------------

/// The parts of e^x = 2^n (1 + fraction), for |x| below about 700.
template <typename T>
struct SplitExp {
  Bits<T> n;   // n + 2^(kMantissaBits - 1), modulo 2^kMantissaBits
  T fraction;  // from -0.3 to 0.42
};

/// Splits x = n ln 2 + r, where n is the whole number nearest to x / ln 2. Adding 1.5 * 2^kMantissaBits
/// rounds to n and leaves n in the low bits.
template <typename T>
SIM_ELEMENTARY SplitExp<T> split_exp(T x) {
  constexpr T kRound = T{1.5} * Traits<T>::kWholesFrom;
  const T shifted = fma(x, Traits<T>::kLog2E, kRound);
  const T n = shifted - kRound;
  const T r = fma(n, -Traits<T>::kLn2Rest, fma(n, -Traits<T>::kLn2, x));
  return {bits_of(shifted), fma(r * r, exp_tail(r), r)};
}

/// Returns 2^n. `n` may be the n of a SplitExp: its bits above the exponent field are shifted out.
template <typename T>
SIM_ELEMENTARY T power_of_two(Bits<T> n) {
  return of_bits<T>((n + Traits<T>::kBias) << Traits<T>::kMantissaBits);
}

template <typename T>
SIM_ELEMENTARY T exp_of(T x) {
  const T above = x > Traits<T>::kExpLeast ? x : Traits<T>::kExpLeast;
  const T inside = above < Traits<T>::kExpMost ? above : Traits<T>::kExpMost;
  const SplitExp<T> split = split_exp(inside);
  // 2^n is multiplied in two steps: the first is exact, and the second, where a result overflows or
  // underflows, rounds once. Adding 2 * kBias makes n positive, so that it can be halved.
  const Bits<T> n = split.n - bits_of(T{1.5} * Traits<T>::kWholesFrom) + 2 * Traits<T>::kBias;
  const Bits<T> first = n >> 1;
  const Bits<T> second = n - first;
  const T result = (1 + split.fraction) * of_bits<T>(first << Traits<T>::kMantissaBits) *
                   of_bits<T>(second << Traits<T>::kMantissaBits);
  return x == x ? result : kNan<T>;
}

// ---- log(x) -----------------------------------------------------------------------------------------------

/// Computes log(x): x = 2^k (1 + f) with 1 + f from sqrt(1/2) to sqrt(2), and s = f / (2 + f):
/// log(1 + f) = log((1 + s) / (1 - s)) = 2 s + s R = f - s f + s R = f - (f^2 / 2 - s (f^2 / 2 + R)).
/// f is exact, and so is the leading term near 1.
template <typename T>
SIM_ELEMENTARY T log_of(T x) {
  using Type = Traits<T>;
  const bool is_subnormal = x < Type::kLeastNormal;
  const T scaled = is_subnormal ? x * Type::kWholesFrom : x;
  const T scale_bits = is_subnormal ? T{Type::kMantissaBits} : T{0};
  // The bits are counted from sqrt(1/2) instead of from 1, so the exponent field is k + kBias.
  const Bits<T> counted = bits_of(scaled) - Type::kSqrtHalfBits + (Type::kBias << Type::kMantissaBits);
  const Bits<T> mantissa = (counted & ((Bits<T>{1} << Type::kMantissaBits) - 1)) + Type::kSqrtHalfBits;
  const T biased = of_bits<T>(bits_of(Type::kWholesFrom) | (counted >> Type::kMantissaBits));
  const T k = biased - (Type::kWholesFrom + T{Type::kBias}) - scale_bits;

  const T f = of_bits<T>(mantissa) - 1;
  const T s = f / (2 + f);
  const T s2 = s * s;
  const T half_square = T{0.5} * f * f;
  const T r = s2 * log_tail(s2);
  const T tail = half_square - fma(s, half_square + r, k * Type::kLn2Rest);
  const T finite = fma(k, Type::kLn2, f - tail);

  const T above_zero = x < kInfinity<T> ? finite : kInfinity<T>;
  const T otherwise = x == 0 ? -kInfinity<T> : kNan<T>;
  return x > 0 ? above_zero : otherwise;
}

// ---- tanh(x), erf(x) --------------------------------------------------------------------------------------

/// Near 0 tanh is a + a^3 P(a^2), elsewhere 1 - 2 / (e^2a + 1).
template <typename T>
SIM_ELEMENTARY T tanh_of(T x) {
  const T a = magnitude(x);
  const T a2 = a * a;
  const T near = fma(a * a2, tanh_tail(a2), a);

  const SplitExp<T> split = split_exp(2 * (a < Traits<T>::kTanhOne ? a : Traits<T>::kTanhOne));
  const T power = power_of_two<T>(split.n);
  const T far = 1 - 2 / fma(power, split.fraction, power + 1);

  const T result = with_sign(a < kTanhSwitch<T> ? near : far, x);
  return x == x ? result : kNan<T>;
}

/// Near 0 erf is a + a P(a^2), elsewhere 1 - e^log(1 - erf(a)).
template <typename T>
SIM_ELEMENTARY T erf_of(T x) {
  const T a = magnitude(x);
  const T near = fma(a, erf_tail(a * a), a);

  const SplitExp<T> split =
      split_exp(log_erfc((a < Traits<T>::kErfOne ? a : Traits<T>::kErfOne) - kErfSwitch<T>));
  const T power = power_of_two<T>(split.n);
  const T far = 1 - fma(power, split.fraction, power);

  const T result = with_sign(a < kErfSwitch<T> ? near : far, x);
  return x == x ? result : kNan<T>;
}

// ---- 1 / sqrt(x) ------------------------------------------------------------------------------------------

/// With s = sqrt(x), the value y = 1 / s is corrected by the remainders of the two roundings: x = s^2 + e
/// and 1 = s y + d, hence 1 / sqrt(x) is y + y (d - e y^2 / 2) up to squares of e and d. Both remainders
/// are exact, because x is scaled away from underflow.
template <typename T>
SIM_ELEMENTARY T rsqrt_of(T x) {
  const bool is_small = x < 1 / Traits<T>::kRsqrtScale;
  const T scaled = is_small ? x * Traits<T>::kRsqrtScale : x;
  const T s = sqrt(scaled);
  const T y = 1 / s;
  const T e = fma(-s, s, scaled);
  const T d = fma(-s, y, T{1});
  const T right = fma(y, fma(T{-0.5} * (e * y), y, d), y) * (is_small ? Traits<T>::kRootOfRsqrtScale : T{1});
  // At 0, -0 and inf the remainders are NaN, and y is already right.
  const bool has_remainders = x > 0 && x < kInfinity<T>;
  const T result = has_remainders ? right : y;
  return x >= 0 ? result : kNan<T>;
}

// ---- sin(x), cos(x) --------------------------------------------------------------------------------------

/// The parts of x = n pi / 2 + r with |r| <= pi / 4. Three parts of pi / 2, of 53 bits each, keep r accurate
/// for n below 2^25.
struct QuarterTurns {
  std::int64_t n;
  double r;
};

SIM_ELEMENTARY QuarterTurns quarter_turns(double x) {
  constexpr double kRound = 0x1.8p52;
  const double shifted = fma(x, 0x1.45f306dc9c883p-1, kRound);
  const double n = shifted - kRound;
  const double r = fma(n, -0x1.921fb54442d18p0, x);
  return {static_cast<std::int64_t>(n), fma(n, 0x1.f1976b7ed8fbcp-110, fma(n, -0x1.1a62633145c07p-54, r))};
}

/// Taylor polynomials; the terms left out are below the last place for |r| <= pi / 4.
SIM_ELEMENTARY double sin_near(double r) {
  const double r2 = r * r;
  const double tail = polynomial(r2, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800,
                                 1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000);
  return fma(r * r2, tail, r);
}
SIM_ELEMENTARY double cos_near(double r) {
  const double r2 = r * r;
  const double tail = polynomial(r2, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600,
                                 -1.0 / 87178291200, 1.0 / 20922789888000, -1.0 / 6402373705728000);
  const double half = 0.5 * r2;
  const double one_less = 1 - half;
  return one_less + fma(r2 * r2, tail, (1 - one_less) - half);
}

/// Returns sin(x + turns * pi / 2). Its error is below 1.52 units of the last place. Where r is just above
/// a power of two and sin(r) just below it, half a unit of r is one unit of the result, which cos(r) scales;
/// the last addition adds half a unit. That is largest at r = pi / 6: 0.866 + 0.5, and 0.146 of r * r2, r2,
/// the tail and its first coefficient. At the smaller powers, cos(r) rises by less than these four fall. The
/// error of cos_near is below 1.2. Where |r| < 2^-31, r may be rounded twice, and nothing after it.
SIM_ELEMENTARY double turned(double x, std::int64_t turns) {
  const QuarterTurns split = quarter_turns(x);
  const std::int64_t quarter = (split.n + turns) & 3;
  const double near = (quarter & 1) == 0 ? sin_near(split.r) : cos_near(split.r);
  return quarter < 2 ? near : -near;
}

}  // namespace detail

SIM_ELEMENTARY float fma(float a, float b, float c) { return detail::fma(a, b, c); }
SIM_ELEMENTARY double fma(double a, double b, double c) { return detail::fma(a, b, c); }
SIM_ELEMENTARY float exp(float x) { return detail::exp_of(x); }
SIM_ELEMENTARY double exp(double x) { return detail::exp_of(x); }
SIM_ELEMENTARY float log(float x) { return detail::log_of(x); }
SIM_ELEMENTARY double log(double x) { return detail::log_of(x); }
SIM_ELEMENTARY float tanh(float x) { return detail::tanh_of(x); }
SIM_ELEMENTARY double tanh(double x) { return detail::tanh_of(x); }
SIM_ELEMENTARY float erf(float x) { return detail::erf_of(x); }
SIM_ELEMENTARY double erf(double x) { return detail::erf_of(x); }
SIM_ELEMENTARY float rsqrt(float x) { return detail::rsqrt_of(x); }
SIM_ELEMENTARY double rsqrt(double x) { return detail::rsqrt_of(x); }
SIM_ELEMENTARY double sin(double x) { return detail::turned(x, 0); }
SIM_ELEMENTARY double cos(double x) { return detail::turned(x, 1); }

#undef SIM_ELEMENTARY

}  // namespace sim::elementary
