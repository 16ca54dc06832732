#include "verify/sweep/machine.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <sstream>
#include <system_error>
#include <vector>

#include "sim/base/printable_text.h"
#include "sim/base/refusals.h"
#include "verify/output/input_file.h"
#include "verify/output/refusal_table.h"
#include "verify/vocabulary/nearest_name.h"

namespace verify {

namespace {

constexpr std::size_t kMostMachineBytes = 1 << 16;

struct MachineNumber {
  const char* name;
  double Machine::*value;
  double least, most;
  const char* example;
};
constexpr double kLeastRate = 1e6, kMostRate = 1e24;
constexpr std::size_t kNeeded = 4;    // the first ones
constexpr std::size_t kMeasured = 5;  // from here on all are given, or none
constexpr std::array<MachineNumber, 8> kMachineNumbers = {
    {{"multiply-adds-per-second", &Machine::multiply_adds_per_second, kLeastRate, kMostRate, "494.7e12"},
     {"bytes-per-second-inside-node", &Machine::bytes_per_second_inside_node, kLeastRate, kMostRate, "450e9"},
     {"bytes-per-second-across-nodes", &Machine::bytes_per_second_across_nodes, kLeastRate, kMostRate,
      "50e9"},
     {"latency-seconds", &Machine::latency_seconds, 0, 1, "0"},
     {"bytes-per-second-of-memory", &Machine::bytes_per_second_of_memory, kLeastRate, kMostRate, "3.35e12"},
     {"measured-factor", &Machine::measured_factor, 0.1, 100, "1.4"},
     {"measured-steps", &Machine::measured_steps, 1, 1e6, "9"},
     {"measured-error", &Machine::measured_error, 0, 100, "0.11"}}};

std::string rule_of_numbers() {
  return fmt::format("a machine has the numbers {}", fmt::join(names_of(kMachineNumbers), ", "));
}

std::string text_of_file(const std::string& path) {
  InputText input = text_of_input(path, kMostMachineBytes);
  if (input.problem.empty()) return std::move(input.text);
  refuse_by("machine_missing", "--machine " + path, input.problem);
}

/// Reads one line into the machine. `given` says which numbers have been there already.
void read_line(const std::string& line, const std::string& where, Machine& machine,
               std::array<bool, kMachineNumbers.size()>& given) {
  const std::size_t equals = line.find('=');
  const std::string name = without_blanks(line.substr(0, equals));
  if (equals == std::string::npos)
    refuse_by("machine_syntax/line", where, line, kMachineNumbers[0].name, kMachineNumbers[0].example);
  const auto found = std::ranges::find_if(kMachineNumbers, [&](const auto& n) { return name == n.name; });
  if (found == kMachineNumbers.end()) {
    const std::string nearest = nearest_name(name, names_of(kMachineNumbers));
    refuse_by("machine_key", where, name, rule_of_numbers(),
              nearest.empty() ? kMachineNumbers[0].name : nearest);
  }
  const std::string text = without_blanks(line.substr(equals + 1));
  if (std::exchange(given[static_cast<std::size_t>(found - kMachineNumbers.begin())], true))
    refuse_by("machine_syntax/twice", where, name);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
  if (!is_number || value < found->least || value > found->most)
    refuse_by("machine_number", where, name, text, found->least, found->most, found->name, found->example);
  machine.*(found->value) = value;
}

std::string source_of(const std::string& text) {
  std::string line = without_blanks(text.substr(0, text.find('\n')));
  if (!line.starts_with('#')) return "";
  line = without_blanks(line.substr(1));
  return sim::printable_text(line.starts_with("Source: ") ? line.substr(8) : line);
}

/// Returns the machine that is slower by the measured factor.
Machine slowed(Machine machine) {
  for (double Machine::*rate :
       {&Machine::multiply_adds_per_second, &Machine::bytes_per_second_inside_node,
        &Machine::bytes_per_second_across_nodes, &Machine::bytes_per_second_of_memory})
    machine.*rate /= machine.measured_factor;
  machine.latency_seconds *= machine.measured_factor;
  return machine;
}

}  // namespace

Machine read_machine(const std::string& path) {
  const std::string text = text_of_file(path);
  Machine machine{.name = sim::printable_text(std::filesystem::path(path).stem().string()),
                  .source = source_of(text)};
  std::array<bool, kMachineNumbers.size()> given{};
  sim::Refusals refusals;
  std::istringstream stream(text);
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    const std::string content = sim::printable_text(without_blanks(line.substr(0, line.find('#'))));
    if (content.empty()) continue;
    refusals.keep(
        [&] { read_line(content, fmt::format("--machine {}, line {}", path, number), machine, given); });
  }
  const bool has_measured = std::any_of(given.begin() + kMeasured, given.end(), std::identity());
  for (std::size_t i = 0; i < kMachineNumbers.size(); ++i) {
    refusals.keep([&] {
      if (given[i] || (i >= kNeeded && !(has_measured && i >= kMeasured))) return;
      refuse_by("machine_incomplete", fmt::format("--machine {}, {}", path, kMachineNumbers[i].name),
                rule_of_numbers(), kMachineNumbers[i].name, kMachineNumbers[i].example);
    });
  }
  refusals.throw_if_any();
  return has_measured ? slowed(machine) : machine;
}

std::string words_of_error(const Machine& machine) {
  if (machine.measured_steps == 0) return "no measured step is known of this machine";
  constexpr double kPercent = 100;
  return fmt::format("{:.0f} measured steps like this were off by {:.0f} % in the median",
                     machine.measured_steps, kPercent * machine.measured_error);
}

std::optional<Machine> requested_machine(const Settings& settings) {
  if (!settings.has("machine")) return std::nullopt;
  return read_machine(settings.text("machine", ""));
}

}  // namespace verify
