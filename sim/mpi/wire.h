#pragma once

/// A wire carries letters between the processes of a world: a process sends letters and receives those that
/// have arrived.
///
/// Calls   one thread makes all calls. send() returns at once and keeps the letter until it is delivered;
///         delivery proceeds in this and in later calls of send() and receive(). All processes call close()
///         once, when no letter is in flight any more. abort() ends every process.
/// Exact   letters from one process to another arrive in the order in which they were sent.

#include <functional>
#include <memory>
#include <optional>

#include "sim/base/byte_order.h"

namespace sim {

struct Arrival {
  int from = 0;
  Bytes letter;
};

class Wire {
 public:
  virtual ~Wire() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void send(int to, Bytes letter) = 0;
  /// Returns the next letter, or nothing if none has arrived.
  virtual std::optional<Arrival> receive() = 0;
  virtual void close() = 0;
  [[noreturn]] virtual void abort(int exit_code) = 0;
};

using OpenWire = std::function<std::unique_ptr<Wire>()>;

}  // namespace sim
