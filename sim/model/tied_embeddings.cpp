#include "sim/model/tied_embeddings.h"

namespace sim {

namespace {

template <typename Reduce>
void for_shared(Rank& rank, std::deque<GptModel>& chunks, const Reduce& reduce) {
  Communicator* embd = rank.groups.find("embd");
  if (embd == nullptr || embd->size() == 1) return;
  for (GptModel& chunk : chunks) {
    if (Parameter* weight = chunk.shared_embedding()) reduce(*embd, *weight);
  }
}

}  // namespace

void tie_embeddings(Rank& rank, std::deque<GptModel>& chunks) {
  for_shared(rank, chunks, [](Communicator& embd, Parameter& weight) {
    embd.all_reduce(weight.value, ReduceOp::sum, "tied_embeddings.tie");
  });
}

void all_reduce_embedding_grads(Rank& rank, std::deque<GptModel>& chunks) {
  for_shared(rank, chunks, [](Communicator& embd, Parameter& weight) {
    embd.all_reduce(weight.main_grad, ReduceOp::sum, "tied_embeddings.grads");
  });
}

}  // namespace sim
