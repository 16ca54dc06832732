#include "sim/base/refusal_watch.h"

#include <utility>

namespace sim {

namespace {

thread_local RefusalWatch* current = nullptr;

}  // namespace

RefusalWatch* refusal_watch() { return current; }

WatchedRefusals::WatchedRefusals(RefusalWatch* watch) : before_(std::exchange(current, watch)) {}

WatchedRefusals::~WatchedRefusals() { current = before_; }

}  // namespace sim
