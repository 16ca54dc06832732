#include "sim/comm/ring_traffic.h"

namespace sim {

namespace {

class Sender {
 public:
  Sender(const ProcessGroup& group, int place) : group_(group), place_(place) {}

  void send(int to, std::int64_t bytes) {
    if (to == place_) return;
    (group_.on_one_node(place_, to) ? traffic_.bytes_inside : traffic_.bytes_across) += bytes;
  }
  Traffic traffic() const { return traffic_; }

 private:
  const ProcessGroup& group_;
  int place_;
  Traffic traffic_;
};

/// Returns the number of elements of chunk `index` when `count` elements are divided into n chunks.
std::int64_t chunk(std::int64_t count, int n, int index) { return count / n + (index < count % n ? 1 : 0); }

}  // namespace

Traffic traffic_of(const Call& call, const ProcessGroup& group, int place) {
  const int n = group.size();
  const int next = (place + 1) % n;
  const std::int64_t element = size_of(call.dtype);
  const std::int64_t bytes = call.count * element;
  Sender sender(group, place);
  switch (call.operation) {
    case Operation::all_reduce:
      sender.send(next,
                  (2 * call.count - chunk(call.count, n, place) - chunk(call.count, n, next)) * element);
      break;
    case Operation::reduce_scatter:
    case Operation::all_gather:
      sender.send(next, bytes * (n - 1));
      break;
    case Operation::broadcast:
      if (next != call.root) sender.send(next, bytes);
      break;
    case Operation::reduce:
      if (place != call.root) sender.send(next, bytes);
      break;
    case Operation::gather:
      sender.send(call.root, bytes);
      break;
    case Operation::scatter:
    case Operation::all_to_all:
      if (call.operation == Operation::scatter && place != call.root) break;
      for (int to = 0; to < n; ++to) sender.send(to, bytes);
      break;
    case Operation::all_to_all_uneven:
      for (int to = 0; to < n; ++to) {
        sender.send(to, call.rare->send_rows[static_cast<std::size_t>(to)] * call.input->shape().row_count() *
                            element);
      }
      break;
    case Operation::send:
      sender.send(call.peer, bytes);
      break;
    case Operation::recv:
    case Operation::barrier:
    case Operation::split:
    case Operation::new_group:
      break;
  }
  return sender.traffic();
}

}  // namespace sim
