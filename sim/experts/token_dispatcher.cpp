#include "sim/experts/token_dispatcher.h"

#include <array>
#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/experts/dispatchers.h"
#include "sim/tensor/checks.h"

namespace sim {

std::unique_ptr<TokenDispatcher> make_token_dispatcher(TokenDispatcherType type, const ExpertGrid& grid,
                                                       TokensToDispatch tokens) {
  if (tokens.map.experts() != grid.experts) {
    refuse(
        {.code = "dispatch_map",
         .option = "token_dispatcher",
         .numbers = fmt::format("a map of {} experts, and a grid of {}", tokens.map.experts(), grid.experts),
         .rule = "a map says of each expert of the model whether a token goes to it",
         .hint = "the map of the router of the same layer"});
  }
  static constexpr std::array kMakers = {dispatchers::allgather, dispatchers::all_to_all, dispatchers::flex};
  return kMakers[static_cast<std::size_t>(type)](grid, std::move(tokens));
}

RoutingMap dispatchers::received_map(const Tensor& map, const RoutingMap& own, int ranks) {
  if (!own.is_counted()) return RoutingMap::from_tensor(map);
  std::vector<std::int64_t> counts = own.tokens_per_expert();
  for (std::int64_t& count : counts) count *= ranks;
  return RoutingMap::counted(map.shape()[0], std::move(counts));
}

void dispatchers::require_tokens_of(const RoutingMap& map, const Tensor& hidden, const Tensor& probs) {
  require_inputs({&hidden, &probs}, "token_dispatcher");
  require_shapes(hidden.shape().dimensions() == 2 && hidden.shape()[0] == map.tokens() &&
                     probs.shape() == Shape{map.tokens(), map.experts()},
                 {&hidden, &probs}, "token_dispatcher",
                 "hidden states are [T, H] and probabilities [T, E], of the tokens and experts of the map");
}

}  // namespace sim
