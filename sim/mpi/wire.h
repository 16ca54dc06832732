#pragma once

/// How the processes of a world reach each other: one sends letters, and takes those that have come.
///
/// Calls   by one thread. send() returns at once and keeps the letter until it is gone; it goes on its way in
///         this and in later calls of either. close() is called by all, once, when nothing is on its way any
///         more; abort() ends every process.
/// Exact   letters of one process to another come in the order in which they were sent.

#include <functional>
#include <memory>
#include <optional>

#include "sim/meeting/frame.h"

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
  /// The next letter; none where none has come.
  virtual std::optional<Arrival> receive() = 0;
  virtual void close() = 0;
  [[noreturn]] virtual void abort(int exit_code) = 0;
};

using OpenWire = std::function<std::unique_ptr<Wire>()>;

}  // namespace sim
