#include "sim/experts/token_dispatcher.h"

#include <array>

#include "sim/experts/dispatchers.h"

namespace sim {

std::unique_ptr<TokenDispatcher> make_token_dispatcher(TokenDispatcherType type, const ExpertGrid& grid,
                                                       TokensToDispatch tokens) {
  static constexpr std::array kMakers = {dispatchers::allgather, dispatchers::all_to_all, dispatchers::flex};
  return kMakers[static_cast<std::size_t>(type)](grid, std::move(tokens));
}

}  // namespace sim
