#pragma once

/// Divides pieces of work over benches, with a thread for each bench.
///
/// Exact   which bench does a piece depends on the machine: a result must not.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "verify/properties/bench.h"

namespace verify {

/// Returns how many benches there should be: as many as are asked for, or as there are cores.
inline std::size_t benches_for(std::optional<std::int64_t> asked) {
  constexpr std::int64_t kMost = 256;
  const auto cores = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  return static_cast<std::size_t>(std::min(asked.value_or(cores), kMost));
}

/// Does a piece of work for each number below `count`. What a piece throws is thrown here.
inline void over_benches(std::size_t count, std::span<Bench> benches,
                         const std::function<void(Bench& bench, std::size_t piece)>& work) {
  std::atomic<std::size_t> next = 0;
  const auto take = [&](Bench& bench) {
    for (std::size_t piece = next++; piece < count; piece = next++) work(bench, piece);
  };
  std::vector<std::future<void>> others;
  for (Bench& bench : benches.subspan(1))
    others.push_back(std::async(std::launch::async, [&] { take(bench); }));
  take(benches.front());
  for (std::future<void>& other : others) other.get();
}

}  // namespace verify
