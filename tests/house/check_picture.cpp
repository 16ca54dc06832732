#include "tests/house/check_picture.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <fmt/format.h>

#include "tests/house/picture.h"

namespace test {

namespace {

constexpr const char* kCommand = "shardproof check --case column_parallel_linear --property serial";
constexpr const char* kNobody = "";

struct Step {
  const char* function;
  const char* file;
  const char* defines;  // words of the file that begin the function
  const char* does;
  int lane;
  int row;
  const char* caller;              // the function of another step
  const char* call;                // words of the caller's file
  std::vector<const char*> after;  // the steps from which an arrow leads here
  bool is_for_failures = false;
};

const std::vector<Step>& steps() {
  static const std::vector<Step> table = {
      {"main",
       "verify/main.cpp",
       "int main(int argc",
       "takes the words of the command line",
       0,
       0,
       kNobody,
       "",
       {}},
      {"run_program",
       "verify/program/program.cpp",
       "int run_program(",
       "finds the command; writes refusals",
       0,
       1,
       "main",
       "run_program(",
       {"main"}},
      {"run_check",
       "verify/program/check_command.cpp",
       "int run_check(",
       "makes a row of each case and property",
       0,
       2,
       "run_program",
       "command.run",
       {"run_program"}},
      {"run_campaign",
       "verify/campaign/campaign.cpp",
       "void run_campaign(",
       "divides the runs over threads",
       0,
       3,
       "run_check",
       "run_campaign(",
       {"run_check"}},
      {"CampaignWork::work",
       "verify/campaign/campaign_work.cpp",
       "CampaignWork::work(",
       "takes runs until there are no more",
       0,
       4,
       "run_campaign",
       "campaign.work(",
       {"run_campaign"}},
      {"DrawnSettings::next",
       "verify/campaign/drawn_settings.cpp",
       "DrawnSettings::next(",
       "draws a world, a shape, flags, a dtype",
       1,
       4,
       "CampaignWork::work",
       "settings.next()",
       {"CampaignWork::work"}},
      {"equals_serial",
       "verify/properties/properties.cpp",
       "Judgement equals_serial(",
       "judges one run of the case",
       0,
       5,
       "CampaignWork::work",
       "row.property->judge(",
       {"CampaignWork::work", "DrawnSettings::next"}},
      {"Bench::run",
       "verify/properties/bench.cpp",
       "Bench::run(",
       "makes the world of ranks",
       1,
       6,
       "equals_serial",
       "bench.run(the_case, setting)",
       {"equals_serial"}},
      {"simulate",
       "sim/world/simulate.cpp",
       "RunReport simulate(",
       "runs a fiber for each rank",
       1,
       7,
       "Bench::run",
       "sim::simulate(",
       {"Bench::run"}},
      {"ColumnCase::run",
       "verify/cases/linear_case.cpp",
       "void run(sim::Rank& rank",
       "on each rank: input, layer, results",
       1,
       8,
       "Bench::run",
       "the_case.run(rank, setting)",
       {"simulate"}},
      {"ColumnParallelLinear::forward",
       "sim/parallel/column_parallel_linear.cpp",
       "ColumnParallelLinear::forward(",
       "multiplies by this rank's columns",
       1,
       9,
       "ColumnCase::run",
       "layer.forward(",
       {"ColumnCase::run"}},
      {"VirtualCommunicator::do_call",
       "sim/world/virtual_communicator.cpp",
       "VirtualCommunicator::do_call(",
       "meets the calls of the other ranks",
       1,
       10,
       "ColumnParallelLinear::forward",
       "tp_.start_all_gather(",
       {"ColumnParallelLinear::forward"}},
      {"ColumnCase::reference",
       "verify/cases/linear_case.cpp",
       "Wholes<Scalar> reference(",
       "asks for the same results, whole",
       2,
       6,
       "equals_serial",
       "the_case.serial(",
       {"equals_serial"}},
      {"reference::linear",
       "verify/reference/linear.h",
       "linear(",
       "the layer on one device, with bounds",
       2,
       7,
       "ColumnCase::reference",
       "reference::linear(",
       {"ColumnCase::reference"}},
      {"assembled",
       "verify/properties/assembled.cpp",
       "Assembled<Value> assembled(",
       "puts the parts of the ranks together",
       1,
       11,
       "equals_serial",
       "assembled<Value>(report",
       {"VirtualCommunicator::do_call"}},
      {"compare",
       "verify/properties/properties.cpp",
       "Judgement compare(",
       "every element: equal, or within its bound",
       0,
       12,
       "equals_serial",
       "compare(output, got, expected",
       {"assembled", "reference::linear"}},
      {"write_campaign",
       "verify/program/campaign_report.cpp",
       "void write_campaign(",
       "writes the row: runs, slack, verdict",
       0,
       13,
       "run_check",
       "write_campaign(",
       {"compare"}},
      {"shrunk",
       "verify/campaign/campaign_work.cpp",
       "shrunk(",
       "finds the smallest setting that fails",
       1,
       13,
       "CampaignWork::work",
       "shrunk(",
       {"compare"},
       true},
      {"explanation",
       "verify/explain/explanation.cpp",
       "std::string explanation(",
       "looks for the factor or term that is wrong",
       2,
       13,
       "CampaignWork::work",
       "explanation(bench",
       {"shrunk"},
       true},
      {"write_scenario",
       "verify/program/campaign_report.cpp",
       "std::string write_scenario(",
       "writes it as a file that replay proves",
       2,
       14,
       "write_campaign",
       "write_scenario(row",
       {"explanation"},
       true},
  };
  return table;
}

const Step& step_of(const std::string& function) {
  return *std::find_if(steps().begin(), steps().end(),
                       [&](const Step& step) { return function == step.function; });
}

constexpr double kHead = 60, kFoot = 18, kWidth = 264, kHeight = 52, kPitch = 72, kMargin = 14;
constexpr double kBetween = (kPictureWidth - 2 * kMargin - 3 * kWidth) / 2;

double left_of(const Step& step) { return kMargin + step.lane * (kWidth + kBetween); }
double top_of(const Step& step) { return kHead + step.row * kPitch; }
double middle_of(const Step& step) { return left_of(step) + kWidth / 2; }

std::string family_of(const Step& step) {
  const std::string file = step.file;
  return file.starts_with("verify/reference/") ? "reference" : file.substr(0, file.find('/'));
}

std::string box(const Step& step) {
  const double middle = middle_of(step), top = top_of(step);
  return fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" rx=\"5\"/>\n",
                     family_of(step), left_of(step), top, kWidth, kHeight) +
         picture_text(middle, top + 16, "name centred", step.function) +
         picture_text(middle, top + 30, "soft centred", step.file) +
         picture_text(middle, top + 45, "centred", step.does);
}

/// An arrow from one step to a later one: straight down, straight to the side, or a curve between lanes.
std::string arrow(const Step& from, const Step& to) {
  constexpr double kTip = 1, kAside = 40;
  std::string path;
  if (from.row == to.row) {
    const double direction = to.lane > from.lane ? 1 : -1;
    path = fmt::format("M{:.1f} {:.1f}H{:.1f}", middle_of(from) + direction * kWidth / 2,
                       top_of(from) + kHeight / 2, middle_of(to) - direction * (kWidth / 2 + kTip));
  } else {
    const double aside = kAside * (to.lane - from.lane);
    const double x = middle_of(from) + aside, y = top_of(from) + kHeight;
    const double to_x = middle_of(to) - aside, to_y = top_of(to) - kTip;
    const double bend = (kPitch - kHeight - kTip) / 2;  // in the gap above the lower box
    path = fmt::format("M{0:.1f} {1:.1f}V{2:.1f}C{0:.1f} {3:.1f} {4:.1f} {3:.1f} {4:.1f} {5:.1f}", x, y,
                       to_y - 2 * bend, to_y - bend, to_x, to_y);
  }
  return fmt::format("<path class=\"{}\" marker-end=\"url(#tip)\" d=\"{}\"/>\n",
                     to.is_for_failures ? "failure" : "some", path);
}

std::string headings() {
  const auto over = [](const char* function, const char* classes, const char* text) {
    const Step& step = step_of(function);
    return picture_text(left_of(step), top_of(step) - 7, classes, text);
  };
  return picture_text(kMargin, 24, "title", "The way of one check") +
         picture_text(kMargin, 42, "soft",
                      fmt::format("{}: an arrow leads to what is done next.", kCommand)) +
         over("explanation", "soft failure", "only after a failure");
}

}  // namespace

std::string check_picture() {
  double height = 0;
  std::string arrows, boxes;
  for (const Step& step : steps()) {
    height = std::max(height, top_of(step) + kHeight + kFoot);
    for (const char* before : step.after) arrows += arrow(step_of(before), step);
    boxes += box(step);
  }
  return picture(height, std::string("The way of ") + kCommand + " from the command line to its row",
                 headings() + arrows + boxes);
}

std::vector<std::string> untrue_steps(const std::vector<SourceFile>& files) {
  const auto has = [&](const char* path, const char* words) {
    const auto file =
        std::find_if(files.begin(), files.end(), [&](const SourceFile& f) { return f.path == path; });
    return file != files.end() && file->text.find(words) != std::string::npos;
  };
  std::vector<std::string> untrue;
  for (const Step& step : steps()) {
    if (!has(step.file, step.defines))
      untrue.push_back(fmt::format("{} does not define {}: no '{}'", step.file, step.function, step.defines));
    if (step.caller == kNobody) continue;
    const Step& caller = step_of(step.caller);
    if (!has(caller.file, step.call))
      untrue.push_back(fmt::format("{} does not call {}: no '{}'", caller.file, step.function, step.call));
  }
  return untrue;
}

}  // namespace test
