#include <cstddef>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <span>

#include "verify/output/json.h"
#include "verify/output/report_json.h"
#include "verify/views/groups_view.h"

namespace verify {

namespace {

constexpr std::size_t kFlushBytes = 1 << 16;

/// Returns the beginning of the document: everything before "groups".
Json json_head(const sim::Layout& layout, std::optional<int> rank) {
  Json head = {{"world_size", layout.world_size}};
  if (layout.rules == sim::RuleBook::legacy) {
    head["rules"] = "legacy";
    head["order"] = layout.order;
    head["effective"] = {{"tp", layout.tp}, {"pp", layout.pp}, {"dp", layout.dp}};
    head["derived"] = {{"dp", layout.dp}};
  } else {
    head["rules"] = "megatron";
    head["order"] = layout.order;
    head["derived"] = {{"dp", layout.dp}, {"etp", layout.etp}, {"edp", layout.edp}};
  }
  if (rank) head["rank"] = *rank;
  return head;
}

void write_groups(std::ostream& out, const sim::GroupKind& kind, std::optional<int> rank) {
  fmt::memory_buffer buffer;
  bool first = true;
  const auto flush = [&] {
    out.write(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    buffer.clear();
  };
  const auto append = [&](std::span<const int> members) {
    fmt::format_to(std::back_inserter(buffer), "{}[{}]", first ? "" : ",", fmt::join(members, ","));
    first = false;
  };
  buffer.push_back('[');
  if (rank) {
    if (const auto place = kind.place_of(*rank)) append(kind.members(place->group));
  } else {
    kind.for_each_group([&](int, std::span<const int> members) {
      append(members);
      if (buffer.size() >= kFlushBytes) flush();
    });
  }
  buffer.push_back(']');
  flush();
}

}  // namespace

void write_groups_json(std::ostream& out, const GroupsView& view, const std::string& last_members) {
  std::string head = json_head(view.layout, view.rank).dump();
  head.pop_back();  // the closing brace
  out << head << ",\"groups\":{";
  for (std::size_t i = 0; i < view.kinds.size(); ++i) {
    out << (i == 0 ? "" : ",") << '"' << view.kinds[i]->name() << "\":";
    write_groups(out, *view.kinds[i], view.rank);
  }
  out << "},\"warnings\":" << warnings_json(view.layout.warnings).dump() << last_members << "}\n";
}

}  // namespace verify
