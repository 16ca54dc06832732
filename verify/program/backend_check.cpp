#include "verify/program/backend_check.h"

#include <fmt/format.h>

#include "sim/base/content_hash.h"
#include "verify/backends/backend.h"
#include "verify/backends/twin_program.h"
#include "verify/campaign/case_request.h"
#include "verify/cases/case_list.h"
#include "verify/cases/case_rules.h"
#include "verify/output/json.h"
#include "verify/output/phrases.h"
#include "verify/output/progress.h"
#include "verify/output/refusal_table.h"
#include "verify/output/report_json.h"
#include "verify/output/text_table.h"
#include "verify/program/commands.h"
#include "verify/requests/backend_choice.h"
#include "verify/requests/command_requests.h"

namespace verify {

namespace {

/// Returns the dtypes that a backend can judge. The field needs a device that has it.
std::vector<sim::DType> judged_dtypes(const BackendChoice& backend, const CaseOptions& options,
                                      const std::vector<sim::DType>& asked) {
  std::vector<sim::DType> dtypes;
  for (const sim::DType dtype : asked) {
    if (backend.kind->has_field || dtype != sim::DType::field) dtypes.push_back(dtype);
  }
  if (dtypes.empty()) refuse_nothing_to_check();
  if (!options.dtypes.empty() && dtypes.size() < asked.size())
    refuse_without_effect("dtype field", fmt::format("check on {}", backend.kind->name));
  return dtypes;
}

std::vector<TwinProgram> programs(const CampaignRequest& request, const Backend& backend) {
  std::vector<TwinProgram> all;
  for (const Case* the_case : request.cases) {
    for (std::int64_t number = 0; number < request.runs; ++number) {
      const CaseSetting setting =
          drawn_for_backend(*the_case, request.dtypes, request.seed, number, backend, request.max_world);
      require_declaration(*the_case, setting);
      all.push_back(twin_of(the_case->name(), *the_case, setting,
                            {.layout = sim::make_layout(the_case->sizes(setting), sim::RuleBook::megatron)}));
      all.back().words = text_of(setting);
      all.back().must_hold = true;
    }
  }
  return all;
}

std::vector<TwinRow> run_with_progress(Backend& backend, const std::vector<TwinProgram>& programs,
                                       Output output) {
  output.progress = output.progress && backend.rank() == 0;
  output.lines = output.lines && backend.rank() == 0;
  Progress progress(output, "runs");
  return run_twins(backend, programs, [&](std::size_t done, const std::string& row) {
    progress.step(done, programs.size(), row);
  });
}

std::string verdict_text(const TwinRow& row) {
  if (!row.is_equal()) return "FALSIFIED";
  const std::string verdict =
      fmt::format("holds; {}", row.is_bounded ? "within bounds" : "equal, bit for bit");
  if (row.runs_with_unbounded == 0) return verdict;
  return fmt::format("{}; {} not judged in full", verdict, counted(row.runs_with_unbounded, "run"));
}

Json as_json(const TwinRow& row) {
  Json json = {{"case", row.name},
               {"runs", row.runs},
               {"tensors", row.tensors},
               {"bytes", row.bytes},
               {"calls", row.calls},
               {"to_the_bit", !row.is_bounded},
               {"runs_with_unbounded", row.runs_with_unbounded},
               {"holds", row.is_equal()}};
  if (!row.is_equal()) json["detail"] = row.difference;
  return json;
}

void write(const Call& call, const std::vector<TwinRow>& rows, const CampaignRequest& request,
           const Backend& backend) {
  const std::string reproduce = fmt::format("{}{} check{}", launched(backend.processes()), call.called,
                                            arguments_of(call.line, "case"));
  std::int64_t runs = 0, failed = 0;
  TextTable table({"case",
                   ">runs",
                   ">tensors",
                   ">bytes",
                   ">calls",
                   {fmt::format("on virtual ranks; {} compared with them", backend.name())}});
  std::string failures;
  for (const TwinRow& row : rows) {
    runs += row.runs;
    failed += row.is_equal() ? 0 : 1;
    table.row(row.name, row.runs, row.tensors, row.bytes, row.calls, verdict_text(row));
    if (!row.is_equal())
      failures +=
          fmt::format("\n{}: {}\n  reproduce  {} --case {}\n", row.name, row.difference, reproduce, row.name);
  }
  const char* verdict = verdict_name(failed == 0 ? kVerified : kFalsified);
  if (asks_for_json(call.line)) {
    call.output.out << one_line(
        {{"verdict", verdict},
         {"backend", backend.name()},
         {"properties",
          json_list(required_properties(), [](const Property* property) { return property->name; })},
         {"processes", backend.processes()},
         {"seed", request.seed},
         {"runs", runs},
         {"rows", json_list(rows, as_json)}});
    return;
  }
  call.output.out << table.text() << failures
                  << fmt::format("\n{}: {} in {} on {}, seed {}; {} falsified\n", verdict,
                                 counted(runs, "run"), counted(std::ssize(rows), "row"),
                                 counted(backend.processes(), "process"), request.seed, failed);
}

/// A divisor of `of`, drawn uniformly.
int drawn_divisor(std::int64_t of, const sim::KeyedRandom& random) {
  std::vector<int> divisors;
  for (int divisor = 1; divisor <= of; ++divisor) {
    if (of % divisor == 0) divisors.push_back(divisor);
  }
  return divisors[random.below(0, static_cast<std::uint32_t>(divisors.size()))];
}

}  // namespace

CaseSetting drawn_for_backend(const Case& the_case, const std::vector<sim::DType>& dtypes, std::uint64_t seed,
                              std::int64_t number, const Backend& backend, int max_world) {
  const sim::KeyedRandom random =
      sim::KeyedRandom(seed).named(fmt::format("{} run {}", the_case.name(), number));
  std::uint64_t next = 1;
  const auto between = [&](std::int64_t least, std::int64_t most) {
    return least + std::int64_t{random.below(next++, static_cast<std::uint32_t>(most - least + 1))};
  };
  const std::int64_t world = backend.ranks_are_processes() ? backend.processes() : between(1, max_world);
  CaseSetting setting{.group_size = static_cast<int>(world), .ranks = the_case.ranks()};
  if (setting.ranks == Ranks::tensor_parallel) {
    setting.group_size = drawn_divisor(world, random.named("tp"));
    setting.replicas = static_cast<int>(world) / setting.group_size;
  }
  setting.dtype = dtypes[static_cast<std::size_t>(between(0, std::ssize(dtypes) - 1))];
  setting.seed = static_cast<std::uint64_t>(between(0, (1 << 24) - 1));  // small enough for --seed
  for (const Dimension& dimension : the_case.dimensions())
    setting.dimensions[dimension.name] = between(dimension.least, dimension.most);
  return setting;
}

void require_several_processes(const BackendChoice& choice, const std::string& called, const char* rule,
                               const std::string& otherwise) {
  if (choice.launch.world_size > 1) return;
  refuse_by("one_process", choice.kind->asked_by, rule, launched(4), called, otherwise);
}

std::uint64_t configuration_of(const CommandLine& line, const CaseList& cases) {
  sim::ContentHash hash;
  hash.add(std::string_view(arguments_of(line)));
  for (const auto& one : cases) hash.add(std::string_view(one->name()));
  return hash.value();
}

int check_on_backend(const Call& call, const CaseList& cases) {
  const CaseOptions options = case_options(call.line.settings);
  if (!options.properties.empty()) refuse_without_effect("property", "check on a backend");
  if (!options.plants.empty()) refuse_without_effect("plant", "check on a backend");
  if (options.threads) refuse_without_effect("threads", "check on a backend");
  const BackendKind& kind = *backend_kind(call.line.settings);
  if (kind.ranks_are_processes && options.max_world)
    refuse_without_effect("max-world", "check on as many ranks as there are processes");
  CampaignRequest request = requested_campaign(options, cases);
  if (!options.runs) request.runs = kBackendRuns;
  const BackendChoice choice = backend_choice(call.line.settings);
  require_built(choice, call.backends);
  // It makes no collective calls, so that a wrong layer looks right.
  if (kind.ranks_are_processes)
    require_several_processes(
        choice, call.called,
        "on this backend each process is a rank, and a single rank makes no collective calls");
  request.dtypes = judged_dtypes(choice, options, request.dtypes);
  const std::unique_ptr<Backend> backend =
      open_backend({choice, configuration_of(call.line, cases)}, call.backends, call.output.err);
  TwinVerdict verdict;
  run_or_end_all(*backend, [&] {
    verdict = concluded(*backend, run_with_progress(*backend, programs(request, *backend), call.output));
    if (backend->rank() != 0) return;
    write(call, verdict.rows, request, *backend);
    call.output.out.flush();
  });
  backend->close();
  return verdict.exit_code;
}

}  // namespace verify
