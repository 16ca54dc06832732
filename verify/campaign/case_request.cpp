#include "verify/campaign/case_request.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/error.h"
#include "verify/cases/case_list.h"
#include "verify/cases/case_rules.h"
#include "verify/vocabulary/nearest_name.h"

namespace verify {

namespace {

constexpr sim::DType kDTypes[] = {sim::DType::field, sim::DType::f64, sim::DType::f32, sim::DType::bf16};

[[noreturn]] void refuse_name(const char* code, const std::string& option, const std::string& name,
                              const std::vector<std::string>& known) {
  const std::string nearest = nearest_or_begun(name, known);
  sim::refuse({.code = code,
               .option = option,
               .numbers = fmt::format("'{}'", name),
               .rule = fmt::format("it is one of {}", fmt::join(known, ", ")),
               .hint = fmt::format("{} {}", option, nearest.empty() ? known.front() : nearest)});
}

/// Returns the items whose names are given, in the order of `all`, or all items if no name is given. An
/// unknown name is refused.
template <typename Item, typename All, typename NameOf>
std::vector<Item> chosen(const std::vector<std::string>& names, const char* option, const char* code,
                         const All& all, const NameOf& name_of) {
  const std::vector<std::string> known = names_of(all, name_of);
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) == known.end()) {
      refuse_name(code, std::string("--") + option, name, known);
    }
  }
  std::vector<Item> result;
  for (const Item& item : all) {
    if (names.empty() || std::ranges::find(names, name_of(item)) != names.end()) {
      result.push_back(item);
    }
  }
  return result;
}

std::vector<const Case*> chosen_cases(const CaseOptions& options, const CaseList& cases) {
  std::vector<const Case*> all;
  for (const auto& one : cases) all.push_back(one.get());
  return chosen<const Case*>(options.cases, "case", "unknown_case", all,
                             [](const Case* c) { return c->name(); });
}

std::vector<const Property*> chosen_properties(const CaseOptions& options) {
  std::vector<const Property*> all;
  for (const Property& one : all_properties()) all.push_back(&one);
  return chosen<const Property*>(options.properties, "property", "unknown_property", all,
                                 [](const Property* p) { return std::string(p->name); });
}

std::vector<sim::DType> chosen_dtypes(const CaseOptions& options) {
  return chosen<sim::DType>(options.dtypes, "dtype", "unknown_dtype",
                            std::vector<sim::DType>(std::begin(kDTypes), std::end(kDTypes)),
                            [](sim::DType dtype) { return std::string(sim::name_of(dtype)); });
}

[[noreturn]] void refuse_dimensions(const Case& the_case, const std::string& given) {
  std::vector<std::string> wanted;
  for (const Dimension& d : the_case.dimensions()) {
    wanted.push_back(fmt::format("{}={}..{}", d.name, d.least, d.most));
  }
  sim::refuse({.code = "bad_dimensions",
               .option = "--dimensions",
               .numbers = fmt::format("'{}' for {}", given, the_case.name()),
               .rule = "each dimension of the case is given once, as name=number, within its range",
               .hint = fmt::format("one number of each range in {}", fmt::join(wanted, ","))});
}

/// Parses text such as "tokens=1,hidden=2".
Dimensions parsed_dimensions(const Case& the_case, const std::string& given) {
  Dimensions dimensions;
  std::size_t begin = 0;
  while (begin <= given.size()) {
    const std::size_t end = std::min(given.find(',', begin), given.size());
    const std::string item = given.substr(begin, end - begin);
    const std::size_t equals = item.find('=');
    const std::string digits = equals == std::string::npos ? "" : item.substr(equals + 1);
    if (digits.empty() || digits.size() > 6 || digits.find_first_not_of("0123456789") != std::string::npos) {
      refuse_dimensions(the_case, given);
    }
    const bool is_new = dimensions.emplace(item.substr(0, equals), std::stoll(digits)).second;
    if (!is_new) refuse_dimensions(the_case, given);
    begin = end + 1;
  }
  const std::vector<Dimension> wanted = the_case.dimensions();
  const bool fits =
      dimensions.size() == wanted.size() && std::ranges::all_of(wanted, [&](const Dimension& d) {
        return dimensions.contains(d.name) && dimensions.at(d.name) >= d.least &&
               dimensions.at(d.name) <= d.most;
      });
  if (!fits) refuse_dimensions(the_case, given);
  return dimensions;
}

constexpr std::int64_t kMostRanks = 64;

std::int64_t checked_ranks(std::int64_t ranks, const char* option) {
  if (ranks <= kMostRanks) return ranks;
  sim::refuse({.code = "max_world",
               .option = option,
               .numbers = fmt::format("{} ranks", ranks),
               .rule = fmt::format("a case runs on at most {} ranks", kMostRanks),
               .hint = fmt::format("{} 8", option)});
}

}  // namespace

std::vector<std::string> dtype_names() {
  return names_of(kDTypes, [](sim::DType dtype) { return sim::name_of(dtype); });
}

CampaignRequest named_campaign(const CaseOptions& options, const CaseList& cases) {
  return {.cases = chosen_cases(options, cases),
          .properties = chosen_properties(options),
          .dtypes = chosen_dtypes(options),
          .runs = options.runs.value_or(100),
          .seed = options.seed,
          .max_world = static_cast<int>(checked_ranks(options.max_world.value_or(8), "--max-world")),
          .faults = parsed_faults(options.plants)};
}

CampaignRequest requested_campaign(const CaseOptions& options, const CaseList& cases) {
  CampaignRequest request = named_campaign(options, cases);
  require_declarations(request.cases, request.max_world);
  return request;
}

void refuse_nothing_to_check() {
  sim::refuse({.code = "nothing_to_check",
               .option = "--case, --property, --dtype",
               .numbers = "none of these properties judges any of these cases in these dtypes",
               .rule =
                   "adjoint judges linear cases in the field; special judges floats; twins and resumes judge "
                   "cases that declare them",
               .hint = "--dtype field,f32, or another property or case"});
}

OneCase requested_case(const CaseOptions& options, const CaseList& all) {
  const auto cases = chosen_cases(options, all);
  const auto properties = chosen_properties(options);
  const auto dtypes = chosen_dtypes(options);
  if (cases.size() != 1 || properties.size() != 1 || dtypes.size() != 1) {
    sim::refuse({.code = "bad_dimensions",
                 .option = "--dimensions",
                 .numbers = fmt::format("{} cases, {} properties, {} dtypes", cases.size(), properties.size(),
                                        dtypes.size()),
                 .rule = "--dimensions replays one case, with one property and one dtype",
                 .hint = "give --case, --property and --dtype one name each"});
  }
  const Case& the_case = *cases.front();
  if (!properties.front()->judges(the_case, dtypes.front())) refuse_nothing_to_check();
  const bool is_tensor_parallel = the_case.ranks() == Ranks::tensor_parallel;
  const std::int64_t world = checked_ranks(options.world_size, "--world-size");
  const auto tp = static_cast<int>(is_tensor_parallel ? options.tensor_model_parallel_size : world);
  return {&the_case, properties.front(),
          CaseSetting{.group_size = tp,
                      .replicas = std::max(static_cast<int>(world) / tp, 1),
                      .ranks = the_case.ranks(),
                      .dtype = dtypes.front(),
                      .seed = options.seed,
                      .dimensions = parsed_dimensions(the_case, options.dimensions.value_or(""))}};
}

NamedValues with_plants(NamedValues options, const std::vector<Fault>& faults) {
  for (const Fault& fault : faults) options.emplace_back("plant", fault.text);
  return options;
}

NamedValues options_of(const Case& the_case, const Property& property, const CaseSetting& setting) {
  std::vector<std::string> dimensions;
  for (const auto& [name, value] : setting.dimensions)
    dimensions.push_back(fmt::format("{}={}", name, value));
  const int tp = setting.ranks == Ranks::tensor_parallel ? setting.group_size : 1;
  return {{"world-size", fmt::format("{}", setting.group_size * setting.replicas)},
          {"tensor-model-parallel-size", fmt::format("{}", tp)},
          {"case", the_case.name()},
          {"property", property.name},
          {"dtype", std::string(sim::name_of(setting.dtype))},
          {"seed", fmt::format("{}", setting.seed)},
          {"dimensions", fmt::format("{}", fmt::join(dimensions, ","))}};
}

NamedValues scenario_options(const Case& the_case, const Property& property, const CaseSetting& setting) {
  const sim::ParallelSizes sizes = the_case.sizes(setting);
  const sim::ParallelSizes plain;
  NamedValues layout;
  const auto add = [&](const char* option, std::int64_t size, std::int64_t otherwise) {
    if (size != otherwise) layout.emplace_back(option, fmt::format("{}", size));
  };
  add("tensor-model-parallel-size", sizes.tensor_model_parallel_size, plain.tensor_model_parallel_size);
  add("pipeline-model-parallel-size", sizes.pipeline_model_parallel_size, plain.pipeline_model_parallel_size);
  add("virtual-pipeline-model-parallel-size", sizes.virtual_pipeline_model_parallel_size.value_or(1), 1);
  add("context-parallel-size", sizes.context_parallel_size, plain.context_parallel_size);
  add("expert-model-parallel-size", sizes.expert_model_parallel_size, plain.expert_model_parallel_size);
  const std::int64_t tp = sizes.tensor_model_parallel_size;
  add("expert-tensor-parallel-size", sizes.expert_tensor_parallel_size.value_or(tp), tp);
  add("num-distributed-optimizer-instances", sizes.num_distributed_optimizer_instances,
      plain.num_distributed_optimizer_instances);
  if (sizes.order != plain.order) layout.emplace_back("order", sizes.order);
  // Megatron trains a model with experts and tp above 1 under sequence parallelism alone.
  if (tp > 1 && sizes.expert_model_parallel_size > 1) layout.emplace_back("sequence-parallel", "true");
  for (auto& [name, value] : options_of(the_case, property, setting)) {
    if (name != "tensor-model-parallel-size") layout.emplace_back(name, value);
  }
  return layout;
}

}  // namespace verify
