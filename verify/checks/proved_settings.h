#pragma once

/// What the scenarios of one replay have proved of settings of cases. Many scenarios have layers or a
/// training in common: each setting runs once, and the rows of all of them report its result.
///
/// Calls   One object serves the threads of a replay. Where faults are planted nothing is shared, because a
///         fault counts the calls that meet it.
/// Exact   A row is the same whether its settings ran for this scenario or for another one.

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "verify/properties/properties.h"

namespace verify {

// Results that several scenarios of one replay have in common: each is computed once, by the thread that
// asks first, and returned to all that ask for it.
//
//   SharedResults<double> slacks;
//   const double slack = slacks.get("linear, tp 8", [&] { return worst_slack(...); });
//
// Calls   any thread. The key must name everything that the result depends on.
// Errors  what a computation throws is thrown to its own caller, and nothing is kept: others that wait for
//         the result compute it themselves.

template <typename Result>
class SharedResults {
 public:
  using Compute = std::function<Result()>;

  /// Returns the result of a key, and waits for it where another thread computes it.
  Result get(const std::string& key, const Compute& compute) {
    std::unique_lock lock(mutex_);
    for (;;) {
      const auto [found, is_new] = results_.try_emplace(key);
      if (is_new) return computed(key, compute, lock);
      if (found->second) return *found->second;
      changed_.wait(lock);
    }
  }

  /// Returns the result of a key; nothing where another thread computes it, so that the caller can do other
  /// work first.
  std::optional<Result> get_unless_begun(const std::string& key, const Compute& compute) {
    std::unique_lock lock(mutex_);
    const auto [found, is_new] = results_.try_emplace(key);
    if (is_new) return computed(key, compute, lock);
    return found->second;
  }

 private:
  Result computed(const std::string& key, const Compute& compute, std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    std::optional<Result> result;
    try {
      result = compute();
    } catch (...) {
      lock.lock();
      results_.erase(key);
      changed_.notify_all();
      throw;
    }
    lock.lock();
    results_[key] = result;
    changed_.notify_all();
    return *std::move(result);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::optional<Result>> results_;  // nothing: it is being computed
};

/// The training of a setting, as the virtual ranks and the reference did it.
struct ProvedTraining {
  Judgement judgement;
  bool is_equal_in_field = false;
  std::vector<double> losses, reference, bounds;  // by step; no losses if the run broke a contract
};

struct ProvedSettings {
  /// The slacks of all properties that judge a setting, in their order; nothing if one of them does not hold.
  using Slacks = std::optional<std::vector<double>>;
  SharedResults<Slacks> layers;
  SharedResults<ProvedTraining> trainings;
};

}  // namespace verify
