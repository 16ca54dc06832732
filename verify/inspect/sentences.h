#pragma once

/// The sentences of an inspection: each is a row of sentences.tsv, a text with places for facts.
///
///   sentence("lost", {{"ranks", lost}})
///
///   {ranks}         a fact: ranks in words, a number, or a text
///   {Ranks}         the same with a capital letter
///   {issued call}   a number with its noun: "1 call", "2 calls"
///   {is|are}        the first where the ranks or the number written before are one, and else the second
///   {ranks:is|are}  the same of a fact that is named
///
/// Errors  A sentence or a fact that is not there breaks an invariant (SIM_CHECK).

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace verify {

struct Fact {
  std::string_view name;
  std::variant<std::string, std::int64_t, std::vector<int>> value;
};

std::string sentence(std::string_view name, std::initializer_list<Fact> facts = {});

}  // namespace verify
