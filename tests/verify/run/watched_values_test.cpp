// What modules take and give on a layout, whose ranks do not say which part of the whole they have.

#include "verify/run/watched_values.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <rapidcheck/gtest.h>

#include "tests/verify/run/guest_test.h"
#include "tests/verify/run/publications.h"
#include "verify/run/watched_report.h"

namespace {

using test::has;
using test::Publications;
using verify::WatchState;

/// A value of a module, [sequence, samples, hidden] in each microbatch, on ranks in the order tp, cp, dp.
struct Watched {
  std::int64_t tp, cp, dp;
  bool cp_is_mirrored, tp_cuts_sequence, dp_cuts_samples, dp_is_contiguous, dp_deals_samples;
  std::int64_t microbatches;                // of a rank
  std::int64_t sequence, samples, hidden;   // of the whole
  std::vector<std::vector<double>> values;  // by microbatch of the reference
  bool is_gradient = false;

  int ranks() const { return static_cast<int>(tp * cp * dp); }
  std::int64_t microbatches_of_reference() const {
    return dp_cuts_samples ? microbatches : microbatches * dp;
  }
  std::int64_t place_in_tp(int rank) const { return rank % tp; }
  std::int64_t place_in_dp(int rank) const { return rank / (tp * cp); }
  std::vector<std::int64_t> shape() const {
    return {sequence / cp / (tp_cuts_sequence ? tp : 1), samples / (dp_cuts_samples ? dp : 1),
            hidden / (tp_cuts_sequence ? 1 : tp)};
  }
  /// Returns the place in the sequence of one of the places that the rank has.
  std::int64_t in_sequence(int rank, std::int64_t own) const {
    const std::int64_t of_cp = sequence / cp, place = rank / tp % cp;
    if (tp_cuts_sequence) own += place_in_tp(rank) * (of_cp / tp);
    if (!cp_is_mirrored) return place * of_cp + own;
    const std::int64_t chunk = of_cp / 2;
    return own < chunk ? place * chunk + own : (2 * cp - 1 - place) * chunk + own - chunk;
  }
  std::int64_t in_samples(int rank, std::int64_t own, std::int64_t count) const {
    if (!dp_cuts_samples) return own;
    return dp_deals_samples ? own * dp + place_in_dp(rank) : place_in_dp(rank) * count + own;
  }
  std::int64_t in_reference(int rank, std::int64_t microbatch) const {
    if (dp_cuts_samples) return microbatch;
    return dp_is_contiguous ? place_in_dp(rank) * microbatches + microbatch
                            : microbatch * dp + place_in_dp(rank);
  }
  std::vector<double> part(int rank, std::int64_t microbatch) const {
    const std::vector<std::int64_t> own = shape();
    const auto& whole = values[static_cast<std::size_t>(in_reference(rank, microbatch))];
    std::vector<double> elements;
    for (std::int64_t i = 0; i < own[0]; ++i)
      for (std::int64_t k = 0; k < own[1]; ++k)
        for (std::int64_t j = 0; j < own[2]; ++j) {
          const std::int64_t sample = in_samples(rank, k, own[1]);
          const std::int64_t column = j + (tp_cuts_sequence ? 0 : place_in_tp(rank) * own[2]);
          elements.push_back(
              whole[static_cast<std::size_t>((in_sequence(rank, i) * samples + sample) * hidden + column)]);
        }
    return elements;
  }
  std::vector<sim::GuestGroup> groups() const {
    std::vector<sim::GuestGroup> all;
    const std::int64_t strides[] = {1, tp, tp * cp}, sizes[] = {tp, cp, dp};
    for (std::size_t i = 0; i < 3; ++i)
      for (int first = 0; first < ranks(); ++first) {
        if (first / strides[i] % sizes[i] != 0) continue;
        sim::GuestGroup group{.name = fmt::format("axis {}", i), .members = {}};
        for (std::int64_t k = 0; k < sizes[i]; ++k)
          group.members.push_back(first + static_cast<int>(k * strides[i]));
        all.push_back(std::move(group));
      }
    return all;
  }
};

Watched drawn_watched(std::int64_t least_tp = 1) {
  const auto flag = [] { return *rc::gen::arbitrary<bool>(); };
  Watched one{.tp = *rc::gen::inRange<std::int64_t>(least_tp, 4),
              .cp = *rc::gen::inRange(1, 3),
              .dp = *rc::gen::inRange(1, 4),
              .cp_is_mirrored = flag(),
              .tp_cuts_sequence = flag(),
              .dp_cuts_samples = flag(),
              .dp_is_contiguous = flag(),
              .dp_deals_samples = flag(),
              .microbatches = *rc::gen::inRange(1, 4),
              .sequence = 0,
              .samples = 0,
              .hidden = 0,
              .values = {}};
  one.sequence = 2 * one.cp * one.tp * *rc::gen::inRange(1, 3);
  one.samples = one.dp * *rc::gen::inRange(1, 3);
  one.hidden = one.tp * *rc::gen::inRange(1, 4);
  double least = 16;  // elements are different
  for (std::int64_t i = 0; i < one.microbatches_of_reference(); ++i) {
    one.values.emplace_back();
    for (std::int64_t k = 0; k < one.sequence * one.samples * one.hidden; ++k, ++least)
      one.values.back().push_back(least + static_cast<double>(*rc::gen::inRange(0, 1024)) / 2048);
  }
  return one;
}

void publish(Publications& all, int rank, std::int64_t microbatch, const std::vector<std::int64_t>& shape,
             const std::vector<double>& elements, const std::string& kind = "watched",
             const std::string& value = "gives\tmlp\tMLP\t") {
  all.add(rank, fmt::format("{}\t{}", microbatch, value),
          {.kind = kind, .whole = shape, .offset = std::vector<std::int64_t>(shape.size()), .shape = shape},
          elements);
}

using Change = std::function<void(int rank, std::int64_t microbatch, std::vector<double>&)>;

/// Returns what is said of a value whose parts are changed.
verify::WatchRow row_of(const Watched& one, const Change& change, bool layout_holds = false) {
  Publications reference(1), parts(one.ranks());
  const std::string kind = one.is_gradient ? "watched gradient" : "watched";
  for (std::size_t i = 0; i < one.values.size(); ++i)
    publish(reference, 0, static_cast<std::int64_t>(i), {one.sequence, one.samples, one.hidden},
            one.values[i], kind);
  for (int rank = 0; rank < one.ranks(); ++rank)
    for (std::int64_t microbatch = 0; microbatch < one.microbatches; ++microbatch) {
      std::vector<double> elements = one.part(rank, microbatch);
      change(rank, microbatch, elements);
      publish(parts, rank, microbatch, one.shape(), elements, kind);
    }
  const verify::WatchedValues right = watched_values(reference.report, reference.record);
  const verify::ComparedWatch watch = verify::WatchReference(right).compared(
      watched_values(parts.report, parts.record),
      {{{"tp", one.tp}, {"cp", one.cp}, {"dp", one.dp}}, one.groups()}, layout_holds);
  RC_ASSERT(watch.rows.size() == 1U);
  return watch.rows.front();
}

const Change kAsItIs = [](int, std::int64_t, std::vector<double>&) {};

RC_GTEST_PROP(WatchedValues, PartsThatAreRightAgreeHoweverTheyAreCut, ()) {
  RC_ASSERT(row_of(drawn_watched(), kAsItIs).state == WatchState::agrees);
}

RC_GTEST_PROP(WatchedValues, OneWrongElementDiffers, ()) {
  const Watched one = drawn_watched();
  const int wrong = *rc::gen::inRange(0, one.ranks());
  const verify::WatchRow row = row_of(one, [&](int rank, std::int64_t microbatch, std::vector<double>& part) {
    if (rank == wrong && microbatch + 1 == one.microbatches) part.back() += 2048;
  });
  RC_ASSERT(row.state == WatchState::differs);
  RC_ASSERT(has(row.what, fmt::format("on rank {}: ", wrong)));
  RC_ASSERT(has(row.what, "it differs in 1 of ") || one.part(wrong, 0).size() == 1U);
}

RC_GTEST_PROP(WatchedValues, PartsOfOtherRanksDiffer, ()) {
  const Watched one = drawn_watched(2);
  const verify::WatchRow row = row_of(one, [&](int rank, std::int64_t microbatch, std::vector<double>& part) {
    const std::int64_t other = one.place_in_tp(rank) ^ 1;
    if (other < one.tp) part = one.part(rank - static_cast<int>(one.place_in_tp(rank) - other), microbatch);
  });
  RC_ASSERT(row.state == WatchState::differs);
}

RC_GTEST_PROP(WatchedValues, TermsOfASumThatIsMissingAreNamed, ()) {
  Watched one = drawn_watched();
  const std::int64_t terms = *rc::gen::inRange(2, 4);
  one.tp = one.cp = 1;
  if (one.dp_cuts_samples) one.dp = 1;  // terms alone do not say how an axis is cut
  // The parts of tp are copies here: ranks of a group of tp hold the same places.
  Publications reference(1), parts(static_cast<int>(terms * one.dp));
  std::vector<sim::GuestGroup> groups;
  for (std::size_t i = 0; i < one.values.size(); ++i)
    publish(reference, 0, static_cast<std::int64_t>(i), {one.sequence, one.samples, one.hidden},
            one.values[i]);
  for (int replica = 0; replica < one.dp; ++replica) {
    groups.push_back({"TENSOR_MODEL_PARALLEL_GROUP", {}});
    for (int term = 0; term < terms; ++term) {
      const int rank = replica * static_cast<int>(terms) + term;
      groups.back().members.push_back(rank);
      for (std::int64_t microbatch = 0; microbatch < one.microbatches; ++microbatch) {
        std::vector<double> elements = one.part(replica, microbatch);
        for (double& x : elements)
          x = term == 0 ? x - static_cast<double>(terms * (terms - 1)) / 128 : term / 64.0;
        publish(parts, rank, microbatch, one.shape(), elements);
      }
    }
  }
  for (int term = 0; term < terms; ++term) {
    groups.push_back({"DATA_PARALLEL_GROUP", {}});
    for (int replica = 0; replica < one.dp; ++replica)
      groups.back().members.push_back(replica * static_cast<int>(terms) + term);
  }
  const verify::WatchedValues right = watched_values(reference.report, reference.record);
  const verify::ComparedWatch watch = verify::WatchReference(right).compared(
      watched_values(parts.report, parts.record), {{{"tp", terms}, {"dp", one.dp}}, groups}, false);
  RC_ASSERT(watch.rows.front().state == WatchState::differs);
  RC_ASSERT(has(watch.rows.front().what, "each rank holds its own term: the sum over "));
}

RC_GTEST_PROP(WatchedValues, GradientsOfMeansHaveOneFactorThatIsTold, ()) {
  Watched one = drawn_watched();
  one.is_gradient = true;
  const double factor = static_cast<double>(one.dp * one.cp);
  const auto multiplied = [&](int, std::int64_t, std::vector<double>& part) {
    for (double& x : part) x *= factor;
  };
  RC_ASSERT(row_of(one, multiplied).state == WatchState::agrees);
  one.is_gradient = false;
  RC_ASSERT((row_of(one, multiplied).state == WatchState::agrees) == (factor == 1));
}

RC_GTEST_PROP(WatchedValues, AValueOfALayoutThatHoldsNeverDiffers, ()) {
  const verify::WatchRow row = row_of(
      drawn_watched(), [](int, std::int64_t, std::vector<double>& part) { part.front() += 4096; }, true);
  RC_ASSERT(row.state == WatchState::not_compared);
  RC_ASSERT(has(row.what, "the layout holds"));
}

/// What is said of one value of rank 0, whose reference has two microbatches of [4].
std::string why_not(const std::function<void(Publications&)>& publish_layout, int ranks_of_reference = 1) {
  Publications reference(ranks_of_reference), layout(2);
  for (std::int64_t microbatch = 0; microbatch < 2; ++microbatch)
    publish(reference, 0, microbatch, {4}, {1, 2, 3, 4}, "watched", "gives\tdecoder\tBlock\t0,1");
  publish_layout(layout);
  const verify::WatchedValues right = watched_values(reference.report, reference.record);
  const verify::ComparedWatch watch =
      verify::WatchReference(right).compared(watched_values(layout.report, layout.record), {}, false);
  EXPECT_EQ(watch.rows.front().state, WatchState::not_compared);
  return watch.rows.front().what;
}

TEST(WatchedValues, WhatCannotBePlacedIsNotCompared) {
  const auto with = [](const std::string& module, std::vector<std::int64_t> shapes, std::int64_t from = 0) {
    return [=](Publications& layout) {
      for (std::size_t i = 0; i < shapes.size(); ++i)
        publish(layout, 0, from + static_cast<std::int64_t>(i), {shapes[i]},
                std::vector<double>(static_cast<std::size_t>(shapes[i])), "watched",
                "gives\tdecoder\t" + module);
    };
  };
  EXPECT_EQ(why_not([](Publications&) {}), "no rank has it");
  EXPECT_EQ(why_not(with("Block\t0,1", {4, 4}), 2), "the reference has 2 ranks");
  EXPECT_EQ(why_not(with("Block\t0", {4, 4})), "ranks have other layers of the module than the reference");
  EXPECT_EQ(why_not(with("Other\t0,1", {4, 4})), "its class is Other here, and Block in the reference");
  EXPECT_EQ(why_not(with("Block\t0,1", {4, 3})),
            "its shape is [4] and [3]: it depends on data, or on the rank");
  EXPECT_EQ(why_not(with("Block\t0,1", {4, 4, 4})),
            "rank 0 has it 3 times in a step, and the reference 2 times");
  EXPECT_EQ(why_not(with("Block\t0,1", {4}, 1)), "rank 0 does not have it in all microbatches");
  EXPECT_EQ(why_not(with("Block\t0,1", {3, 3})), "groups of the program do not say how [4] becomes [3]");
  EXPECT_EQ(why_not([&](Publications& layout) {
              with("Block\t0,1", {4, 4})(layout);
              with("Block\t0,1", {4})(layout);
            }),
            "rank 0 has several modules of this name, or several gradients");
  EXPECT_EQ(why_not([&](Publications& layout) {
              with("Block\t0,1", {4, 4})(layout);
              layout.add(0, "decoder\ttokens are sent to its experts",
                         {.kind = "unwatched", .whole = {0}, .offset = {0}, .shape = {0}}, {});
            }),
            "tokens are sent to its experts");
}

/// Returns whether parts on two ranks of a group agree with the values of a reference, by their forwards.
bool agree(const std::vector<std::vector<double>>& right,
           const std::vector<std::vector<std::vector<double>>>& parts) {
  Publications reference(1), layout(2);
  const auto publish_all = [](Publications& all, int rank, const std::vector<std::vector<double>>& forwards) {
    for (std::size_t i = 0; i < forwards.size(); ++i)
      publish(all, rank, static_cast<std::int64_t>(i), {std::ssize(forwards[i])}, forwards[i]);
  };
  publish_all(reference, 0, right);
  for (int rank = 0; rank < 2; ++rank) publish_all(layout, rank, parts[static_cast<std::size_t>(rank)]);
  const verify::WatchedValues values = watched_values(reference.report, reference.record);
  const verify::ComparedWatch watch = verify::WatchReference(values).compared(
      watched_values(layout.report, layout.record), {{}, {{"group", {0, 1}}}}, false);
  return watch.rows.front().state == WatchState::agrees;
}

TEST(WatchedValues, PartsOfBothHalvesOfAGatedLayerAgree) {
  EXPECT_TRUE(agree({{1, 2, 3, 4, 5, 6, 7, 8}}, {{{1, 2, 5, 6}}, {{3, 4, 7, 8}}}));
  EXPECT_FALSE(agree({{1, 2, 3, 4, 5, 6, 7, 8}}, {{{1, 2, 5, 6}}, {{3, 4, 8, 7}}}));
}

TEST(WatchedValues, AModuleMayBeCalledTwiceInAMicrobatch) {
  EXPECT_TRUE(agree({{1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}}, {{{1}, {2}, {5}, {6}}, {{3}, {4}, {7}, {8}}}));
  EXPECT_FALSE(agree({{1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}}, {{{1}, {2}, {5}, {6}}, {{3}, {4}, {8}, {7}}}));
}

TEST(WatchedValues, LongTablesHaveOnlyWhatDoesNotAgree) {
  verify::ComparedWatch watch;
  for (int i = 0; i < 20; ++i)
    watch.rows.push_back({{0, false, "gives", fmt::format("layers.{}", i)}, {}, 1});
  watch.rows[4].state = WatchState::differs;
  watch.rows[4].what = "what layers.4 gives is zero";
  watch.rows[7].state = WatchState::not_compared;
  watch.rows[7].what = "no rank has it";
  const std::string text = verify::watch_text("tp2", watch);
  EXPECT_TRUE(has(text, "tp2: 18 of 20 values of watched modules agree")) << text;
  EXPECT_TRUE(has(text, "first      what layers.4 gives is zero")) << text;
  EXPECT_TRUE(has(text, "  1 value not compared, such as what layers.7 gives: no rank has it\n")) << text;
  EXPECT_FALSE(has(text, "layers.5")) << text;
  EXPECT_EQ(verify::watch_text("tp2", {}), "");
}

// ---- the whole way

class Watching : public test::WithPython {};

constexpr const char* kGives = R"(
import array
def publish(kind, name, values):
    data = array.array('d', values)
    at = link.memory.take(8 * len(data) + 8)
    link.memory.map[at:at + 8 * len(data)] = data.tobytes()
    place = {'kind': kind, 'step': 0, 'whole': [len(data)], 'offset': [0], 'shape': [len(data)], 'begin': 0}
    link.ask({'do': 'publish', 'name': name, 'tensor': ['f64', at, len(data)], 'place': place})
factor = 2 if os.environ['WORLD_SIZE'] == '2' else 1
publish('gradient', 'weight', [3 * factor, 4])
publish('watched', '0\tgives\tnorm\tNorm\t', [1, 5])
publish('watched', '0\tgives\tmlp\tMLP\t', [2 * factor, 6 * factor])
publish('unmatched', 'attention\tself_attention', [])
)";

TEST_F(Watching, TheFirstModuleThatDiffersIsNamed) {
  const std::string options = "--layouts 'tp2; tp4' --watch '*m*' --watch attention";
  const test::RunResult run = test::run_of(kGives, options);
  EXPECT_EQ(run.exit_code, 1) << run.out << run.err;
  EXPECT_TRUE(has(run.out, "tp2: 1 of 2 values of watched modules agree")) << run.out;
  EXPECT_TRUE(has(run.out,
                  "first      what mlp gives in step 0, microbatch 0, on ranks 0, 1: it is 2 (tp is 2) "
                  "times the right one"))
      << run.out;
  EXPECT_TRUE(has(run.out, "tp4: 2 of 2 values of watched modules agree")) << run.out;
  EXPECT_TRUE(has(run.out, "unmatched  no module is named 'attention'; names like it: self_attention"))
      << run.out;
  const auto document = nlohmann::json::parse(test::run_of(kGives, options + " --format json").out);
  EXPECT_EQ(document["unmatched"][0]["nearest"], "self_attention");
  EXPECT_EQ(document["layouts"][0]["watched"]["values"][1]["state"], "differs");
  EXPECT_EQ(document["layouts"][1]["watched"]["values"][1]["state"], "agrees");
}

TEST_F(Watching, WithoutLayoutsItIsRefused) {
  const test::RunResult run = test::run_of("call('barrier', 7)\n", "--ranks 2 --watch mlp");
  EXPECT_EQ(run.exit_code, 2) << run.out;
  EXPECT_TRUE(has(run.err, "option_without_effect")) << run.err;
}

}  // namespace
