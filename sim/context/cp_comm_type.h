#pragma once

/// How context-parallel ranks exchange what attention needs, by the names of --cp-comm-type.
///
///   p2p         keys and values travel around a ring
///   all_gather  every rank gathers all keys and values
///   a2a         ranks exchange parts of the sequence for heads (Ulysses)
///   a2a+p2p     a2a inside groups of adjacent ranks, and a ring over those groups
///
/// Errors  cp_comm_type: a name that is none of these.

#include <array>
#include <cstdint>
#include <string_view>

namespace sim {

enum class CpCommType : std::uint8_t { p2p, all_gather, a2a, a2a_p2p };

inline constexpr std::array<std::string_view, 4> kCpCommTypes = {"p2p", "all_gather", "a2a", "a2a+p2p"};

constexpr std::string_view name_of(CpCommType type) { return kCpCommTypes[static_cast<std::size_t>(type)]; }
CpCommType cp_comm_type(std::string_view name);

}  // namespace sim
