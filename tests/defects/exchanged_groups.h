#pragma once

/// The groups of a rank, where one kind of groups is taken for another one. Its size and the rank's place in
/// it are those of the other one, too, which a call over a wrong group (verify/faults) leaves as they are.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/comm/rank.h"

namespace test {

class ExchangedGroups : public sim::Groups {
 public:
  ExchangedGroups(sim::Rank& rank, std::string kind, std::string other)
      : real_(rank.groups), kind_(std::move(kind)), other_(std::move(other)) {}
  sim::Communicator& world() override { return real_.world(); }
  sim::Communicator& get(std::string_view kind) override { return real_.get(taken(kind)); }
  sim::Communicator* find(std::string_view kind) override { return real_.find(taken(kind)); }
  sim::Communicator* new_group(std::string name, const std::vector<int>& members, sim::Site site) override {
    return real_.new_group(std::move(name), members, site);
  }

 private:
  std::string_view taken(std::string_view kind) const { return kind == kind_ ? other_ : kind; }

  sim::Groups& real_;
  std::string kind_, other_;
};

}  // namespace test
