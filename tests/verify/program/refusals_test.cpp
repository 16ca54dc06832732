// Proves every refusal of the program, provoked from the command line. A refusal exits with 2 and says
// on standard error where it is, what was given, the rule and what to try. In JSON format it also prints
// one document on standard output. The house test (tests/house) fails when the sources can refuse with a
// code that is not listed here.

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/run.h"
#include "verify/vocabulary/nearest_name.h"

namespace {

struct Case {
  const char* code;
  const char* command_line;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      // sizes
      {"size_range", "groups --world-size 0"},
      {"size_range", "groups --world-size -8"},
      {"size_range", "groups --world-size 8 --tensor-model-parallel-size 0"},
      {"size_range", "groups --world-size 8 --pipeline-model-parallel-size -1"},
      {"size_range", "groups --world-size 8 --context-parallel-size 0"},
      {"size_range", "groups --world-size 8 --expert-model-parallel-size 0"},
      {"size_range", "groups --world-size 8 --expert-tensor-parallel-size 0"},
      {"size_range", "groups --world-size 8 --num-distributed-optimizer-instances 0"},
      {"size_range",
       "groups --world-size 8 --pipeline-model-parallel-size 2 --virtual-pipeline-model-parallel-size 0"},
      {"size_range",
       "groups --world-size 8 --context-parallel-size 2 --hierarchical-context-parallel-sizes 0 2"},
      {"size_range", "groups --world-size 8 --gpus-per-node 0"},
      {"size_range", "groups --world-size 16777217"},
      {"size_range", "groups --world-size 2147483647"},
      {"size_range", "groups --rules legacy --world-size 8 --tensor-model-parallel-size 0"},
      {"size_range", "layers --num-layers 0"},
      {"size_range", "layers --num-layers -4 --pipeline-model-parallel-size 2"},
      {"size_range", "layers --rules legacy --num-layers -4 --pipeline-model-parallel-size 2"},
      {"number_range", "groups --world-size 2147483648"},
      {"number_range", "groups --world-size 4294967297"},
      {"number_range", "groups --world-size 99999999999999999999999999"},
      {"number_range", "groups --world-size -99999999999999999999999999"},
      {"not_a_number", "groups --world-size eight"},
      {"not_a_number", "groups --world-size 8.0"},
      {"not_a_number", "groups --world-size ''"},
      {"not_a_number", "groups --world-size 0x10"},
      {"not_a_number", "groups --world-size '8 '"},
      {"not_a_number",
       "groups --world-size 8 --context-parallel-size 8 --hierarchical-context-parallel-sizes 2,,4"},
      {"rank_offset_range", "groups --world-size 8 --rank-offset -1"},
      {"rank_offset_range", "groups --world-size 8 --rank-offset 2147483647"},
      {"grid_outside_world", "groups --world-size 8 --local-world-size 8 --rank-offset 1"},
      {"stages_range",
       "layers --rules legacy --num-layers 0 --pipeline-model-parallel-size 16777216 "
       "--virtual-pipeline-model-parallel-size 16777216"},
      {"stages_range", "layers --num-layers 16777216 --pipeline-model-parallel-size 16777216"},
      {"stages_range", "layers --rules legacy --num-layers 0 --pipeline-model-parallel-size 16777216"},
      {"stages_range",
       "layers --num-layers 1 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout "
       "'EtL(|)*2000001'"},
      {"size_range", "groups --world-size 8 --mtp-num-layers -1"},
      {"size_range", "list --world-size 0"},
      {"missing_value", "groups --world-size="},
      {"hcp_levels",
       "groups --world-size 8 --hierarchical-context-parallel-sizes "
       "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"},
      // options that the command does not use are checked all the same
      {"size_range", "layers --num-layers 8 --tensor-model-parallel-size -4"},
      {"not_a_number", "groups --world-size 8 --num-layers banana"},
      {"size_range", "replay --world-size 8 --micro-batch-size -3"},
      {"not_a_flag", "groups --world-size 8 --swiglu=maybe"},
      {"bad_choice", "replay --world-size 8 --moe-router-load-balancing-type auxloss"},
      {"unknown_topic", "replay --help trainin"},
      {"option_without_effect", "replay --man"},
      {"bad_choice", "groups --world-size 8 --normalization foo"},
      {"unknown_program", "replay --world-size 8 --program mutual_sent"},
      {"program_world", "replay --world-size 1 --program mutual_send"},
      {"unknown_case", "check --case column_paralel_linear"},
      {"unknown_property", "check --property cereal"},
      {"unknown_dtype", "check --dtype f16"},
      {"max_world", "check --max-world 65"},
      {"nothing_to_check", "check --property adjoint --dtype f32"},
      {"nothing_to_check",
       "replay --world-size 4 --tensor-model-parallel-size 4 --case mlp --property adjoint"},
      {"nothing_to_check",
       "replay --world-size 2 --case row_parallel_linear --property adjoint --dtype f32 --dimensions "
       "tokens=2"},
      {"nothing_to_check", "replay --world-size 4 --property special"},
      {"option_without_effect", "check --program throws"},
      {"option_without_effect", "check --dimensions tokens=1"},
      {"option_without_effect", "replay --world-size 2 --runs 5"},
      {"option_without_effect", "replay --world-size 2 --deadline 5"},
      {"option_without_effect", "groups --world-size 2 --backend mpi"},
      {"option_without_effect", "groups --world-size 2 --device cuda"},
      {"option_without_effect", "replay --world-size 2 --nccl-order any"},
      {"option_without_effect", "replay --world-size 2 --rank 0"},
      {"option_without_effect", "replay --world-size 2 --device cuda --deadline 5"},
      {"option_without_effect", "replay --world-size 1 --device cuda --program mutual_send"},
      {"option_without_effect", "check --cuda-kernels vendor"},
      {"option_without_effect", "check --device cuda --property serial"},
      {"option_without_effect", "check --device cuda --threads 2"},
      {"backend_device", "replay --world-size 2 --backend mpi --device cuda"},
      {"backend_device", "check --backend nccl --device cpu"},
      {"one_process", "check --backend nccl"},
      {"one_process", "check --spread mpi"},
      {"spread_backend", "check --spread mpi --backend mpi"},
      {"spread_backend", "check --device cuda --spread mpi"},
      {"option_without_effect", "check --spread mpi --nccl-order any"},
      {"option_without_effect", "check --deadline 5"},
      {"option_without_effect", "replay --world-size 2 --spread mpi"},
      {"bad_choice", "check --spread nccl"},
      {"option_without_effect", "replay --world-size 2 --device cuda --layout-only"},
      {"backend_scenarios", "replay --backend mpi"},
      {"backend_scenarios",
       "replay --device cuda scenarios/published/seed-002-moe.ini scenarios/published/seed-002-dense.ini"},
      {"message_bytes", "replay --world-size 1 --backend mpi --message-bytes -1"},
      {"option_without_effect", "replay --world-size 2 --program throws --case mlp"},
      {"attention_heads", "replay --world-size 2 --tensor-model-parallel-size 2 --num-attention-heads 1"},
      {"groups_div", "replay --world-size 2 --num-attention-heads 7 --num-query-groups 5"},
      {"max_world",
       "replay --world-size 128 --tensor-model-parallel-size 128 --case parallel_norm --property serial "
       "--dtype f32 "
       "--dimensions tokens=1,hidden=1,layer_norm=0,sequence_parallel=0"},
      {"bad_dimensions",
       "replay --world-size 2 --case parallel_norm --property serial --dtype f32 --dimensions "
       "tokens=1,hidden=21,layer_norm=0,sequence_parallel=0"},
      {"bad_dimensions",
       "replay --world-size 2 --case parallel_norm --property serial --dtype f32 --dimensions "
       "tokens=1,hidden=2,layer_norm=0,sequence_parallel=0,tokens=1"},
      {"bad_dimensions",
       "replay --world-size 2 --case parallel_norm --property serial --dtype f32 --dimensions "
       "tokens=1,hidden=2,layer_norm=0,sequence_parallel=0,"},
      {"buffer_sizes", "shards --param-sizes 10,-1"},
      {"buffer_sizes", "shards --param-sizes 10 --bucket-size 0"},
      {"buffer_sizes", "shards --param-sizes 10 --bucket-size 1,2"},
      {"buffer_sizes", "shards --param-sizes 1000000000000000000,1000000000000000000"},
      {"not_a_number", "shards --param-sizes 10,x"},
      {"not_a_number", "shards --param-sizes 10,99999999999999999999"},
      {"missing_option", "shards"},
      {"missing_option", "shards --num-layers 2 --hidden-size 8"},
      {"option_without_effect", "shards --param-sizes 10 --hidden-size 8"},
      {"option_without_effect",
       "shards --num-layers 2 --hidden-size 8 --num-attention-heads 2 --vocab-size 64 --seq-length 16 "
       "--shared-embedding 0"},
      {"attention_heads",
       "shards --num-layers 2 --hidden-size 8 --num-attention-heads 2 --vocab-size 64 --seq-length 16 "
       "--tensor-model-parallel-size 4"},
      {"too_many_layers",
       "shards --num-layers 10001 --hidden-size 8 --num-attention-heads 2 --vocab-size 64 --seq-length 16"},
      {"no_such_parameter", "shards --param-sizes 10 --shared-embedding 1"},
      {"size_range", "shards --param-sizes 10 --data-parallel-size 0"},
      {"one_scenario", "check scenarios/published/seed-002-dense.ini"},
      {"bad_dimensions", "replay --world-size 2 --case parallel_norm --dimensions tokens=1"},
      // planted faults
      {"bad_fault", "check --case mlp --plant row_parallel_linear.forward"},
      {"bad_fault", "check --case mlp --plant :skip"},
      {"bad_fault", "check --case mlp --plant row_parallel_linear.forward:zero"},
      {"bad_fault", "check --case mlp --plant device.matmul:skip"},
      {"unknown_fault", "check --case mlp --plant row_parallel_linear.forward:skp"},
      {"bad_fault_argument", "check --case mlp --plant row_parallel_linear.forward:op=mean"},
      {"bad_fault_argument", "check --case mlp --plant row_parallel_linear.forward:skip=1"},
      {"bad_fault_argument", "check --case mlp --plant row_parallel_linear.forward:scale=1/0"},
      {"bad_fault_argument", "check --case mlp --plant row_parallel_linear.forward:wrong-group=xy"},
      {"bad_fault_argument", "check --case mlp --plant row_parallel_linear.forward:truncate=0"},
      {"bad_fault_where", "check --case mlp --plant row_parallel_linear.forward:skip@rank"},
      {"bad_fault_where", "check --case mlp --plant row_parallel_linear.forward:skip@rank=1,when=2"},
      {"bad_fault_where", "check --case mlp --plant device.matmul:zero@place=1"},
      {"bad_fault_where", "check --case mlp --plant device.matmul:zero@step=1"},
      {"bad_fault_where", "check --case mlp --plant row_parallel_linear.forward:skip@pass=both"},
      {"bad_fault", "check --case mlp --plant tensor.output:skip"},
      {"bad_fault_argument", "check --case mlp --plant tensor.output:scale=tp"},
      {"bad_fault_argument", "check --case mlp --plant row_parallel_linear.forward:scale=1+2^-53"},
      {"bad_fault_where", "check --case mlp --plant tensor.output:zero@call=1"},
      {"no_such_site", "check --case mlp --plant tensor.outputs:zero"},
      {"unknown_fault", "exam --case mlp --fault skp"},
      {"option_without_effect", "exam --case mlp --power --fault skip"},
      {"one_scenario", "exam scenarios/published/seed-002-moe.ini"},
      {"catalogue_missing", "exam --catalogue no-such-file.ini"},
      {"catalogue_syntax", "exam --catalogue scenarios/machines/h100-node.ini"},
      {"no_such_site", "check --case mlp --plant row_parallel_linear.forwrd:skip"},
      {"no_such_site", "check --case mlp --plant row_parallel_linear.forward:root=next"},
      {"no_such_site", "check --case mlp --plant device.matmull:zero"},
      {"option_without_effect", "check --case mlp --sites --backend mpi"},
      {"option_without_effect", "check --case mlp --sites --spread mpi"},
      {"training_text", "replay --world-size 2 --text no-such-file.txt"},
      {"training_text", "replay --world-size 2 --text /dev/null"},
      {"training_text", "replay --world-size 2 --text ."},
      {"training_text", "replay --world-size 2 --text /proc/self/environ"},
      {"training_text", "replay --world-size 2 --text /dev/zero"},
      {"train_iters", "replay --world-size 2 --train-iters 1001"},
      {"ffn_tp_div", "replay --world-size 2 --tensor-model-parallel-size 2 --ffn-hidden-size 17"},
      {"sequence_tp_div",
       "replay --world-size 2 --tensor-model-parallel-size 2 --sequence-parallel --seq-length 15"},
      {"sequence_cp_div", "replay --world-size 2 --context-parallel-size 2 --seq-length 18"},
      {"microbatches_batch", "replay --world-size 2 --global-batch-size 6 --num-microbatches 2"},
      {"microbatch_group_size",
       "replay --world-size 4 --pipeline-model-parallel-size 2 --virtual-pipeline-model-parallel-size 2 "
       "--num-layers 4 --global-batch-size 8 --microbatch-group-size-per-virtual-pipeline-stage 100"},
      {"size_range", "replay --world-size 2 --train-iters -1"},
      {"option_without_effect", "check --text README.md"},
      {"bad_dimensions",
       "replay --world-size 2 --case parallel_norm --property serial --dtype f32 --dimensions "
       "tokens=1,hidden=0"},
      {"program_world", "replay --world-size 4097 --program mutual_send"},
      // pipeline schedules
      {"missing_option", "schedule --pipeline-model-parallel-size 4"},
      {"size_range", "schedule --num-microbatches 0"},
      {"size_range", "schedule --num-microbatches 2147483647"},
      {"number_range", "schedule --num-microbatches 2147483648"},
      {"schedule_size", "schedule --num-microbatches 16777216"},
      {"schedule_size", "schedule --pipeline-model-parallel-size 16777216 --num-microbatches 1"},
      {"schedule_size",
       "schedule --pipeline-model-parallel-size 64 --num-microbatches 4096 "
       "--virtual-pipeline-model-parallel-size 16777216"},
      {"schedule_size", "schedule --pipeline-model-parallel-size 1024 --num-microbatches 1024"},
      {"size_range", "schedule --pipeline-model-parallel-size 0 --num-microbatches 8"},
      {"microbatch_group_size",
       "schedule --pipeline-model-parallel-size 4 --num-microbatches 3 "
       "--virtual-pipeline-model-parallel-size "
       "2"},
      {"microbatch_group_size",
       "schedule --pipeline-model-parallel-size 4 --num-microbatches 8 "
       "--virtual-pipeline-model-parallel-size "
       "2 --microbatch-group-size-per-virtual-pipeline-stage 3"},
      {"microbatch_group_remainder",
       "schedule --pipeline-model-parallel-size 4 --num-microbatches 9 "
       "--virtual-pipeline-model-parallel-size "
       "2"},
      {"vpp_needs_pp", "schedule --num-microbatches 8 --virtual-pipeline-model-parallel-size 2"},
      {"overlap_needs_vpp",
       "schedule --pipeline-model-parallel-size 4 --num-microbatches 8 --overlap-moe-expert-parallel-comm"},
      {"not_interleaved",
       "schedule --pipeline-model-parallel-size 4 --num-microbatches 8 "
       "--virtual-pipeline-model-parallel-size "
       "2 --schedule gpipe"},
      {"not_interleaved",
       "schedule --pipeline-model-parallel-size 4 --num-microbatches 8 "
       "--virtual-pipeline-model-parallel-size "
       "2 --schedule none"},
      {"bad_choice", "schedule --num-microbatches 8 --schedule 1f1"},
      {"bad_choice", "schedule --num-microbatches 8 --schedule uniform"},
      {"bad_choice", "replay --world-size 2 --schedule 1f1b"},
      {"step_cost", "schedule --num-microbatches 8 --backward-cost 1001"},
      {"microbatches_div", "schedule --world-size 8 --pipeline-model-parallel-size 2 --global-batch-size 6"},
      {"dense_div", "schedule --world-size 6 --pipeline-model-parallel-size 4 --num-microbatches 8"},
      {"svg_file", "schedule --num-microbatches 8 --svg no/such/folder/schedule.svg"},
      {"svg_file", "schedule --num-microbatches 8 --svg /"},
      {"svg_size", "schedule --num-microbatches 65536 --svg schedule.svg"},
      {"missing_value", "schedule --num-microbatches 8 --svg"},
      {"option_without_effect", "layers --num-layers 8 --svg layers.svg"},
      {"option_without_effect", "groups --world-size 8 --junit groups.xml"},
      {"option_without_effect", "check --runs 1 --report check.html"},
      {"report_file", "replay --world-size 8 --report no/such/folder/report.html"},
      {"report_file", "replay --world-size 8 --report /"},
      {"report_file", "replay --world-size 8 --report /dev/null"},
      {"report_file", "replay --world-size 8 --report /proc/report.html"},
      {"report_file", "replay --world-size 8 --report ''"},
      {"report_file", "replay --report scenarios/published/seed-002-moe.ini"},
      {"junit_file", "replay --world-size 8 --junit no/such/folder/junit.xml"},
      {"junit_file", "replay --world-size 8 --junit tests"},
      {"trace_file", "replay --world-size 8 --trace no/such/folder/trace.json"},
      {"trace_file", "replay --world-size 8 --trace tests"},
      {"trace_file", "replay --world-size 8 --trace /dev/null"},
      {"trace_file", "replay --world-size 8 --trace ''"},
      {"trace_file", "replay --world-size 8 --junit both.xml --trace tests/../both.xml"},
      {"option_without_effect", "check --runs 1 --trace trace.json"},
      {"flight_recorder_folder", "replay --world-size 8 --flight-recorder no/such/folder"},
      {"flight_recorder_folder", "replay --world-size 8 --flight-recorder tests"},
      {"flight_recorder_folder", "replay --world-size 8 --flight-recorder README.md"},
      {"flight_recorder_folder", "replay --world-size 8 --flight-recorder /proc/dumps"},
      {"flight_recorder_folder", "replay --world-size 8 --flight-recorder ''"},
      {"flight_recorder_runs", "replay --flight-recorder dumps"},
      {"flight_recorder_runs",
       "replay scenarios/published/seed-002-moe.ini scenarios/published/seed-002-dense.ini --flight-recorder "
       "dumps"},
      {"option_without_effect", "replay --world-size 8 --flight-recorder-format json"},
      {"option_without_effect", "replay --world-size 8 --flight-recorder-entries 9"},
      {"option_without_effect", "replay --world-size 8 --layout-only --flight-recorder dumps"},
      {"option_without_effect", "replay --world-size 8 --case mlp --flight-recorder dumps"},
      {"option_without_effect", "check --runs 1 --flight-recorder dumps"},
      {"option_without_effect", "groups --world-size 8 --trace trace.json"},
      {"junit_file", "replay --world-size 8 --report both.html --junit tests/../both.html"},
      {"missing_value", "replay --world-size 8 --report"},
      {"one_scenario", "schedule a.ini b.ini"},
      // divisions, in the order in which Megatron's own checks fire
      {"hcp_prod",
       "groups --world-size 16 --context-parallel-size 8 --expert-model-parallel-size 16 "
       "--expert-tensor-parallel-size 1 "
       "--num-distributed-optimizer-instances 2 --hierarchical-context-parallel-sizes 3"},
      {"order_missing_axis",
       "groups --world-size 8 --context-parallel-size 2 --expert-model-parallel-size 3 --order tp-dp-pp"},
      {"ndoi_dense", "groups --world-size 9 --order cp-ep-dp-pp --num-distributed-optimizer-instances 2"},
      {"dense_div", "groups --world-size 64 --local-world-size 9 --tensor-model-parallel-size 2"},
      {"dense_div", "groups --world-size 6 --tensor-model-parallel-size 4"},
      {"dense_div",
       "groups --world-size 16 --tensor-model-parallel-size 65536 --pipeline-model-parallel-size 65536 "
       "--context-parallel-size 65536"},
      {"dense_div",
       "groups --rules legacy --world-size 4 --tensor-model-parallel-size 8 --pipeline-model-parallel-size "
       "8"},
      {"expert_div", "groups --world-size 8 --tensor-model-parallel-size 2 --expert-model-parallel-size 8"},
      {"ndoi_dense",
       "groups --world-size 8 --tensor-model-parallel-size 8 --num-distributed-optimizer-instances 2"},
      {"ndoi_expert",
       "groups --world-size 8 --expert-model-parallel-size 8 --expert-tensor-parallel-size 1 "
       "--num-distributed-optimizer-instances 2"},
      {"hcp_prod",
       "groups --world-size 8 --context-parallel-size 8 --hierarchical-context-parallel-sizes 2 2"},
      {"vpp_needs_pp", "groups --world-size 8 --virtual-pipeline-model-parallel-size 1"},
      {"vpp_needs_pp", "layers --num-layers 8 --virtual-pipeline-model-parallel-size 2"},
      {"vpp_needs_pp", "layers --num-layers 2 --pipeline-model-parallel-layout 'Et|tL'"},
      {"vpp_needs_pp",
       "layers --rules legacy --num-layers 8 --pipeline-model-parallel-size 2 "
       "--virtual-pipeline-model-parallel-size 2"},
      // orders
      {"order_empty_token", "groups --world-size 8 --order ''"},
      {"order_empty_token", "groups --world-size 8 --order tp--dp"},
      {"order_empty_token", "groups --world-size 8 --order tp-dp-"},
      {"order_unknown_token", "groups --world-size 8 --order tp-cp-xp-dp-pp"},
      {"order_unknown_token", "groups --world-size 8 --order tp-gtp_remat-cp-ep-dp-pp"},
      {"order_duplicate_token", "groups --world-size 8 --tensor-model-parallel-size 2 --order tp-tp-dp-pp"},
      {"order_duplicate_token", "groups --world-size 8 --order tp-dp-pp-dp"},
      {"order_duplicate_token", "groups --world-size 8 --order tp-TP-dp-pp"},
      {"order_no_tp", "groups --world-size 8 --order cp-ep-dp-pp"},
      {"order_missing_axis", "groups --world-size 8 --context-parallel-size 2 --order tp-dp-pp"},
      {"order_missing_axis", "groups --world-size 8 --order tp-pp"},
      {"order_missing_axis",
       "groups --world-size 8 --tensor-model-parallel-size 8 --expert-tensor-parallel-size 1 --order tp"},
      {"not_pp_last",
       "groups --world-size 16 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 "
       "--expert-model-parallel-size 2 --order tp-cp-pp-ep-dp"},
      {"not_pp_last",
       "groups --world-size 16 --pipeline-model-parallel-size 2 --context-parallel-size 2 --order "
       "TP-CP-EP-DP-PP"},
      {"pp_mismatch",
       "groups --world-size 16 --tensor-model-parallel-size 2 --context-parallel-size 2 "
       "--pipeline-model-parallel-size 2 "
       "--expert-model-parallel-size 2 --order tp-cp-pp-ep-dp"},
      {"order_conflict", "groups --world-size 8 --use-tp-pp-dp-mapping --order tp-cp-ep-dp-pp"},
      // rule books
      {"rules_conflict", "groups --world-size 8 --pipeline-model-parallel-split-rank 0"},
      {"rules_conflict", "layers --num-layers 8 --encoder-and-decoder"},
      {"rules_conflict", "groups --rules legacy --world-size 8 --use-tp-pp-dp-mapping"},
      {"split_rank_range",
       "groups --rules legacy --world-size 8 --pipeline-model-parallel-size 4 "
       "--pipeline-model-parallel-split-rank 4"},
      {"split_rank_range",
       "groups --rules legacy --world-size 8 --pipeline-model-parallel-size 4 "
       "--pipeline-model-parallel-split-rank -5"},
      {"legacy_has_no_axis", "groups --rules legacy --world-size 8 --context-parallel-size 2"},
      {"legacy_has_no_axis", "groups --rules legacy --world-size 8 --expert-tensor-parallel-size 2"},
      {"legacy_has_no_axis", "groups --rules legacy --world-size 8 --hierarchical-context-parallel-sizes 1"},
      {"legacy_has_no_axis", "groups --rules legacy --world-size 8 --order dp-tp-pp"},
      {"legacy_has_no_axis", "groups --rules legacy --world-size 8 --rank-offset 8"},
      {"rules_conflict", "layers --num-layers 8 --standalone-embedding-stage"},
      {"rules_conflict", "layers --rules legacy --num-layers 8 --decoder-first-pipeline-num-layers 2"},
      // layers
      {"placement_modes",
       "layers --num-layers 8 --pipeline-model-parallel-size 2 --account-for-loss-in-pipeline-split "
       "--decoder-first-pipeline-num-layers 3"},
      {"layers_pp_div", "layers --num-layers 7 --pipeline-model-parallel-size 2"},
      {"layers_pp_div", "layers --rules legacy --num-layers 7 --pipeline-model-parallel-size 2"},
      {"layers_vpp_div",
       "layers --num-layers 6 --pipeline-model-parallel-size 2 --virtual-pipeline-model-parallel-size 2"},
      {"layers_vpp_div",
       "layers --rules legacy --num-layers 9 --pipeline-model-parallel-size 3 "
       "--virtual-pipeline-model-parallel-size 2"},
      {"uneven_no_middle",
       "layers --num-layers 8 --decoder-first-pipeline-num-layers 3 --decoder-last-pipeline-num-layers 4"},
      {"uneven_no_middle",
       "layers --num-layers 12 --pipeline-model-parallel-size 2 --virtual-pipeline-model-parallel-size 2 "
       "--decoder-first-pipeline-num-layers 4 --decoder-last-pipeline-num-layers 8"},
      {"uneven_middle",
       "layers --num-layers 4 --pipeline-model-parallel-size 3 --decoder-first-pipeline-num-layers 6"},
      {"uneven_middle",
       "layers --num-layers 6 --pipeline-model-parallel-size 3 --decoder-first-pipeline-num-layers 6"},
      {"uneven_middle", "layers --num-layers 8 --decoder-first-pipeline-num-layers 3"},
      {"layout_syntax",
       "layers --num-layers 2 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et |tL'"},
      {"layout_syntax",
       "layers --num-layers 4 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout "
       "'E((t)*2)*2|L'"},
      {"layout_syntax",
       "layers --num-layers 2 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout '[[1],'"},
      {"layout_syntax",
       "layers --num-layers 2 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout "
       "'[[\"embedding\",\"encoder\"],[\"loss\"]]'"},
      {"layout_syntax",
       "layers --num-layers 2 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout ' [[1]]'"},
      {"layout_syntax",
       "layers --num-layers 2 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout '[]'"},
      {"layout_syntax",
       "layers --num-layers 1 --pipeline-model-parallel-size 3 --pipeline-model-parallel-layout "
       "'[\"embedding\",\"decoder\",\"loss\"]'"},
      {"layout_syntax",
       "layers --num-layers 1 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout "
       "'[[\"embedding\",\"de co der\"],[\"loss\"]]'"},
      {"layout_stages",
       "layers --num-layers 2 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout ''"},
      {"layout_too_long",
       "layers --num-layers 2 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout "
       "'Et*99999999999999999999|L'"},
      {"layout_too_long",
       "layers --num-layers 2 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout "
       "'(t*9999)*9999|L'"},
      {"layout_stages",
       "layers --num-layers 3 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et|t|tL'"},
      {"layout_vpp",
       "layers --num-layers 2 --pipeline-model-parallel-size 2 --virtual-pipeline-model-parallel-size 2 "
       "--pipeline-model-parallel-layout 'Et|tL'"},
      {"layout_ends",
       "layers --num-layers 2 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et|t'"},
      {"layout_ends",
       "layers --num-layers 2 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'tE|tL'"},
      {"layout_ends",
       "layers --num-layers 2 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout '|'"},
      {"layout_layers",
       "layers --num-layers 3 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et|tL'"},
      {"layout_mtp",
       "layers --num-layers 2 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et|tmL'"},
      {"layout_mtp",
       "layers --num-layers 2 --mtp-num-layers 1 --pipeline-model-parallel-size 2 "
       "--pipeline-model-parallel-layout 'Etm|tL'"},
      {"layout_mtp",
       "layers --num-layers 2 --mtp-num-layers 2 --pipeline-model-parallel-size 3 "
       "--pipeline-model-parallel-layout "
       "'Ett|m|mL'"},
      {"layout_mtp",
       "layers --num-layers 2 --mtp-num-layers 1 --pipeline-model-parallel-size 2 "
       "--pipeline-model-parallel-layout "
       "'Ett|m||L'"},
      {"split_rank_missing",
       "layers --rules legacy --num-layers 8 --pipeline-model-parallel-size 2 --encoder-and-decoder"},
      {"split_rank_range",
       "layers --rules legacy --num-layers 96 --pipeline-model-parallel-size 6 --encoder-and-decoder "
       "--standalone-embedding-stage --pipeline-model-parallel-split-rank 0"},
      {"split_rank_range",
       "layers --rules legacy --num-layers 60 --pipeline-model-parallel-size 4 --encoder-and-decoder "
       "--pipeline-model-parallel-split-rank -2147483647"},
      {"layers_encoder_div",
       "layers --rules legacy --num-layers 7 --pipeline-model-parallel-size 4 --encoder-and-decoder "
       "--pipeline-model-parallel-split-rank 2"},
      {"layers_decoder_div",
       "layers --rules legacy --num-layers 7 --pipeline-model-parallel-size 4 --encoder-and-decoder "
       "--pipeline-model-parallel-split-rank 1"},
      {"vpp_encoder_decoder",
       "layers --rules legacy --num-layers 8 --pipeline-model-parallel-size 4 --encoder-and-decoder "
       "--pipeline-model-parallel-split-rank 2 --virtual-pipeline-model-parallel-size 2"},
      // the command line
      {"unknown_command", "grops --world-size 8"},
      {"unknown_option", "groups --world-sze 8"},
      {"unknown_option", "groups --world 8"},
      {"unknown_option", "groups -w 8"},
      {"missing_value", "groups --world-size"},
      {"not_a_flag", "groups --world-size 8 --use-tp-pp-dp-mapping=yes"},
      {"missing_command", ""},
      {"unknown_option", "--positional groups --world-size 8"},
      {"option_without_effect", "replay --world-size 8 --rank 3"},
      {"option_without_effect", "layers --num-layers 8 --kind tp"},
      {"option_without_effect", "groups --world-size 8 --runs 5"},
      {"option_without_effect", "list --world-size 8"},
      {"given_twice", "groups --world-size 8 --world-size 16"},
      {"missing_option", "groups"},
      {"missing_option", "layers"},
      {"missing_option", "memory --world-size 8 --hidden-size 64"},
      {"missing_option",
       "memory --sweep --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32"},
      {"memory_size",
       "memory --world-size 8 --num-layers 2 --hidden-size 64 --num-attention-heads 4 --vocab-size 100 "
       "--seq-length 32 --gpu-memory 80XB"},
      {"memory_size",
       "memory --world-size 8 --num-layers 2 --hidden-size 64 --num-attention-heads 4 --vocab-size 100 "
       "--seq-length 32 --gpu-memory -80GB"},
      {"memory_size",
       "memory --world-size 8 --num-layers 2 --hidden-size 64 --num-attention-heads 4 --vocab-size 100 "
       "--seq-length 32 --gpu-memory 80"},
      {"memory_size",
       "memory --world-size 8 --num-layers 2 --hidden-size 64 --num-attention-heads 4 --vocab-size 100 "
       "--seq-length 32 --gpu-memory GB"},
      {"memory_size",
       "memory --world-size 8 --num-layers 2 --hidden-size 64 --num-attention-heads 4 --vocab-size 100 "
       "--seq-length 32 --gpu-memory 0.5B"},
      {"memory_size",
       "memory --world-size 8 --num-layers 2 --hidden-size 64 --num-attention-heads 4 --vocab-size 100 "
       "--seq-length 32 --gpu-memory 2e9GB"},
      {"memory_size",
       "memory --world-size 8 --num-layers 2 --hidden-size 64 --num-attention-heads 4 --vocab-size 100 "
       "--seq-length 32 --workspace-memory nan"},
      {"out_of_memory_text",
       "memory --world-size 8 --num-layers 2 --hidden-size 64 --num-attention-heads 4 --vocab-size 100 "
       "--seq-length 32 --out-of-memory much"},
      {"out_of_memory_text",
       "memory --world-size 8 --num-layers 2 --hidden-size 64 --num-attention-heads 4 --vocab-size 100 "
       "--seq-length 32 --out-of-memory '20.00 GiB or so'"},
      {"out_of_memory_rank",
       "memory --world-size 8 --num-layers 2 --hidden-size 64 --num-attention-heads 4 --vocab-size 100 "
       "--seq-length 32 --out-of-memory '[rank8]: Tried to allocate 20.00 GiB'"},
      {"option_without_effect",
       "memory --sweep --world-size 8 --num-layers 2 --hidden-size 64 --num-attention-heads 4 --vocab-size "
       "100 "
       "--seq-length 32 --out-of-memory 20GiB"},
      {"not_a_number",
       "memory --world-size 8 --num-layers 2 --hidden-size 64 --num-attention-heads 4 --vocab-size 100 "
       "--seq-length 32 --hidden-dropout little"},
      {"recompute_unknown_module",
       "memory --world-size 8 --num-layers 2 --hidden-size 64 --num-attention-heads 4 --vocab-size 100 "
       "--seq-length 32 --recompute-granularity selective --recompute-modules core_attn,mpl"},
      {"recompute_mla",
       "memory --world-size 8 --num-layers 2 --hidden-size 64 --num-attention-heads 4 --vocab-size 100 "
       "--seq-length 32 --recompute-granularity selective --recompute-modules mla_up_proj"},
      {"distribute_saved_full",
       "memory --world-size 8 --num-layers 2 --hidden-size 64 --num-attention-heads 4 --vocab-size 100 "
       "--seq-length 32 --tensor-model-parallel-size 2 --distribute-saved-activations"},
      {"distribute_saved_tp",
       "memory --world-size 8 --num-layers 2 --hidden-size 64 --num-attention-heads 4 --vocab-size 100 "
       "--seq-length 32 --distribute-saved-activations --recompute-granularity full --recompute-method "
       "uniform "
       "--recompute-num-layers 1"},
      {"distribute_saved_with_sp",
       "memory --world-size 8 --num-layers 2 --hidden-size 64 --num-attention-heads 4 --vocab-size 100 "
       "--seq-length 32 --distribute-saved-activations --recompute-granularity full --recompute-method "
       "uniform "
       "--recompute-num-layers 1 --tensor-model-parallel-size 2 --sequence-parallel"},
      {"cp_needs_te",
       "memory --world-size 8 --num-layers 2 --hidden-size 64 --num-attention-heads 4 --vocab-size 100 "
       "--seq-length 32 --context-parallel-size 2 --transformer-impl local"},
      {"memory_not_counted",
       "memory --world-size 1 --num-layers 20000 --hidden-size 64 --num-attention-heads 4 --vocab-size 100 "
       "--seq-length 32"},
      {"memory_not_counted",
       "memory --world-size 4 --rules legacy --pipeline-model-parallel-size 4 "
       "--pipeline-model-parallel-split-rank 2 --encoder-and-decoder --num-layers 8 --hidden-size 64 "
       "--num-attention-heads 4 --vocab-size 100 --seq-length 32"},
      {"bad_choice", "groups --world-size 8 --rules megatrn"},
      {"bad_choice", "groups --world-size 8 --format xml"},
      {"scenario_missing", "groups scenarios/none.ini"},
      {"scenario_missing", "groups /"},
      {"one_scenario", "groups a.ini b.ini"},
      {"one_scenario", "list a.ini"},
      {"unknown_kind", "groups --world-size 8 --kind tq"},
      {"unknown_kind", "groups --world-size 8 --kind ''"},
      {"absent_kind", "groups --world-size 8 --kind intra-dp-cp"},
      {"absent_kind", "groups --world-size 8 --kind tp,hcp-L0"},
      {"unknown_kind", "groups --world-size 8 --kind hcp-Lfoo"},
      {"rank_outside_grid", "groups --world-size 8 --rank 8"},
      {"rank_outside_grid", "groups --world-size 8 --rank -1"},
      {"rank_outside_grid", "groups --world-size 8 --rank-offset 8 --rank 7"},
      // expectations and shapes
      {"bad_expectation", "replay --world-size 8 --expect-groups 'tp 0,1'"},
      {"bad_expectation", "replay --world-size 8 --expect-parameters 0B"},
      {"gpu_memory_without_model", "replay --world-size 8 --gpu-memory 80GB"},
      {"bad_expectation", "replay --world-size 8 --expect-groups '[0]'"},
      {"bad_expectation", "replay --world-size 8 --expect-groups 'tp [0'"},
      {"bad_expectation", "replay --world-size 8 --expect-groups 'tp [\"a\"]'"},
      {"bad_expectation", "replay --world-size 8 --expect-parameters 1.7"},
      {"bad_expectation", "replay --world-size 8 --expect-parameters 1..7B"},
      {"bad_expectation", "replay --world-size 8 --expect-parameters 1.00000000000B"},
      {"bad_expectation", "replay --world-size 8 --expect-groups 'tp [4294967296]'"},
      {"bad_expectation", "replay --world-size 8 --expect-groups 'tp [0.5]'"},
      {"bad_expectation", "replay --world-size 8 --expect-groups 'tp [true]'"},
      {"bad_expectation", "replay --world-size 8 --expect-groups 'dpp [0]'"},
      {"bad_expectation", "replay --world-size 8 --expect-refusal dense_div"},
      {"bad_expectation", "replay --world-size 8 --expect-parameters ''"},
      {"missing_option", "replay --world-size 8 --expect-parameters 1.7B"},
      {"missing_option", "replay --world-size 8 --pipeline-model-parallel-layout EtL"},
      {"too_many_parameters",
       "replay --world-size 8 --expect-parameters 1B --num-layers 43690 --hidden-size 4194304 "
       "--num-attention-heads 1 "
       "--vocab-size 16777216 --seq-length 16777216 --untie-embeddings-and-output-weights"},
      {"heads_div",
       "replay --world-size 8 --expect-parameters 1.7B --num-layers 2 --hidden-size 10 --num-attention-heads "
       "3 "
       "--vocab-size 8 --seq-length 8"},
      {"groups_div",
       "replay --world-size 8 --expect-parameters 1.7B --num-layers 2 --hidden-size 12 --num-attention-heads "
       "3 "
       "--num-query-groups 2 --vocab-size 8 --seq-length 8"},
      {"too_many_parameters",
       "replay --world-size 8 --expect-parameters 1.7B --num-layers 16777216 --hidden-size 4194304 "
       "--num-attention-heads 1 --vocab-size 8 --seq-length 8"},
      {"world_too_large_to_replay", "replay --world-size 1048577"},
      {"expert_options_without_experts",
       "replay --world-size 8 --moe-router-topk 4 --moe-aux-loss-coeff 0.5"},
      {"drop_policy_without_capacity",
       "replay --world-size 8 --num-experts 8 --moe-token-drop-policy position"},
      {"bad_choice", "replay --world-size 8 --expect perhaps"},
      {"cp_levels", "replay --world-size 8 --context-parallel-size 4 --cp-comm-type a2a+p2p"},
      {"cp_heads",
       "replay --world-size 8 --context-parallel-size 4 --cp-comm-type a2a --num-attention-heads 6"},
      {"cp_window", "replay --world-size 8 --context-parallel-size 4 --cp-comm-type p2p --window-size 128,0"},
      {"window_size", "replay --world-size 8 --window-size 128"},
      {"window_layers",
       "replay --world-size 8 --window-size 128,0 --window-attn-skip-freq [1,0] --num-layers 4"},
      {"cp_latent",
       "replay --world-size 8 --context-parallel-size 4 --cp-comm-type a2a --multi-latent-attention"},
      {"cp_comm_types",
       "replay --world-size 8 --context-parallel-size 4 --cp-comm-type p2p,a2a --num-layers 3"},
  };
  return all;
}

nlohmann::json error_of(const nlohmann::json& document) {
  return document.contains("error") ? document.at("error") : document.at("scenarios").at(0).at("error");
}

TEST(Refusals, EachByItsCodeAndInFull) {
  for (const Case& refused : cases()) {
    const test::RunResult result = test::run(std::string(refused.command_line) + " --format json");
    EXPECT_EQ(result.exit_code, 2) << refused.command_line;
    const bool bad_format = std::string(refused.command_line).find("--format xml") != std::string::npos;
    if (bad_format) continue;  // the format is given twice then; another test covers it
    const nlohmann::json error = error_of(nlohmann::json::parse(result.out));
    EXPECT_EQ(error["code"], refused.code) << refused.command_line << "\n" << error.dump();
    for (const char* field : {"option", "numbers", "rule", "hint"}) {
      EXPECT_FALSE(error[field].get<std::string>().empty()) << refused.command_line << " " << field;
    }
  }
}

/// Every byte of this text but the first two begins a document, so no byte has a label.
TEST(Refusals, ATrainingWithoutALabelProvesNothing) {
  const test::TemporaryFile lines("lines.txt", std::string(100'000, '\n'));
  const std::string line = "replay --world-size 2 --text '" + lines.path() + "' --format json";
  const test::RunResult result = test::run(line + " --eod-mask-loss");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.out.find("training_labels"), std::string::npos) << result.out;
}

TEST(Refusals, TextGoesToStandardErrorAlone) {
  for (const Case& refused : cases()) {
    const test::RunResult result = test::run(refused.command_line);
    EXPECT_EQ(result.exit_code, 2) << refused.command_line;
    // replay reports the refusals of its scenarios, and a report is a result. Everything else leaves
    // standard output empty.
    const bool replayed = std::string(refused.command_line).starts_with("replay");
    EXPECT_TRUE(result.out.empty() || replayed) << refused.command_line;
    EXPECT_NE((result.out + result.err).find(refused.code), std::string::npos) << refused.command_line << "\n"
                                                                               << result.out << result.err;
  }
}

TEST(Refusals, AllValuesThatCannotBeReadAreToldAtOnce) {
  const std::string line =
      "groups --world-size eight --tensor-model-parallel-size 0 --rules mpu --num-layers 4x";
  const std::string said = test::run(line).err;
  for (const char* option : {"--world-size", "--tensor-model-parallel-size", "--rules", "--num-layers"})
    EXPECT_NE(said.find(std::string("  where  ") + option + "\n"), std::string::npos) << option << "\n"
                                                                                      << said;
}

TEST(Refusals, AllOptionsThatDoNotExistAreToldAtOnce) {
  const std::string said = test::run("groups --world-sise 8 --tensor=2 --rules mpu --kindd").err;
  for (const char* option : {"--world-sise", "--tensor", "--kindd"})
    EXPECT_NE(said.find(std::string("  where  ") + option + "\n"), std::string::npos) << option << "\n"
                                                                                      << said;
}

TEST(Refusals, AHintDoesNotSendTheReaderInCircles) {
  const std::string both = "layers --num-layers 8 --pipeline-model-parallel-split-rank 1 --mtp-num-layers 3";
  EXPECT_EQ(test::run(both).err.find("--rules legacy\n"), std::string::npos);
  EXPECT_NE(test::run("layers --num-layers 8 --encoder-and-decoder").err.find("or --rules legacy\n"),
            std::string::npos);
  EXPECT_NE(test::run("groups --world-size 8 --kind intra-dp-cp").err.find("--kind dp-cp\n"),
            std::string::npos);
  const test::TemporaryFile file("hint.ini", "world-sise = 8\n");
  EXPECT_NE(test::run("groups " + file.path()).err.find("try    world-size, or see shardproof --help all\n"),
            std::string::npos);
}

TEST(Refusals, ASuggestionIsTheNearestName) {
  // A fault is tried whole, and at a site that takes it.
  const std::string plant = "check --case mlp --plant row_parallel_linear.";
  EXPECT_NE(
      test::run(plant + "forwrd:scale=1/tp").err.find("try    row_parallel_linear.forward:scale=1/tp\n"),
      std::string::npos);
  EXPECT_NE(test::run(plant + "forward:root=next").err.find("try    another fault of those"),
            std::string::npos);
  EXPECT_NE(test::run("groups --wrld-size 8").err.find("--world-size"), std::string::npos);
  EXPECT_NE(test::run("layer").err.find("shardproof layers"), std::string::npos);
  EXPECT_NE(test::run("groups --world-size 8 --kind tp-dpcp").err.find("--kind tp-dp-cp"), std::string::npos);
}

TEST(Refusals, ASuggestionDoesNotMislead) {
  using verify::nearest_name;
  EXPECT_EQ(nearest_name("save", {"case", "rank"}), "");
  EXPECT_EQ(nearest_name("use-distributed-optimizer", {"no-distributed-optimizer"}), "");
  EXPECT_EQ(nearest_name("distributed-optimizer", {"no-distributed-optimizer"}), "");
  EXPECT_EQ(nearest_name("bias-linear", {"disable-bias-linear"}), "");
  EXPECT_EQ(nearest_name("world-size", {"world-size"}), "");
  EXPECT_EQ(nearest_name("rmsnorm", {"LayerNorm", "RMSNorm"}), "RMSNorm");
  EXPECT_EQ(nearest_name("micro-batchsize", {"seq-length", "micro-batch-size"}), "micro-batch-size");
  EXPECT_EQ(nearest_name("tensor-parallel-size", {"data-parallel-size", "tensor-model-parallel-size"}),
            "tensor-model-parallel-size");
  EXPECT_EQ(nearest_name("published/seed-002-moe.ini", {"scenarios/published/seed-002-moe.ini"}),
            "scenarios/published/seed-002-moe.ini");
  for (const char* line :
       {"replay --use-distributed-optimizer --world-size 2", "replay --world-size 2 --save x"})
    EXPECT_NE(test::run(line).err.find("  try    shardproof replay --help\n"), std::string::npos) << line;
}

/// What a refusal tries can be followed: it names the options that were given.
TEST(Refusals, HintsAreInTheOptionsThatWereGiven) {
  const auto refused = [](const std::string& line, const std::string& option, const std::string& hint) {
    const test::RunResult result = test::run(line + " --format json");
    const nlohmann::json error = error_of(nlohmann::json::parse(result.out));
    EXPECT_EQ(error["option"], option) << line << result.out;
    EXPECT_EQ(error["hint"], hint) << line << result.out;
    EXPECT_EQ(result.out.find("--virtual-pipeline-model-parallel-size"), std::string::npos) << result.out;
    EXPECT_EQ(result.out.find("--num-microbatches"), std::string::npos) << result.out;
  };
  const std::string pipeline = " --pipeline-model-parallel-size 4 ";
  const std::string stages = "--num-virtual-stages-per-pipeline-rank 2 ";
  for (const std::string& command : {"replay --num-layers 8 " + stages,
                                     std::string("schedule --virtual-pipeline-model-parallel-size 2 ")}) {
    refused(command + "--world-size 4" + pipeline + "--global-batch-size 3",
            "--microbatch-group-size-per-virtual-pipeline-stage", "--global-batch-size 4");
    refused(command + "--world-size 8" + pipeline + "--global-batch-size 24 --micro-batch-size 2",
            "--global-batch-size", "--global-batch-size 16");
  }
  refused(
      "groups --world-size 8 --use-tp-pp-dp-mapping --pipeline-model-parallel-size 2 "
      "--context-parallel-size 2",
      "--use-tp-pp-dp-mapping", "leave --use-tp-pp-dp-mapping out");
  const std::string sentence = "leave the option out, or --pipeline-model-parallel-size 2 or more";
  refused("replay --world-size 4 --num-layers 8 " + stages, "--num-virtual-stages-per-pipeline-rank",
          sentence);
  refused("replay --world-size 4 --num-layers 8 --num-layers-per-virtual-pipeline-stage 2",
          "--num-layers-per-virtual-pipeline-stage", sentence);
  refused("layers --pipeline-model-parallel-size 2 --num-layers 8 --num-virtual-stages-per-pipeline-rank 3",
          "--num-virtual-stages-per-pipeline-rank", "a multiple of 3 layers on every rank, or fewer chunks");
}

struct ScenarioCase {
  const char* code;
  const char* text;
};

TEST(Refusals, ScenarioFiles) {
  const std::vector<ScenarioCase> bad = {
      {"unknown_option", "# Source: a test\nword-size = 8\n"},
      {"scenario_syntax", "# Source: a test\n[section]\nworld-size = 8\n"},
      {"not_in_scenario", "# Source: a test\nhelp = true\n"},
      {"scenario_syntax", "# Source: a test\nworld-size 8\n"},
      {"scenario_syntax", "# Source: a test\n[unclosed\n"},
      {"not_in_scenario", "world-size = 8\nformat = json\n"},
      {"given_twice", "world-size = 8\nworld-size = 9\n"},
      {"not_a_number", "world-size =\n"},
      {"not_a_flag", "world-size = 8\nuse-tp-pp-dp-mapping = maybe\n"},
      {"missing_option", ""},
  };
  for (const ScenarioCase& scenario : bad) {
    const test::TemporaryFile file("refused.ini", scenario.text);
    for (const char* command : {"groups", "replay"}) {
      const test::RunResult result = test::run({command, file.path(), "--format", "json"});
      EXPECT_EQ(result.exit_code, 2) << scenario.text;
      EXPECT_EQ(error_of(nlohmann::json::parse(result.out))["code"], scenario.code)
          << scenario.text << result.out;
    }
  }
  const test::TemporaryFile huge("huge.ini", std::string((1 << 20) + 1, '#'));
  EXPECT_NE(test::run({"groups", huge.path()}).err.find("scenario_syntax"), std::string::npos);
  const test::TemporaryFile binary("binary.ini", std::string("\x00\xff\x01\n\x7f=", 6));
  EXPECT_EQ(test::run({"groups", binary.path(), "--format", "json"}).exit_code, 2);
}

}  // namespace
