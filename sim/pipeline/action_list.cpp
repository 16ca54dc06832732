#include "sim/pipeline/action_list.h"

namespace sim {

void ActionList::send(const std::optional<Step>& output, std::vector<Message>& batch) const {
  if (!output) return;
  const std::optional<Peer> consumer = consumer_of(shape_, rank_, *output);
  if (consumer) batch.push_back({.is_send = true, .peer = consumer->rank, .input = consumer->step});
}

void ActionList::recv(const std::optional<Step>& input, std::vector<Message>& batch) const {
  if (!input) return;
  const std::optional<Peer> source = source_of(shape_, rank_, *input);
  if (source) batch.push_back({.is_send = false, .peer = source->rank, .input = *input});
}

void ActionList::exchange(const Exchange& exchange) {
  std::vector<Message> batch;
  const bool one_neighbour = shape_.ranks() == 2;
  if (one_neighbour) {
    send(exchange.send_forward, batch);
    recv(exchange.recv_forward, batch);
    send(exchange.send_backward, batch);
    recv(exchange.recv_backward, batch);
  } else {
    send(exchange.send_backward, batch);
    recv(exchange.recv_forward, batch);
    send(exchange.send_forward, batch);
    recv(exchange.recv_backward, batch);
  }
  if (!batch.empty()) actions_.push_back({std::nullopt, std::move(batch)});
}

}  // namespace sim
