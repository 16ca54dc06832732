#include "verify/run/layouts_run.h"

#include <algorithm>
#include <fmt/format.h>
#include <sstream>
#include <utility>

#include "verify/output/output.h"
#include "verify/output/refusal_table.h"
#include "verify/run/layout_words.h"

namespace verify {

namespace {

constexpr const char* kOfOneRun[] = {"trace", "flight-recorder", "report", "junit"};

/// Returns the request for a run with more words behind the program's own.
GuestRequest with_words(GuestRequest request, int ranks, const std::vector<std::string>& words) {
  request.command.ranks = request.command.ranks_of_node = ranks;
  request.command.keeps_off_gpu = true;
  for (std::vector<std::string>* each : {&request.words, &request.command.start.python.program})
    each->insert(each->end(), words.begin(), words.end());
  request.world.layout = layout_without_groups(ranks);
  return request;
}

LayoutRequest request_of(GuestRequest base, const LayoutInWords& layout) {
  LayoutRequest made{
      .name = layout.name,
      .sizes = {},
      .request = with_words(std::move(base), static_cast<int>(layout.ranks()), megatron_options(layout))};
  const std::pair<const char*, std::int64_t> all[] = {
      {"tp", layout.tp},  {"pp", layout.pp}, {"cp", layout.cp},
      {"dp", layout.dp},  {"ep", layout.ep}, {"etp", layout.etp == layout.tp ? 1 : layout.etp},
      {"vpp", layout.vpp}};
  for (const auto& [name, size] : all)
    if (size > 1) made.sizes.emplace_back(name, size);
  return made;
}

/// Returns the words of a text with blanks between them.
std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

void require_no_other(const CommandLine& line) {
  const std::string given = line.settings.has("layouts") ? "layouts" : "against";
  for (const char* other : kOfOneRun)
    if (line.settings.has(other))
      refuse_by("option_without_effect", fmt::format("--{}", other), fmt::format("run --{}", given),
                fmt::format("run without --{}", given));
  if (given == "against") return;
  for (const char* other : {"ranks", "against", "against-ranks"})
    if (line.settings.has(other))
      refuse_by("option_without_effect", fmt::format("--{}", other), "run --layouts",
                "only --layouts, which sets the ranks of each layout; the reference is one rank");
}

GuestRun run_and_keep(GuestStart& start, const LayoutRequest& each, const PrintOfRun& print,
                      sim::GuestRecord& record) {
  record.groups.clear();
  record.told.clear();
  record.places.clear();
  return run_guests(
      start, each.request, [&](const GuestLine& line) { print(each.name, line); }, record);
}

/// Returns what the programs of two runs say of the same data, and say differently; "" if they do not.
std::string other_data(const std::string& told, const std::string& reference) {
  for (const char* name : {"global-batch-size", "padded-vocab-size", "seq-length"}) {
    const auto own = told_number(told, name), right = told_number(reference, name);
    if (own && right && *own != *right)
      return fmt::format("--{} is {} here and {} in the reference", name, *own, *right);
  }
  return "";
}

/// Returns the command that runs one of the layouts alone, or the program against other words.
std::string reproducing(const CommandLine& line, const std::string& called, const std::string& layout) {
  Settings settings = line.settings;
  std::string against;
  if (settings.has("against")) against = " " + text_of({"--against", settings.text("against", "")});
  settings.remove("layouts");
  settings.remove("shrink");
  if (!layout.empty()) settings.append("layouts", {layout});
  return fmt::format("{} run{}{} -- {}", called, settings.as_command_line(), against, text_of(line.program));
}

/// Adds the twin in f64 of a reference that computes in other floats.
LayoutsRequest with_twin(LayoutsRequest all) {
  if (all.reference.request.command.computes_in_f64) return all;
  all.twin = all.reference;
  all.twin->name = "reference in f64";
  all.twin->request.command.computes_in_f64 = true;
  return all;
}

/// What layouts are held against. It refers to all of it.
struct HeldAgainst {
  const GlobalValues& values;
  const std::string& told;
  const JudgedBy& judged;
  const WatchReference& watch;
};

/// Compares a layout that has run to its end.
void compare_layout(LayoutRun& one, const std::vector<std::pair<std::string, std::int64_t>>& sizes,
                    const sim::GuestRecord& record, const HeldAgainst& right,
                    std::set<std::string>& left_out) {
  const GlobalValues own = global_values(one.run.report, record);
  const NamesOfLayout names{sizes, record.groups};
  left_out.merge(not_compared(own, right.values));
  one.compared.incomparable = other_data(record.told, right.told);
  if (!one.compared.incomparable.empty()) return;
  one.compared = compared_values(own, right.values, names, right.judged);
  if (!one.compared.incomparable.empty()) return;
  one.watched = right.watch.compared(watched_values(one.run.report, record), names, one.compared.holds());
}

}  // namespace

int LayoutsRun::exit_code() const {
  if (!reference.is_clean() || std::ranges::any_of(layouts, &LayoutRun::is_broken)) return kBroken;
  if (layouts.empty()) return kUnavailable;
  const bool all_hold =
      std::ranges::all_of(layouts, [](const LayoutRun& run) { return run.compared.holds(); });
  return all_hold ? kVerified : kFalsified;
}

bool asks_for_layouts(const CommandLine& line) {
  if (line.settings.has("layouts")) return true;
  if (line.settings.flag("shrink"))
    refuse_by("option_without_effect", "--shrink", "run without --layouts", "--layouts beside it");
  if (line.settings.has("against")) return true;
  for (const char* option : {"against-ranks", "weights", "precision", "watch"})
    if (line.settings.has(option))
      refuse_by("option_without_effect", fmt::format("--{}", option), "run of one layout",
                "--layouts or --against beside it");
  return false;
}

LayoutsRequest layouts_request_of(const CommandLine& line, const std::string& called) {
  require_no_other(line);
  const Settings& settings = line.settings;
  const bool draws = settings.choice("weights") != "program";
  std::vector<LayoutInWords> layouts;
  if (settings.has("layouts")) layouts = layouts_in_words(settings.text("layouts", ""));
  GuestRequest base = guest_request_of(line, called, layouts.empty() ? std::nullopt : std::optional(1));
  base.command.publishes = draws ? Publishes::with_drawn_weights : Publishes::as_it_is;
  base.command.computes_in_f64 = settings.choice("precision") != "program";
  base.command.watched = settings.texts("watch");
  GuestRequest faultless = base;
  faultless.faults.clear();
  if (layouts.empty()) {
    const int ranks = static_cast<int>(settings.number("against-ranks").value_or(1));
    const std::vector<std::string> words = words_of(settings.text("against", ""));
    base.world.reproduce = faultless.world.reproduce = reproducing(line, called, "");
    return with_twin({.reference = {"reference", {}, with_words(faultless, ranks, words)},
                      .layouts = {{kTheProgram, {}, with_words(base, base.command.ranks, {})}},
                      .draws_weights = draws});
  }
  LayoutsRequest all{.reference = request_of(faultless, layout_in_words("dp1")), .draws_weights = draws};
  all.reference.name = "reference";
  for (const LayoutInWords& layout : layouts) {
    GuestRequest own = base;
    own.world.reproduce = reproducing(line, called, layout.name);
    all.layouts.push_back(request_of(std::move(own), layout));
  }
  return with_twin(std::move(all));
}

LayoutsRun run_layouts(GuestStart& start, const LayoutsRequest& request, const PrintOfRun& print,
                       sim::GuestRecord& record) {
  auto each = request.layouts.begin();
  const auto next = [&](LayoutRun*) { return each == request.layouts.end() ? nullptr : &*each++; };
  return run_layouts(start, request, next, print, record);
}

LayoutsRun run_layouts(GuestStart& start, const LayoutsRequest& request, const NextLayout& next,
                       const PrintOfRun& print, sim::GuestRecord& record) {
  LayoutsRun all;
  all.reference = run_and_keep(start, request.reference, print, record);
  const GlobalValues right = global_values(all.reference.report, record);
  all.told = record.told;
  all.watched = watched_values(all.reference.report, record);
  all.steps = right.steps();
  all.left_out = right.left_out;
  if (!all.reference.is_clean() || right.values.empty()) return all;
  GuestRun twin;
  GlobalValues of_twin;
  WatchedValues watched_twin;
  JudgedBy judged;
  if (request.twin) {
    twin = run_and_keep(start, *request.twin, print, record);
    of_twin = global_values(twin.report, record);
    watched_twin = watched_values(twin.report, record);
    judged.twin = &of_twin;
  }
  if (!twin.is_clean()) {
    all.reference = std::move(twin);
    return all;
  }
  const WatchReference watch(all.watched, request.twin ? &watched_twin : nullptr);
  for (LayoutRun* latest = nullptr;;) {
    const LayoutRequest* const each = next(latest);
    if (latest != nullptr)
      for (sim::RankReport& rank : latest->run.report.ranks) rank.published.clear();
    if (each == nullptr) return all;
    LayoutRun one{.name = each->name, .run = run_and_keep(start, *each, print, record), .compared = {}};
    if (!one.is_broken())
      compare_layout(one, each->sizes, record, {right, all.told, judged, watch}, all.left_out);
    latest = &all.layouts.emplace_back(std::move(one));
  }
}

}  // namespace verify
