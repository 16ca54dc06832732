#pragma once

/// A mark on products that stand for work on rows or single elements. Scaling rows and summing them are
/// composed of matmul (sim/experts/row_operations.h), but are no products of matrices.
///
/// Calls   none. The mark holds for the thread, within which no rank waits.
/// Exact   A device that counts multiply-adds counts the elements of such a product in their place.

namespace sim {

class RowWork {
 public:
  RowWork() : before_(is_running_) { is_running_ = true; }
  ~RowWork() { is_running_ = before_; }
  RowWork(const RowWork&) = delete;
  RowWork& operator=(const RowWork&) = delete;

  static bool is_running() { return is_running_; }

 private:
  static inline thread_local bool is_running_ = false;
  bool before_;
};

}  // namespace sim
