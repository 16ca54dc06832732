// The errors and the special values that the manual of elementary.h states, and that vector code gives the
// bits of plain code.

#include "sim/base/elementary.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <gtest/gtest.h>
#include <limits>
#include <rapidcheck/gtest.h>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "sim/base/keyed_random.h"

namespace {

namespace elementary = sim::elementary;

template <typename T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();
template <typename T>
constexpr T kNan = std::numeric_limits<T>::quiet_NaN();

/// The type in which a reference is computed.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;
static_assert(std::numeric_limits<long double>::digits >= 64, "long double is the reference of double");

template <typename T>
auto bits_of(T value) {
  return std::bit_cast<std::conditional_t<std::is_same_v<T, float>, std::uint32_t, std::uint64_t>>(value);
}

// ---- the five functions: ours, the C library's in a wider type, and the errors that the manual states -----

enum class BelowZero { positive, odd, nan };

#define SIM_FUNCTION(name, in_library)             \
  static constexpr const char* kName = #name;      \
  template <typename T>                            \
  [[gnu::always_inline]] static inline T of(T x) { \
    return elementary::name(x);                    \
  }                                                \
  template <typename W>                            \
  static W reference(W x) {                        \
    return in_library;                             \
  }

struct Exp {
  // Beyond this range the results are 0 and infinity, for which the library is slow.
  template <typename W>
  static constexpr W kLibraryReach = std::is_same_v<W, double> ? 200 : 800;
  SIM_FUNCTION(exp, std::exp(std::clamp(x, -kLibraryReach<W>, kLibraryReach<W>)))
  static constexpr double kUlpsOfFloat = 1.02, kUlpsOfDouble = 1.05;
  static constexpr BelowZero kBelowZero = BelowZero::positive;
  static constexpr double kReach = 750;  // beyond it, results are 0 or infinite
  // The arguments at which n changes, and the result becomes 0, the least normal number, and infinity.
  static constexpr std::array kTurns = {0.34657359027997264, -745.13321910194122, -708.39641853226408,
                                        709.78271289338397};
};

struct Log {
  SIM_FUNCTION(log, std::log(x))
  static constexpr double kUlpsOfFloat = 0.84, kUlpsOfDouble = 0.87;
  static constexpr BelowZero kBelowZero = BelowZero::nan;
  static constexpr double kReach = 4;
  static constexpr std::array kTurns = {1.0, 0.70710678118654752, 1.4142135623730951, 0x1p-1022};
};

struct Tanh {
  SIM_FUNCTION(tanh, std::tanh(x))
  static constexpr double kUlpsOfFloat = 1.20, kUlpsOfDouble = 1.23;
  static constexpr BelowZero kBelowZero = BelowZero::odd;
  static constexpr double kReach = 22;
  static constexpr std::array kTurns = {0.625, 19.061547465398498, 20.0, 0x1p-28};
};

struct Erf {
  SIM_FUNCTION(erf, std::erf(x))
  static constexpr double kUlpsOfFloat = 1.04, kUlpsOfDouble = 1.14;
  static constexpr BelowZero kBelowZero = BelowZero::odd;
  static constexpr double kReach = 7;
  static constexpr std::array kTurns = {1.0, 5.8635847487551676, 6.0, 0x1p-28};
};

struct Rsqrt {
  SIM_FUNCTION(rsqrt, 1 / std::sqrt(x))
  static constexpr double kUlpsOfFloat = 0.51, kUlpsOfDouble = 0.51;
  static constexpr BelowZero kBelowZero = BelowZero::nan;
  static constexpr double kReach = 4;
  static constexpr std::array kTurns = {1.0, 2.0, 0x1p-128, 0x1p-1022};
};

struct NameOfFunction {
  template <typename Function>
  static std::string GetName(int) {
    return Function::kName;
  }
};

template <typename Function>
class Elementary : public testing::Test {};
using Functions = testing::Types<Exp, Log, Tanh, Erf, Rsqrt>;
TYPED_TEST_SUITE(Elementary, Functions, NameOfFunction);

// ---- a block of elements at a time ------------------------------------------------------------------------

constexpr std::size_t kBlock = 4096;
template <typename T>
using Block = std::array<T, kBlock>;

#if defined(__x86_64__)
bool has_vectors() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#define SIM_VECTORS [[gnu::target("avx2,fma")]]
#else
bool has_vectors() { return false; }
#define SIM_VECTORS
#endif

template <typename Function, typename T>
void plainly(const Block<T>& x, Block<T>& results) {
  for (std::size_t i = 0; i < kBlock; ++i) results[i] = Function::of(x[i]);
}

template <typename Function, typename T>
SIM_VECTORS void in_vectors(const Block<T>& x, Block<T>& results) {
  for (std::size_t i = 0; i < kBlock; ++i) results[i] = Function::of(x[i]);
}

template <typename Function, typename T>
void fast(const Block<T>& x, Block<T>& results) {
  if (has_vectors()) {
    in_vectors<Function>(x, results);
  } else {
    plainly<Function>(x, results);
  }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

constexpr std::size_t kThreads = 2;

/// One float in so many is tried. With SHARDPROOF_EVERY_FLOAT, every float is, which takes minutes.
std::uint32_t stride_of_floats() {
  if (!has_vectors() || kIsSanitized) return 4099;
  return std::getenv("SHARDPROOF_EVERY_FLOAT") != nullptr ? 1 : 61;
}

/// Calls take(thread, block) for floats up to the one with these bits.
template <typename Take>
void for_floats(std::uint32_t last, const Take& take) {
  const std::uint32_t stride = stride_of_floats();
  const std::uint64_t step = kBlock * stride;
  const auto run = [&](std::size_t thread) {
    Block<float> x;
    for (std::uint64_t first = thread * step; first <= last; first += kThreads * step) {
      const auto begin = static_cast<std::uint32_t>(first);
      for (std::uint32_t i = 0; i < kBlock; ++i)
        x[i] = std::bit_cast<float>(begin + std::min(i * stride, last - begin));
      take(thread, x);
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < kThreads; ++thread) threads.emplace_back(run, thread);
  for (std::thread& thread : threads) thread.join();
}

/// Draws numbers of all kinds: any bits, numbers where functions vary, numbers where this one varies, and
/// numbers near its turns.
template <typename Function>
double drawn(const sim::KeyedRandom& random, std::uint64_t index) {
  const std::uint64_t bits = random.bits(3 * index);
  const double uniform = random.uniform(3 * index + 1);
  const auto exponent = static_cast<int>(random.below(3 * index + 2, 72)) - 60;
  const double sign = bits % 2 == 0 ? 1 : -1;
  switch (index % 4) {
    case 0:
      return std::bit_cast<double>(bits);
    case 1:
      return sign * std::ldexp(1 + uniform, exponent);
    case 2:
      return sign * uniform * Function::kReach;
    default: {
      const double turn = Function::kTurns[bits / 2 % Function::kTurns.size()];
      return turn + sign * turn * std::ldexp(uniform, exponent - 12);
    }
  }
}

template <typename Function, typename T>
void draw(const sim::KeyedRandom& random, std::uint64_t block, Block<T>& x) {
  for (std::size_t i = 0; i < kBlock; ++i) x[i] = static_cast<T>(drawn<Function>(random, block * kBlock + i));
}

// ---- errors -----------------------------------------------------------------------------------------------

/// Returns a number to compare: infinity counts as the number after the greatest, and NaN as one far from
/// all.
template <typename T>
Wide<T> counted(Wide<T> value) {
  constexpr Wide<T> kAfterGreatest = 4 * Wide<T>{1 / std::numeric_limits<T>::min()};
  const Wide<T> below = value < kAfterGreatest ? value : kAfterGreatest;
  const Wide<T> inside = below > -kAfterGreatest ? below : -kAfterGreatest;
  return value == value ? inside : 2 * kAfterGreatest;
}

/// Returns the distance of a result from the reference, in units of the last place of the reference.
template <typename T>
double ulps_between(T result, Wide<T> reference) {
  using Limits = std::numeric_limits<T>;
  const auto size = static_cast<double>(std::fabs(reference));
  const double above = size > Limits::min() ? size : double{Limits::min()};
  const double inside = above < Limits::max() ? above : double{Limits::max()};
  const auto power_of_two =
      std::bit_cast<double>(std::bit_cast<std::uint64_t>(inside) & std::uint64_t{0x7ff0000000000000});
  const double unit = power_of_two * double{Limits::epsilon()};
  return static_cast<double>(std::fabs(counted<T>(Wide<T>{result}) - counted<T>(reference)) / unit);
}

/// Fills in the errors and returns how many are larger than allowed. Counting needs no order, so the loop can
/// be vectorised.
template <typename T>
[[gnu::always_inline]] inline std::size_t find_errors(const Block<T>& results,
                                                      const Block<Wide<T>>& references, double allowed,
                                                      Block<double>& errors) {
  std::size_t beyond = 0;
  for (std::size_t i = 0; i < kBlock; ++i) {
    errors[i] = ulps_between(results[i], references[i]);
    beyond += std::size_t{errors[i] > allowed};
  }
  return beyond;
}

std::size_t find_errors_plainly(const Block<float>& results, const Block<double>& references, double allowed,
                                Block<double>& errors) {
  return find_errors<float>(results, references, allowed, errors);
}

SIM_VECTORS std::size_t find_errors_fast(const Block<float>& results, const Block<double>& references,
                                         double allowed, Block<double>& errors) {
  return find_errors<float>(results, references, allowed, errors);
}

std::size_t find_errors_of(const Block<float>& results, const Block<double>& references, double allowed,
                           Block<double>& errors) {
  const auto find = has_vectors() ? find_errors_fast : find_errors_plainly;
  return find(results, references, allowed, errors);
}

std::size_t find_errors_of(const Block<double>& results, const Block<long double>& references, double allowed,
                           Block<double>& errors) {
  return find_errors<double>(results, references, allowed, errors);
}

/// Whether all results of a block of ordered arguments are one number that is near the references of the
/// first and the last argument. The functions are monotone, so that the references of the others lie between
/// these two. Half of what is allowed is asked for, because the unit of a reference between two powers of two
/// may be twice that of an end.
template <typename Function, typename T>
bool is_one_number_near_both_ends(const Block<T>& x, const Block<T>& results, double allowed) {
  std::size_t others = 0;
  for (const T result : results) others += std::size_t{bits_of(result) != bits_of(results.front())};
  if (others > 0) return false;
  const auto is_near = [&](T at) {
    return ulps_between(results.front(), Function::reference(Wide<T>{at})) <= allowed / 2;
  };
  return is_near(x.front()) && is_near(x.back());
}

/// The largest of the errors that are larger than allowed.
template <typename T>
struct Worst {
  double ulps = 0;
  T at = 0;

  /// Takes a block of arguments. `in_order` says that they ascend or descend, with NaN only after the others.
  template <typename Function>
  void take(const Block<T>& x, double allowed, bool in_order = false) {
    Block<T> results;
    Block<Wide<T>> references;
    Block<double> errors;
    fast<Function>(x, results);
    if (in_order && is_one_number_near_both_ends<Function>(x, results, allowed)) return;
    for (std::size_t i = 0; i < kBlock; ++i) references[i] = Function::reference(Wide<T>{x[i]});
    if (find_errors_of(results, references, allowed, errors) == 0) return;
    for (std::size_t i = 0; i < kBlock; ++i) {
      if (errors[i] <= ulps) continue;
      ulps = errors[i];
      at = x[i];
    }
  }
};

// The C library's double shares no code with ours, but takes most of the time. If the results below zero
// follow from the others, they are left to the next test.
TYPED_TEST(Elementary, FloatsAreAsNearAsTheManualSays) {
  const bool is_all = TypeParam::kBelowZero == BelowZero::positive;
  std::array<Worst<float>, kThreads> worst;
  for_floats(is_all ? 0xffffffffU : 0x7fffffffU, [&](std::size_t thread, const Block<float>& x) {
    worst[thread].template take<TypeParam>(x, TypeParam::kUlpsOfFloat, true);
  });
  for (const Worst<float>& of_thread : worst) {
    EXPECT_LE(of_thread.ulps, TypeParam::kUlpsOfFloat) << "at " << of_thread.at;
  }
}

template <typename Function>
class ElementaryBelowZero : public testing::Test {};
using FunctionsOfRule = testing::Types<Log, Tanh, Erf, Rsqrt>;
TYPED_TEST_SUITE(ElementaryBelowZero, FunctionsOfRule, NameOfFunction);

TYPED_TEST(ElementaryBelowZero, FloatsAreOddOrNan) {
  std::array<std::size_t, kThreads> wrong = {};
  for_floats(0x7fffffffU, [&](std::size_t thread, const Block<float>& x) {
    Block<float> opposite;
    Block<float> results;
    Block<float> of_opposite;
    std::uint32_t differing = 0;
    for (std::size_t i = 0; i < kBlock; ++i) opposite[i] = -x[i];
    fast<TypeParam>(x, results);
    fast<TypeParam>(opposite, of_opposite);
    for (std::size_t i = 0; i < kBlock; ++i) {
      const float odd = results[i] == results[i] ? -results[i] : kNan<float>;
      const float nan = x[i] == 0 ? -kInfinity<float> : kNan<float>;
      const float expected = TypeParam::kBelowZero == BelowZero::odd ? odd : nan;
      differing += std::uint32_t{bits_of(of_opposite[i]) != bits_of(expected)};
    }
    wrong[thread] += differing;
  });
  for (const std::size_t of_thread : wrong) EXPECT_EQ(of_thread, 0U);
}

TYPED_TEST(Elementary, DoublesAreAsNearAsTheManualSays) {
  const sim::KeyedRandom random = sim::KeyedRandom(1).named(TypeParam::kName);
  const std::size_t blocks = kIsSanitized ? 16 : 512;
  Worst<double> worst;
  Block<double> x;
  for (std::size_t block = 0; block < blocks; ++block) {
    draw<TypeParam>(random, block, x);
    worst.template take<TypeParam>(x, TypeParam::kUlpsOfDouble);
  }
  EXPECT_LE(worst.ulps, TypeParam::kUlpsOfDouble) << "at " << worst.at;
}

RC_GTEST_PROP(ElementaryCircular, SinesAndCosinesAreAsNearAsTheManualSays, (std::uint64_t seed)) {
  constexpr double kUlps = 1.52;
  const sim::KeyedRandom random(seed);
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const double sign = random.named("sign").below(i, 2) == 0 ? 1 : -1;
    const auto exponent = static_cast<int>(random.named("exponent").below(i, 44)) - 19;
    double x = sign * std::ldexp(random.uniform(i), exponent);
    // Every other argument lies next to a multiple of a quarter turn, where little of it is left after the
    // reduction.
    if (i % 2 == 0) x = std::round(x / 1.5707963267948966) * 1.5707963267948966;
    RC_ASSERT(ulps_between(elementary::sin(x), sinl(static_cast<long double>(x))) <= kUlps);
    RC_ASSERT(ulps_between(elementary::cos(x), cosl(static_cast<long double>(x))) <= kUlps);
  }
}

// ---- the same bits, however compiled ----------------------------------------------------------------------

template <typename Function, typename T>
std::size_t differing(std::size_t blocks) {
  const sim::KeyedRandom random = sim::KeyedRandom(2).named(Function::kName);
  std::size_t count = 0;
  for (std::size_t block = 0; block < blocks; ++block) {
    Block<T> x;
    Block<T> plain;
    Block<T> vectors;
    draw<Function>(random, block, x);
    plainly<Function>(x, plain);
    in_vectors<Function>(x, vectors);
    for (std::size_t i = 0; i < kBlock; ++i) count += std::size_t{bits_of(plain[i]) != bits_of(vectors[i])};
  }
  return count;
}

TYPED_TEST(Elementary, VectorsGiveTheBitsOfPlainCode) {
  if (!has_vectors()) GTEST_SKIP() << "there is nothing but plain code here";
  const std::size_t blocks = kIsSanitized ? 16 : 512;
  EXPECT_EQ((differing<TypeParam, float>(blocks)), 0U);
  EXPECT_EQ((differing<TypeParam, double>(blocks)), 0U);
}

// ---- special values, laws ---------------------------------------------------------------------------------

template <typename T>
class ElementaryValues : public testing::Test {
 protected:
  using Limits = std::numeric_limits<T>;
  static constexpr T kLeast = Limits::denorm_min();
  static constexpr T kGreatest = Limits::max();

  struct Value {
    T x;
    T expected;
  };

  template <typename Function>
  static void expect(const std::vector<Value>& values) {
    for (const Value& value : values) {
      EXPECT_EQ(bits_of(Function::of(value.x)), bits_of(value.expected))
          << Function::kName << " of " << value.x;
    }
  }

  template <typename Function>
  static void expect_one_nan() {
    expect<Function>({{kNan<T>, kNan<T>}, {-kNan<T>, kNan<T>}, {Limits::signaling_NaN(), kNan<T>}});
    expect<Function>({{std::bit_cast<T>(bits_of(kNan<T>) + 5), kNan<T>}});
  }
};

struct NameOfType {
  template <typename T>
  static std::string GetName(int) {
    return std::is_same_v<T, float> ? "float" : "double";
  }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(ElementaryValues, Types, NameOfType);

TYPED_TEST(ElementaryValues, OfNanAreOneNan) {
  this->template expect_one_nan<Exp>();
  this->template expect_one_nan<Log>();
  this->template expect_one_nan<Tanh>();
  this->template expect_one_nan<Erf>();
  this->template expect_one_nan<Rsqrt>();
}

TYPED_TEST(ElementaryValues, OfExp) {
  using T = TypeParam;
  this->template expect<Exp>({{0, 1}, {T{-0.0}, 1}, {this->kLeast, 1}, {-this->kLeast, 1}});
  this->template expect<Exp>({{kInfinity<T>, kInfinity<T>}, {-kInfinity<T>, 0}});
  this->template expect<Exp>({{this->kGreatest, kInfinity<T>}, {-this->kGreatest, 0}});
  const T last_finite = std::is_same_v<T, float> ? T{0x1.62e42ep6F} : static_cast<T>(0x1.62e42fefa39efp9);
  EXPECT_TRUE(std::isfinite(elementary::exp(last_finite)));
  EXPECT_EQ(elementary::exp(std::nextafter(last_finite, kInfinity<T>)), kInfinity<T>);
}

TYPED_TEST(ElementaryValues, OfLog) {
  using T = TypeParam;
  this->template expect<Log>({{1, 0}, {0, -kInfinity<T>}, {T{-0.0}, -kInfinity<T>}});
  this->template expect<Log>({{kInfinity<T>, kInfinity<T>}, {-kInfinity<T>, kNan<T>}});
  this->template expect<Log>({{-1, kNan<T>}, {-this->kLeast, kNan<T>}, {-this->kGreatest, kNan<T>}});
}

TYPED_TEST(ElementaryValues, OfTanhAndErf) {
  using T = TypeParam;
  const auto expect_of_both = [](T x, T expected) {
    TestFixture::template expect<Tanh>({{x, expected}, {-x, -expected}});
    TestFixture::template expect<Erf>({{x, expected}, {-x, -expected}});
  };
  expect_of_both(0, 0);
  expect_of_both(this->kLeast, this->kLeast);
  expect_of_both(this->kGreatest, 1);
  expect_of_both(kInfinity<T>, 1);
}

TYPED_TEST(ElementaryValues, OfRsqrt) {
  using T = TypeParam;
  this->template expect<Rsqrt>({{0, kInfinity<T>}, {T{-0.0}, -kInfinity<T>}, {kInfinity<T>, 0}});
  this->template expect<Rsqrt>({{-1, kNan<T>}, {-this->kLeast, kNan<T>}, {-kInfinity<T>, kNan<T>}});
  for (T root = 1; root * root < kInfinity<T>; root *= 2) {
    this->template expect<Rsqrt>({{root * root, 1 / root}});
    if (1 / root / root > 0) this->template expect<Rsqrt>({{1 / root / root, root}});
  }
}

RC_GTEST_PROP(ElementaryLaws, TanhAndErfAreOdd, ()) {
  const auto x = std::bit_cast<double>(*rc::gen::arbitrary<std::uint64_t>());
  RC_PRE(x == x);
  RC_ASSERT(bits_of(elementary::tanh(-x)) == bits_of(-elementary::tanh(x)));
  RC_ASSERT(bits_of(elementary::erf(-x)) == bits_of(-elementary::erf(x)));
}

// A power of four scales without rounding, so nothing of the argument's exponent may reach the result's last
// place.
RC_GTEST_PROP(ElementaryLaws, RsqrtOfFourTimesIsHalf, (std::uint64_t seed)) {
  const double x = 1 + sim::KeyedRandom(seed).uniform(0);
  const int exponent = *rc::gen::inRange(-511, 511);
  RC_ASSERT(elementary::rsqrt(std::ldexp(x, 2 * exponent)) == std::ldexp(elementary::rsqrt(x), -exponent));
}

}  // namespace
