#include <algorithm>
#include <array>
#include <cstddef>
#include <fmt/format.h>
#include <map>
#include <string_view>
#include <utility>

#include "verify/output/json.h"
#include "verify/report/replay_forms.h"

namespace verify {

namespace {

/// Returns a text as a JSON string. Bytes that are not UTF-8 become replacement characters.
std::string json_text(std::string_view text) { return Json(text).dump(); }

/// Returns the name of a rank, such as "rank 5 (tp 1, pp 0, dp 2)".
std::string name_of(const sim::Layout& layout, int rank) {
  const sim::PerAxis<int> coordinates = layout.dense.coordinates_of(rank);
  std::string axes = fmt::format("tp {}", coordinates[sim::Axis::tp]);
  if (layout.dense.size(sim::Axis::cp) > 1) axes += fmt::format(", cp {}", coordinates[sim::Axis::cp]);
  return fmt::format("rank {} ({}, pp {}, dp {})", rank, axes, coordinates[sim::Axis::pp],
                     coordinates[sim::Axis::dp]);
}

std::string args_of(const sim::CallRecord& call) {
  std::string args =
      fmt::format("\"group\":{},\"site\":{},\"at\":{},\"number\":{}", json_text(text_of(*call.group)),
                  json_text(call.site.name), json_text(fmt::format("{}:{}", call.site.file, call.site.line)),
                  call.sequence);
  if (!moves_data(call.operation)) return args;
  args += fmt::format(",\"elements\":{},\"dtype\":\"{}\",\"bytes_inside_node\":{},\"bytes_across_nodes\":{}",
                      call.count, sim::name_of(call.dtype), call.bytes_inside, call.bytes_across);
  if (has_reduce_op(call.operation))
    args += fmt::format(",\"reduction\":\"{}\"", sim::name_of(call.reduce_op));
  if (has_root(call.operation) || is_point_to_point(call.operation)) {
    args += fmt::format(",\"{}\":{}", has_root(call.operation) ? "root" : "peer",
                        call.group->rank_at(call.root_or_peer));
  }
  return args;
}

/// Returns the fields of the part of the work in which a slice lies, each with a comma before it.
std::string args_of(const sim::WorkPart& part) {
  std::string args;
  if (part.microbatch != sim::WorkPart::kNone) {
    args += fmt::format(",\"pass\":\"{}\",\"microbatch\":{},\"chunk\":{}", part.pass, part.microbatch,
                        part.chunk);
  }
  if (part.layer != sim::WorkPart::kNone) args += fmt::format(",\"layer\":{}", part.layer);
  return args;
}

const char* category_of(const sim::Slice& slice, const sim::CallRecord& call) {
  if (slice.kind == sim::SliceKind::wait) return "wait";
  return is_point_to_point(call.operation) ? "point_to_point" : "collective";
}

/// Returns the ranks that are written if there is no room for all: whole pipelines, one after another.
std::vector<std::size_t> ranks_within(std::size_t most_slices, const TracedRun& traced) {
  std::vector<std::pair<std::array<int, 4>, std::size_t>> order;
  for (std::size_t rank = 0; rank < traced.run.ranks.size(); ++rank) {
    const sim::PerAxis<int> at = traced.layout.dense.coordinates_of(traced.run.ranks[rank].rank);
    order.push_back({{at[sim::Axis::cp], at[sim::Axis::dp], at[sim::Axis::tp], at[sim::Axis::pp]}, rank});
  }
  std::ranges::sort(order);
  std::vector<std::size_t> ranks;
  std::size_t slices = 0;
  for (const auto& [place, rank] : order) {
    slices += traced.timeline.ranks[rank].size();
    if (slices > most_slices && !ranks.empty()) break;
    ranks.push_back(rank);
  }
  std::ranges::sort(ranks);
  return ranks;
}

/// Returns the most slices that a run may write, so that the runs together fill a file. The slices that small
/// runs do not need are shared by the others.
std::size_t share_of_a_run(const std::vector<ScenarioReport>& reports) {
  std::vector<std::size_t> sizes;
  for (const ScenarioReport& report : reports) {
    if (!report.trace) continue;
    sizes.push_back(0);
    for (const auto& slices : report.trace->timeline.ranks) sizes.back() += slices.size();
  }
  std::ranges::sort(sizes);
  std::size_t left = kMostTracedSlices;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::size_t share = left / (sizes.size() - i);
    if (sizes[i] > share) return share;
    left -= sizes[i];
  }
  return kMostTracedSlices;
}

class Writer {
 public:
  /// `most_slices` is the limit of each run.
  explicit Writer(std::size_t most_slices) : most_slices_(most_slices) {}

  void add(const ScenarioReport& report) {
    Json said = {{"scenario", report.name}};
    if (report.trace) {
      said["shows"] = report.trace->what;
      said["ranks"] = report.trace->run.ranks.size();
      said["ranks_written"] = add(report.name, *report.trace);
      said["length"] = report.trace->timeline.length;
      if (!report.findings.empty()) said["finding"] = report.findings.front().sentence;
      costs_ = report.trace->cost;
    } else {
      said["shows"] =
          report.refusal ? "nothing: refused [" + report.refusal->code + "]" : "nothing: no ranks ran";
    }
    scenarios_.push_back(std::move(said));
  }

  std::string document() const {
    const Json other = {
        {"producer", "shardproof " SHARDPROOF_VERSION},
        {"time", "logical, no clock: ts and dur are units, which viewers show as microseconds"},
        {"units_of_a_unit_of_work", costs_.work},
        {"units_of_a_call", costs_.latency},
        {"units_of_a_byte_inside_a_node", costs_.byte_inside},
        {"units_of_a_byte_across_nodes", costs_.byte_across},
        {"work", "multiply-adds of matrix products, and elements of all other kernels"},
        {"scenarios", scenarios_}};
    return "{\"displayTimeUnit\":\"ms\",\"otherData\":" + other.dump() + ",\"traceEvents\":[" + events_ +
           "\n]}\n";
  }

 private:
  struct Thread {
    int pid;
    int tid;
  };

  /// Writes a run and returns the number of its ranks that were written.
  std::size_t add(const std::string& scenario, const TracedRun& traced) {
    const std::vector<std::size_t> ranks = ranks_within(most_slices_, traced);
    threads_.clear();
    name_threads(scenario, traced, ranks);
    for (const std::size_t rank : ranks) {
      const std::vector<sim::Slice>& slices = traced.timeline.ranks[rank];
      for (std::size_t i = 0; i < slices.size(); ++i)
        add_slice(slices[i], traced.parts[rank][i], traced.run.ranks[rank],
                  threads_.at({rank, slices[i].lane}));
    }
    add_arrows(traced, ranks);
    return ranks.size();
  }

  /// The ids of processes and threads come from one sequence, so that viewers take no thread for the main
  /// thread of a process.
  void name_threads(const std::string& scenario, const TracedRun& traced,
                    const std::vector<std::size_t>& written) {
    const sim::Layout& layout = traced.layout;
    std::map<int, std::vector<std::size_t>> by_stage;
    for (const std::size_t rank : written) {
      const auto coordinates = layout.dense.coordinates_of(traced.run.ranks[rank].rank);
      by_stage[coordinates[sim::Axis::pp]].push_back(rank);
    }
    for (const auto& [stage, ranks] : by_stage) {
      const int pid = ++ids_;
      add_name("process", {pid, 0}, fmt::format("{}: pipeline rank {} of {}", scenario, stage, layout.pp));
      for (const std::size_t rank : ranks) {
        const std::string name = name_of(layout, traced.run.ranks[rank].rank);
        for (int lane = 0; lane < lanes_of(traced.timeline.ranks[rank]); ++lane) {
          const Thread thread{pid, ++ids_};
          threads_[{rank, lane}] = thread;
          add_name("thread", thread,
                   lane == 0
                       ? name
                       : fmt::format("{}, started calls{}", name, lane == 1 ? "" : fmt::format(" {}", lane)));
        }
      }
    }
  }

  static int lanes_of(const std::vector<sim::Slice>& slices) {
    int lanes = 1;
    for (const sim::Slice& slice : slices) lanes = std::max(lanes, slice.lane + 1);
    return lanes;
  }

  void add_name(const char* what, const Thread& thread, const std::string& name) {
    const std::string where = thread.tid == 0 ? fmt::format("\"pid\":{}", thread.pid)
                                              : fmt::format("\"pid\":{},\"tid\":{}", thread.pid, thread.tid);
    add_event(fmt::format("\"ph\":\"M\",\"name\":\"{}_name\",{},\"args\":{{\"name\":{}}}", what, where,
                          json_text(name)));
    add_event(fmt::format("\"ph\":\"M\",\"name\":\"{}_sort_index\",{},\"args\":{{\"sort_index\":{}}}", what,
                          where, std::max(thread.pid, thread.tid)));
  }

  void add_slice(const sim::Slice& slice, const sim::WorkPart& part, const sim::RankReport& rank,
                 const Thread& thread) {
    std::string what;
    if (slice.kind == sim::SliceKind::compute) {
      what = fmt::format("\"name\":\"compute\",\"cat\":\"compute\",\"args\":{{\"rank\":{}{}}}", rank.rank,
                         args_of(part));
    } else {
      const sim::CallRecord& call = rank.calls[slice.record];
      what = fmt::format("\"name\":\"{}{}{}\",\"cat\":\"{}\",\"args\":{{{}{}}}",
                         slice.kind == sim::SliceKind::wait ? "wait for " : "", sim::name_of(call.operation),
                         slice.is_vain ? ", in vain" : "", category_of(slice, call), args_of(call),
                         args_of(part));
    }
    add_event(fmt::format("\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},{}", thread.pid,
                          thread.tid, slice.begin, slice.end - slice.begin, what));
  }

  /// Adds the arrows from sends to recvs. An arrow must begin and end inside its slices; otherwise viewers
  /// bind it to the next ones.
  void add_arrows(const TracedRun& traced, const std::vector<std::size_t>& written) {
    std::map<std::pair<std::size_t, std::size_t>, const sim::Slice*> slices;  // by rank and call record
    for (const std::size_t rank : written) {
      for (const sim::Slice& slice : traced.timeline.ranks[rank]) {
        if (slice.kind == sim::SliceKind::call) slices[{rank, slice.record}] = &slice;
      }
    }
    for (const sim::MatchedMessage& message : traced.timeline.messages) {
      const auto send = slices.find({message.from, message.send});
      const auto recv = slices.find({message.to, message.recv});
      if (send == slices.end() || recv == slices.end()) continue;
      ++arrows_;
      add_arrow("\"s\"", threads_.at({message.from, send->second->lane}), send->second->begin);
      add_arrow("\"f\",\"bp\":\"e\"", threads_.at({message.to, recv->second->lane}),
                std::max(recv->second->begin, recv->second->end - 1));
    }
  }

  void add_arrow(const char* phase, const Thread& thread, std::int64_t time) {
    add_event(fmt::format(
        "\"ph\":{},\"name\":\"message\",\"cat\":\"point_to_point\",\"id\":{},\"pid\":{},\"tid\":{},\"ts\":{}",
        phase, arrows_, thread.pid, thread.tid, time));
  }

  void add_event(const std::string& fields) {
    events_ += events_.empty() ? "\n{" : ",\n{";
    events_ += fields;
    events_ += '}';
  }

  std::size_t most_slices_;
  std::map<std::pair<std::size_t, int>, Thread> threads_;  // of the current run, by rank and lane
  int ids_ = 0;
  std::int64_t arrows_ = 0;
  sim::TimelineCost costs_;
  Json scenarios_ = Json::array();
  std::string events_;
};

}  // namespace

std::string trace_json(const std::vector<ScenarioReport>& reports) {
  Writer writer(share_of_a_run(reports));
  for (const ScenarioReport& report : reports) writer.add(report);
  return writer.document();
}

}  // namespace verify
