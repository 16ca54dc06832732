#include "verify/run_arguments/argument_table.h"

#include <algorithm>
#include <map>
#include <utility>

#include "verify/run_arguments/argument_rows.h"

namespace verify {

const std::vector<ArgumentRow>& argument_rows() {
  static const std::vector<ArgumentRow> rows = [] {
    std::vector<ArgumentRow> all = used_rows();
    for (std::vector<ArgumentRow> more : {rows_beside_training(), rows_without_effect(), rows_not_modelled()})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return rows;
}

const ArgumentRow* find_argument(std::string_view name) {
  static const std::map<std::string_view, const ArgumentRow*> index = [] {
    std::map<std::string_view, const ArgumentRow*> by_name;
    for (const ArgumentRow& row : argument_rows())
      for (const char* row_name : row.names) by_name.emplace(row_name, &row);
    return by_name;
  }();
  const auto found = index.find(name);
  return found == index.end() ? nullptr : found->second;
}

const LogName* find_log_name(std::string_view name) {
  static const std::vector<LogName> names = {
      {"add-bias-linear", "disable-bias-linear", true},
      {"overlap-p2p-comm", "no-overlap-p2p-communication", true},
      {"bias-swiglu-fusion", "no-bias-swiglu-fusion", true},
      {"masked-softmax-fusion", "no-masked-softmax-fusion", true},
      {"gradient-accumulation-fusion", "no-gradient-accumulation-fusion", true},
      {"create-attention-mask-in-dataloader", "no-create-attention-mask-in-dataloader", true},
      {"use-gloo-process-groups", "disable-gloo-process-groups", true},
      {"enable-gloo-process-groups", "disable-gloo-process-groups", true},
      {"fp8", "fp8-format", false},
      {"fp4", "fp4-format", false},
      {"microbatch-group-size-per-vp-stage", "microbatch-group-size-per-virtual-pipeline-stage", false},
      {"accumulate-allreduce-grads-in-fp32", "accumulate-allreduce-grads-in-fp32", false},
  };
  const auto found =
      std::find_if(names.begin(), names.end(), [&](const LogName& row) { return row.name == name; });
  return found == names.end() ? nullptr : &*found;
}

std::vector<std::string> argument_names() {
  std::vector<std::string> names;
  for (const ArgumentRow& row : argument_rows())
    names.insert(names.end(), row.names.begin(), row.names.end());
  return names;
}

}  // namespace verify
