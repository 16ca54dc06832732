#pragma once

/// Drawn worlds, and models for them, whose steps run at full size.

#include <cstdint>
#include <string>

#include "sim/base/keyed_random.h"
#include "verify/requests/case_options.h"

namespace test {

/// Numbers drawn from a seed.
class Draws {
 public:
  Draws(std::uint64_t seed, const char* name) : random_(sim::KeyedRandom(seed).named(name)) {}
  int operator()(int choices) {
    return static_cast<int>(random_.below(drawn_++, static_cast<std::uint32_t>(choices)));
  }
  int divisor(int n) {
    int divisor = 1 + (*this)(n);
    while (n % divisor != 0) ++divisor;
    return divisor;
  }

 private:
  sim::KeyedRandom random_;
  std::uint64_t drawn_ = 0;
};

struct DrawnWorld {
  verify::NamedValues options;
  int tp = 1;
  int ranks_of_stage = 1;  // tp * cp * dp
};

/// Draws a world of up to so many pipeline ranks and of 3 to 5 replicas, and a dense model for it.
DrawnWorld drawn_world(Draws& draw, int most_pipeline_ranks);

/// Adds drawn experts to a drawn world, and sequence parallelism where it has tp.
void add_drawn_experts(int tp, int ranks_of_stage, Draws& draw, verify::NamedValues& options);

/// Draws a world of up to 3 pipeline ranks and of 3 to 5 replicas, and a model for it.
verify::NamedValues full_size_options(std::uint64_t seed, bool has_experts = false);

/// Returns the options as words of a command line.
std::string text_of(const verify::NamedValues& options);

}  // namespace test
