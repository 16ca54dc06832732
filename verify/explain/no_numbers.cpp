#include "verify/explain/no_numbers.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "sim/base/field.h"
#include "verify/explain/wrong_tensor.h"
#include "verify/faults/decorated_groups.h"
#include "verify/properties/assembled.h"
#include "verify/properties/bench.h"

namespace verify {

namespace {

/// More places than these are not told.
constexpr std::size_t kMostPlaces = 3;

/// How many elements of a tensor are no numbers.
struct NoNumbers {
  std::int64_t count = 0;
  std::int64_t of = 0;
  bool are_all() const { return count == of; }
};

/// Looks at the memory of a tensor as it is, because a call may be using it.
NoNumbers no_numbers_in(const sim::Tensor& tensor) {
  if (tensor.is_none() || tensor.dtype() != sim::DType::field) return {};
  std::vector<sim::Field> elements(static_cast<std::size_t>(tensor.count()));
  tensor.device().to_host(tensor, std::as_writable_bytes(std::span(elements)));
  return {std::ranges::count_if(elements, [](const sim::Field& x) { return !has_value(x); }),
          std::ssize(elements)};
}

/// Names a call in the same way on all ranks that take part in it.
std::string name_of_call(const SeenCall& seen) {
  const sim::Call& call = seen.call;
  std::string name = fmt::format("{}[{}] {}", seen.group.kind, seen.group.index, call.sequence);
  if (call.operation == sim::Operation::send) name += fmt::format(" {}->{}", seen.place, call.peer);
  if (call.operation == sim::Operation::recv) name += fmt::format(" {}->{}", call.peer, seen.place);
  return name;
}

/// A call to which a rank gave, or from which it got, an element that is no number.
struct Sighting {
  std::string site;
  std::string site_before;  // of the latest call whose result has none; "" for none
  std::string call;         // name_of_call()
  bool is_given = false;    // the rank gave it to the call; otherwise it got it
  bool are_all = false;     // no element is a number
};

class Watch {
 public:
  explicit Watch(std::size_t ranks) : of_ranks_(ranks) {}

  void see(const SeenCall& seen) {
    const sim::Call& call = seen.call;
    OfRank& own = of_ranks_[static_cast<std::size_t>(seen.rank.id)];
    const bool is_root = seen.place == call.root;
    const bool has_data = seen.is_over ? gets(call.operation, is_root) : gives(call.operation, is_root);
    const NoNumbers found = has_data ? no_numbers_in(seen.is_over ? call.output : call.input) : NoNumbers();
    if (found.count > 0) {
      if (!seen.is_over) own.given.insert(name_of_call(seen));
      const bool may_begin = seen.is_over || (own.sightings.empty() && !own.has_unspecified);
      if (may_begin)
        own.sightings.push_back(
            {call.site.name, own.site_before, name_of_call(seen), !seen.is_over, found.are_all()});
    } else if (seen.is_over) {
      own.site_before = call.site.name;
    }
    const bool is_reduce_scatter = call.operation == sim::Operation::reduce_scatter;
    if (seen.is_over && is_reduce_scatter && call.input->overlaps(call.output)) own.has_unspecified = true;
  }

  /// Returns what begins on each rank, and the ranks on which it does.
  std::map<std::string, std::set<int>> beginnings() const {
    std::map<std::string, std::set<int>> ranks_of;
    for (std::size_t rank = 0; rank < of_ranks_.size(); ++rank) {
      for (const Sighting& sighting : of_ranks_[rank].sightings) {
        if (!sighting.is_given && is_given_by_any(sighting.call)) continue;
        ranks_of[text_of(sighting)].insert(static_cast<int>(rank));
        break;
      }
    }
    return ranks_of;
  }

 private:
  struct OfRank {
    std::set<std::string> given;      // the calls to which the rank gave one
    std::vector<Sighting> sightings;  // what it gives only if it had none before
    std::string site_before;
    bool has_unspecified = false;  // it has made a reduce_scatter in place
  };

  bool is_given_by_any(const std::string& call) const {
    return std::ranges::any_of(of_ranks_, [&](const OfRank& own) { return own.given.contains(call); });
  }

  /// Returns a phrase in which {} stands for the ranks.
  static std::string text_of(const Sighting& sighting) {
    const std::string before =
        sighting.site_before.empty()
            ? std::string("it is the first call")
            : fmt::format("the result of '{}' before it has none", sighting.site_before);
    if (sighting.is_given)
      return fmt::format("what '{}' is given on {{}} has elements that are no numbers, and {}", sighting.site,
                         before);
    if (sighting.are_all)
      return fmt::format(
          "no element of the result of '{}' on {{}} is a number, and all that it is given are "
          "numbers: it comes too late, is not written, or the call makes it so",
          sighting.site);
    return fmt::format(
        "the result of '{}' on {{}} has elements that are no numbers, and all that it is given are numbers",
        sighting.site);
  }

  std::vector<OfRank> of_ranks_;
};

}  // namespace

std::string explain_no_numbers(Bench& bench, const Case& the_case, const CaseSetting& setting) {
  const std::size_t ranks = bench.run(the_case, setting)->ranks.size();
  Watch watch(ranks);
  bench.run_watched(the_case, setting, WatchedSide::program, [&](const SeenCall& seen) { watch.see(seen); });
  const std::map<std::string, std::set<int>> beginnings = watch.beginnings();
  if (beginnings.size() > kMostPlaces) return "";
  std::vector<std::string> phrases;
  for (const auto& [phrase, of_ranks] : beginnings)
    phrases.push_back(fmt::format(fmt::runtime(phrase), text_of_ranks(of_ranks, ranks)));
  return fmt::format("{}", fmt::join(phrases, "; "));
}

}  // namespace verify
