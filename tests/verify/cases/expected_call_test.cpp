// Proves how differences between two lists of calls are described, and which calls a whole training
// makes on layouts that a campaign does not draw.

#include "verify/cases/expected_call.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>
#include <map>
#include <rapidcheck/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include "verify/cases/case.h"
#include "verify/cases/case_list.h"
#include "verify/properties/bench.h"
#include "verify/properties/properties.h"

namespace {

using namespace verify;
using sim::Operation;

/// Lists of calls on one group, with a letter for each call.
struct Lists {
  sim::ProcessGroup group{.kind = "dp", .members = {0, 1}};
  static ExpectedCall call(char letter) {
    return {.site = std::string(1, letter), .operation = Operation::all_reduce, .elements = 1, .group = "dp"};
  }
  std::vector<ExpectedCall> expected(const std::string& letters) const {
    std::vector<ExpectedCall> all;
    for (const char letter : letters) all.push_back(call(letter));
    return all;
  }
  sim::CallLog made(const std::string& letters) const {
    sim::CallLog all;
    for (const char letter : letters) {
      all.push_back({.group = &group,
                     .site = sim::Site::named(std::string(1, letter)),
                     .sequence = std::ssize(all),
                     .count = 1,
                     .root_or_peer = -1,
                     .operation = Operation::all_reduce,
                     .dtype = sim::DType::field,
                     .waited = true});
    }
    return all;
  }
};

/// Returns "-a" for a missing call a, "+a" for one too many, and "<a" and ">a" for one that comes too
/// early or too late.
std::vector<std::string> marks(const std::string& expected, const std::string& made) {
  const Lists lists;
  std::vector<std::string> all;
  for (const CallDifference& one : differences(lists.expected(expected), lists.made(made))) {
    const char letter = one.what[one.what.find('\'') + 1];
    const char* mark = one.what.ends_with("is missing")        ? "-"
                       : one.what.ends_with("is one too many") ? "+"
                       : one.what.ends_with("comes too early") ? "<"
                                                               : ">";
    all.push_back(mark + std::string(1, letter));
  }
  return all;
}

using Marks = std::vector<std::string>;

TEST(ExpectedCall, DifferencesAreTheFewest) {
  EXPECT_EQ(marks("abc", "abc"), Marks{});
  EXPECT_EQ(marks("abcabc", "abab"), (Marks{"-c", "-c"}));
  EXPECT_EQ(marks("abc", "axbc"), Marks{"+x"});
  EXPECT_EQ(marks("", "a"), Marks{"+a"});
  EXPECT_EQ(marks("aa", "a"), Marks{"-a"});
  EXPECT_EQ(marks("abcd", "bcda"), Marks{">a"});
  EXPECT_EQ(marks("abcd", "dabc"), Marks{"<d"});
}

RC_GTEST_PROP(ExpectedCall, TheDifferencesMakeOneListOfTheOther, ()) {
  const auto letters = rc::gen::container<std::string>(rc::gen::element('a', 'b', 'c'));
  const std::string expected = *letters;
  const std::string made = *letters;
  std::string counts = expected;
  for (const std::string& mark : marks(expected, made)) {
    if (mark[0] == '+') {
      counts += mark[1];
    } else if (mark[0] == '-') {
      RC_ASSERT(counts.find(mark[1]) != std::string::npos);
      counts.erase(counts.find(mark[1]), 1);
    }
  }
  std::string wanted = made;
  std::sort(counts.begin(), counts.end());
  std::sort(wanted.begin(), wanted.end());
  RC_ASSERT(counts == wanted);
}

TEST(ExpectedCall, OfLongListsTheFirstDifferencesAreSaid) {
  std::string expected, made;
  for (int step = 0; step < 20'000; ++step) {
    expected += "abc";
    made += "ac";
  }
  const Marks all = marks(expected, made);
  EXPECT_GE(all.size(), kMostCompared / 4);
  EXPECT_LE(all.size(), kMostCompared);
  for (const std::string& mark : all) EXPECT_EQ(mark, "-b");
  EXPECT_EQ(marks(expected, expected), Marks{});
}

TEST(ExpectedCall, AMovedCallSaysBetweenWhichItBelongs) {
  const Lists lists;
  const auto where = [&](const std::string& expected, const std::string& made) {
    return differences(lists.expected(expected), lists.made(made)).front().where;
  };
  EXPECT_TRUE(where("abcd", "acdb").find("and belongs after 'a'") != std::string::npos);
  EXPECT_TRUE(where("abcd", "acdb").find("and before 'c'") != std::string::npos);
  EXPECT_TRUE(where("abcd", "bcda").find("and before") == std::string::npos);
  EXPECT_TRUE(where("abcd", "adbc").find("and belongs after 'c'") != std::string::npos);
  EXPECT_TRUE(where("abcd", "adbc").find("and before") == std::string::npos);
}

TEST(ExpectedCall, AMessageSaysItsPeer) {
  ExpectedCall call{.site = "pipeline.send_forward", .operation = Operation::send, .elements = 8};
  call.group = "pp";
  call.root_or_peer = 1;
  EXPECT_EQ(text_of(call), "send 'pipeline.send_forward' of 8 over pp, to 1");
}

TEST(ExpectedCall, OnlyASumIsNotNamed) {
  ExpectedCall call{.site = "mlp.forward", .operation = Operation::all_reduce, .elements = 8};
  EXPECT_EQ(text_of(call), "all_reduce 'mlp.forward' of 8");
  call.reduce_op = sim::ReduceOp::max;
  EXPECT_EQ(text_of(call), "all_reduce(max) 'mlp.forward' of 8");
}

/// A fault of a reduction's operation, at a setting that differs from the smallest one in some dimensions.
struct WrongReduction {
  const char* the_case;
  std::map<std::string, std::int64_t> dimensions;
  const char* plant;
  const char* wanted;
};

TEST(ExpectedCall, AnotherReductionIsAnotherCall) {
  const std::vector<WrongReduction> all = {
      {"row_parallel_linear", {}, "row_parallel_linear.forward:op=max", "all_reduce '"},
      {"vocab_parallel_cross_entropy", {}, "vocab_parallel_cross_entropy.max:op=sum", "all_reduce(max) '"},
      {"tied_embedding", {}, "vocab_parallel_cross_entropy.max:op=average", "all_reduce(max) '"},
      {"distributed_optimizer",
       {{"loss", 1}, {"size0", 3}},
       "data_parallel.*:op=sum",
       "all_reduce(average) '"},
      {"distributed_optimizer",
       {{"loss", 1}, {"size0", 3}, {"distributed", 1}},
       "data_parallel.*:op=sum",
       "reduce_scatter(average) '"},
      {"distributed_optimizer",
       {{"scaled", 1}, {"distributed", 1}},
       "optimizer.found_nonfinite:op=sum",
       "all_reduce(max) '"},
      {"gpt_training", {{"loss", 1}}, "data_parallel.*:op=max", "all_reduce(average) '"},
      {"gpt_training",
       {{"loss", 1}, {"distributed", 1}},
       "data_parallel.*:op=max",
       "reduce_scatter(average) '"},
  };
  for (const WrongReduction& one : all) {
    const Case& the_case = *find_case(one.the_case);
    CaseSetting setting{.group_size = 4, .ranks = the_case.ranks(), .seed = 1};
    for (const Dimension& d : the_case.dimensions())
      setting.dimensions[d.name] = one.dimensions.contains(d.name) ? one.dimensions.at(d.name) : d.least;
    Bench bench;
    EXPECT_TRUE(property_named("calls").judge(bench, the_case, setting).holds) << one.the_case;
    bench.plant({parsed_fault(one.plant)});
    const Judgement judgement = property_named("calls").judge(bench, the_case, setting);
    EXPECT_FALSE(judgement.holds) << one.the_case << " " << one.plant;
    EXPECT_NE(judgement.detail.find(std::string("where the closed form has ") + one.wanted),
              std::string::npos)
        << one.the_case << " " << one.plant << ": " << judgement.detail;
  }
}

// ---- A whole training ----

CaseSetting training(int ranks, std::uint64_t seed) {
  const Case& the_case = *find_case("gpt_training");
  CaseSetting setting{.group_size = ranks, .ranks = the_case.ranks(), .seed = seed};
  for (const Dimension& d : the_case.dimensions())
    setting.dimensions[d.name] = *rc::gen::inRange(d.least, d.most + 1);
  return setting;
}

/// Twins have other orders of ranks, padded tokens, and sizes that are multiples of more than tp.
RC_GTEST_PROP(GptCalls, AreThoseOfTheTwinsToo, ()) {
  const Case& the_case = *find_case("gpt_training");
  const CaseSetting setting = training(*rc::gen::element(1, 2, 4, 6, 8, 12, 16),
                                       static_cast<std::uint64_t>(*rc::gen::inRange(0, 1000)));
  Bench bench;
  for (const CaseSetting& twin : the_case.twins(setting)) {
    const Judgement judgement = property_named("calls").judge(bench, the_case, twin);
    if (!judgement.holds) RC_FAIL(text_of(twin) + ": " + judgement.detail);
  }
}

/// All members of a group make the same k-th call, and a peer receives what a rank sends.
RC_GTEST_PROP(GptCalls, FitTogether, ()) {
  const Case& the_case = *find_case("gpt_training");
  const CaseSetting setting = training(*rc::gen::element(2, 4, 8, 16, 32), 0);
  Bench bench;
  const sim::Layout layout = bench.world_of(the_case, setting).layout;
  std::map<std::pair<std::string, int>, std::vector<std::vector<ExpectedCall>>> by_group;
  std::map<std::array<int, 3>, std::vector<std::int64_t>> sent, received;  // by group and places
  for (int rank = 0; rank < setting.group_size; ++rank) {
    std::map<std::pair<std::string, int>, std::vector<ExpectedCall>> own;
    for (const ExpectedCall& call : expected_calls(the_case, setting, rank)) {
      const auto place = layout.find(call.group)->place_of(rank);
      RC_ASSERT(place.has_value());
      if (call.operation == Operation::send) {
        sent[{place->group, place->position, call.root_or_peer}].push_back(call.elements);
      } else if (call.operation == Operation::recv) {
        received[{place->group, call.root_or_peer, place->position}].push_back(call.elements);
      } else {
        own[{call.group, place->group}].push_back(call);
      }
    }
    for (auto& [group, calls] : own) by_group[group].push_back(std::move(calls));
  }
  RC_ASSERT(sent == received);
  for (const auto& [group, ranks] : by_group) {
    RC_ASSERT(std::ssize(ranks) == layout.find(group.first)->size());
    for (const auto& calls : ranks) RC_ASSERT(calls == ranks.front());
  }
}

}  // namespace
