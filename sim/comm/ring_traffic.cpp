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
  void send_to_all(std::int64_t bytes) {
    for (int to = 0; to < group_.size(); ++to) send(to, bytes);
  }
  void send_rows(const std::vector<std::int64_t>& rows, std::int64_t bytes_of_row) {
    for (std::size_t to = 0; to < rows.size(); ++to) send(static_cast<int>(to), rows[to] * bytes_of_row);
  }
  Traffic traffic() const { return traffic_; }

 private:
  const ProcessGroup& group_;
  int place_;
  Traffic traffic_;
};

/// Whether a member sends nothing because of its distance from the root.
bool is_silent(const Call& call, int place, int next) {
  if (call.operation == Operation::broadcast) return next == call.root;
  if (call.operation == Operation::reduce) return place == call.root;
  return call.operation == Operation::scatter && place != call.root;
}

/// Returns the number of elements of chunk `index` when `count` elements are divided into n chunks.
std::int64_t chunk(std::int64_t count, int n, int index) { return count / n + (index < count % n ? 1 : 0); }

void send_all(const Call& call, int n, int place, Sender& sender) {
  const int next = (place + 1) % n;
  const std::int64_t element = size_of(call.dtype);
  const std::int64_t bytes = call.count * element;
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
    case Operation::reduce:
      sender.send(next, bytes);
      break;
    case Operation::gather:
      sender.send(call.root, bytes);
      break;
    case Operation::scatter:
    case Operation::all_to_all:
      sender.send_to_all(bytes);
      break;
    case Operation::all_to_all_uneven:
      sender.send_rows(call.rare->send_rows, call.input->shape().row_count() * element);
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
}

}  // namespace

Traffic traffic_of(const Call& call, const ProcessGroup& group, int place) {
  Sender sender(group, place);
  const int n = group.size();
  if (!is_silent(call, place, (place + 1) % n)) send_all(call, n, place, sender);
  return sender.traffic();
}

}  // namespace sim
