#include "sim/comm/call.h"

namespace sim {

const RareArguments& Rare::none() {
  static const RareArguments none;
  return none;
}

}  // namespace sim
