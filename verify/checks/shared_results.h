#pragma once

/// Results that several scenarios of one replay have in common: each is computed once, by the thread that
/// asks first, and told to all that ask for it.
///
///   SharedResults<double> slacks;
///   const double slack = slacks.get("linear, tp 8", [&] { return worst_slack(...); });
///
/// Calls   any thread. The key must name everything that the result depends on.
/// Errors  what a computation throws is thrown to its own caller, and nothing is kept: others that wait for
///         the result compute it themselves.

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace verify {

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

}  // namespace verify
