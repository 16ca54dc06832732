#include "verify/run/guest_processes.h"

#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "verify/output/refusal_table.h"

namespace verify {

namespace {

/// What start.py reads of a run: its settings, and the words of the program.
Descriptor settings_file(const GuestCommand& command) {
  const nlohmann::json all = {{"ranks_of_node", command.ranks_of_node},
                              {"gives_local_rank", command.gives_local_rank},
                              {"no_gpu", command.keeps_off_gpu},
                              {"publishes", command.publishes != Publishes::nothing},
                              {"draws_weights", command.publishes == Publishes::with_drawn_weights},
                              {"exact", command.computes_in_f64},
                              {"watched", command.watched}};
  std::string text = all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  for (const std::string& word : command.start.python.program) text += '\0' + word;
  Descriptor file = GuestPipes::memory_file("shardproof-run");
  const ssize_t written = pwrite(file.number(), text.data(), text.size(), 0);
  if (written != static_cast<ssize_t>(text.size())) refuse_limit("shared memory");
  return file;
}

}  // namespace

GuestProcesses::GuestProcesses(GuestStart& start, const GuestCommand& command, GuestPipes::Print print)
    : start_(start) {
  const bool is_new = start_.provide(command.start);
  if (begins(command, print)) return;
  std::string how = start_.end();
  if (!is_new) {
    start_.provide(command.start);
    if (begins(command, print)) return;
    how = start_.end();
  }
  const std::string last = pipes_->last_of_starter();
  refuse_by("run_program_not_started/ended", command.start.python.interpreter.front(),
            last.empty() ? how + " and no word" : fmt::format("{}: {}", how, last));
}

/// Has the ranks forked. Returns whether they run.
bool GuestProcesses::begins(const GuestCommand& command, const GuestPipes::Print& print) {
  pipes_.emplace(command.ranks, start_.output(), print);
  const Descriptor settings = settings_file(command);
  std::vector<int> theirs = pipes_->theirs();
  theirs.insert(theirs.begin(), settings.number());
  start_.begin(theirs);
  pipes_->close_theirs();
  reader_ = std::thread([this] { pipes_->read_all(); });
  if (pipes_->has_begun()) return true;
  finish();
  return false;
}

GuestProcesses::~GuestProcesses() { finish(); }

std::vector<sim::GuestEnd> GuestProcesses::ends() const {
  std::vector<sim::GuestEnd> all;
  for (const GuestPipes::OfRank& rank : pipes_->ranks)
    all.push_back({rank.socket[0].number(), rank.segment.number()});
  return all;
}

std::vector<std::string> GuestProcesses::finish() {
  for (GuestPipes::OfRank& rank : pipes_->ranks) rank.socket[0].reset();
  if (reader_.joinable()) {
    start_.end_run(pipes_->is_over_within(GuestStart::kGrace));
    pipes_->tell_end();
    reader_.join();
  }
  std::vector<std::string> ended;
  for (const GuestPipes::OfRank& rank : pipes_->ranks) ended.push_back(rank.ended);
  return ended;
}

}  // namespace verify
