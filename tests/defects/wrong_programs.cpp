#include "tests/defects/wrong_programs.h"

#include <algorithm>
#include <numeric>

#include "sim/parallel/column_parallel_linear.h"
#include "sim/parallel/mappings.h"
#include "sim/parallel/mlp.h"
#include "sim/parallel/parallel_dropout.h"
#include "sim/parallel/parallel_norm.h"
#include "sim/parallel/region.h"
#include "sim/parallel/row_parallel_linear.h"
#include "sim/tensor/matmul.h"
#include "sim/tensor/rows.h"
#include "verify/cases/case_list.h"
#include "verify/cases/dropout_masks.h"
#include "verify/cases/linear_layer.h"
#include "verify/cases/token_exchange.h"
#include "verify/cases/token_layer.h"

namespace test {

namespace {

using sim::Tensor;
using verify::CaseSetting;

/// Runs the correct program. A wrong program calls it for settings in which its mistake does not exist.
void run_right(const char* name, sim::Rank& rank, const CaseSetting& s) {
  verify::find_case(name)->run(rank, s);
}

Tensor copied(const Tensor& x) { return sim::scale(x, {1, 1}); }

// ---- row_parallel_linear ----

/// The layer without flags, in pieces. A mistake replaces one of them.
struct RowPieces {
  int input_place_offset = 0;
  Tensor (*forward)(sim::Communicator& tp, const Tensor& partial, const Tensor& bias) = nullptr;
};

bool is_plain_row(const CaseSetting& s) {
  return s["sequence_parallel"] == 0 && s["input_is_parallel"] == 1 && s["skip_bias_add"] == 0 &&
         s["bias"] == 1;
}

void run_row(sim::Rank& rank, const CaseSetting& s, const RowPieces& pieces) {
  if (!is_plain_row(s)) return run_right("row_parallel_linear", rank, s);
  sim::Communicator& tp = rank.groups.get("tp");
  sim::RowParallelLinear layer(
      rank,
      {.name = "linear", .dtype = s.dtype, .input_size = s.whole("features"), .output_size = s["hidden"]});
  const Tensor whole = verify::drawn(rank, s, "input", {s.whole("tokens"), s.whole("features")});
  const int place = (tp.rank() + pieces.input_place_offset) % tp.size();
  const Tensor x = sim::columns(whole, place * s["features"], s["features"]);
  const Tensor grad = verify::drawn(rank, s, "grad_output", {s.whole("tokens"), s["hidden"]});
  const Tensor partial = sim::matmul(x, sim::transposed(layer.weight().value));
  const Tensor output = pieces.forward(tp, partial, layer.bias().value);
  verify::publish_linear(rank, s, layer, sim::own_columns(whole, tp), output, grad,
                         layer.backward({x}, grad));
}

Tensor summed(sim::Communicator& tp, const Tensor& partial) {
  return sim::kReduceFromTensorModelParallelRegion.forward(partial, tp, "row_parallel_linear.forward");
}

// ---- column_parallel_linear ----

sim::ColumnParallelLinear plain_column(sim::Rank& rank, const CaseSetting& s, const std::string& name) {
  return {rank,
          {.name = name,
           .dtype = s.dtype,
           .input_size = s["hidden"],
           .output_size = s.whole("features") * s["stride"],
           .bias = s["bias"] == 1,
           .sequence_parallel = s["sequence_parallel"] == 1}};
}

bool is_plain_column(const CaseSetting& s) { return s["gather_output"] == 0 && s["skip_bias_add"] == 0; }

Tensor own_input(sim::Rank& rank, const CaseSetting& s) {
  const Tensor whole = verify::drawn(rank, s, "input", {s.whole("tokens"), s["hidden"]});
  return s["sequence_parallel"] == 1 ? sim::own_rows(whole, rank.groups.get("tp")) : whole;
}

void run_column(sim::Rank& rank, const CaseSetting& s, const std::string& name) {
  sim::ColumnParallelLinear layer = plain_column(rank, s, name);
  const Tensor x = own_input(rank, s), grad = verify::drawn_feature_grad(rank, s);
  const auto forward = layer.forward(x);
  verify::publish_linear(rank, s, layer, x, forward.output, grad, layer.backward(forward.saved, grad));
}

// ---- mappings ----

struct Mapped {
  Tensor input, output, grad_output, grad_input;
};
void publish(sim::Rank& rank, const Mapped& mapped) {
  rank.publish("input", mapped.input);
  rank.publish("output", mapped.output);
  rank.publish("grad_output", mapped.grad_output);
  rank.publish("grad_input", mapped.grad_input);
}

Tensor whole_of(sim::Rank& rank, const CaseSetting& s, const std::string& name) {
  return verify::drawn(rank, s, name, {s.whole("tokens"), s.whole("hidden")});
}

/// Returns a term of a partial sum, drawn as the mapping cases draw it.
Tensor term_of(sim::Rank& rank, const CaseSetting& s) {
  return whole_of(rank, s, "grad_output." + std::to_string(rank.groups.get("tp").rank()));
}

// ---- all_to_all_uneven ----

using Rows = std::vector<std::int64_t>;

std::int64_t sum_of(const Rows& rows) { return std::accumulate(rows.begin(), rows.end(), std::int64_t{0}); }

/// Exchanges rows as the case does.
Tensor exchanged(sim::Rank& rank, const Tensor& rows, const Rows& send_rows, const Rows& receive_rows,
                 sim::Site site) {
  if (rank.groups.get("tp").size() == 1) return rows;
  const Tensor output = rank.device.empty(rows.dtype(), {sum_of(receive_rows), rows.shape()[1]});
  rank.groups.get("tp").all_to_all_uneven(rows, send_rows, output, receive_rows, site);
  return output;
}

/// Copies the first rows of each block of `from` to the first rows of the block of `to`.
void copy_blocks(const Tensor& from, const Rows& from_rows, const Tensor& to, const Rows& to_rows) {
  std::int64_t read = 0, written = 0;
  for (std::size_t place = 0; place < from_rows.size(); ++place) {
    const std::int64_t rows = std::min(from_rows[place], to_rows[place]);
    Tensor block = to.rows(written, written + rows);
    sim::copy(from.rows(read, read + rows), block);
    read += from_rows[place];
    written += to_rows[place];
  }
}

Rows even(Rows rows) {
  for (std::int64_t& each : rows) each -= each % 2;
  return rows;
}

// ---- parallel_dropout ----

void run_dropout(sim::Rank& rank, const CaseSetting& s, sim::Region region, bool another_pass_backward) {
  const sim::ParallelDropout layer(
      rank, {.name = "dropout", .probability = verify::dropout_of(s), .region = region});
  const auto own = [&](const char* name) {
    const Tensor whole = verify::drawn(rank, s, name, {s.whole("tokens"), s["hidden"]});
    return s["sharded"] == 1 ? sim::own_rows(whole, rank.groups.get("tp")) : whole;
  };
  const Tensor input = own("input"), grad = own("grad_output");
  const auto pass = static_cast<std::uint64_t>(s["pass"]);
  const std::uint64_t pass_backward = another_pass_backward ? pass + 1 : pass;
  publish(rank, {input, layer.forward(input, pass), grad, layer.backward(grad, pass_backward)});
}

}  // namespace

void bias_before_the_sum(sim::Rank& rank, const CaseSetting& s) {
  run_row(rank, s, {.forward = [](sim::Communicator& tp, const Tensor& partial, const Tensor& bias) {
            return summed(tp, sim::add_bias(partial, bias));
          }});
}

void input_of_the_next_rank(sim::Rank& rank, const CaseSetting& s) {
  run_row(rank, s,
          {.input_place_offset = 1,
           .forward = [](sim::Communicator& tp, const Tensor& partial, const Tensor& bias) {
             return sim::add_bias(summed(tp, partial), bias);
           }});
}

void output_over_tp(sim::Rank& rank, const CaseSetting& s) {
  run_row(rank, s, {.forward = [](sim::Communicator& tp, const Tensor& partial, const Tensor& bias) {
            return sim::scale(sim::add_bias(summed(tp, partial), bias), {1, tp.size()});
          }});
}

void reads_before_the_sum_is_there(sim::Rank& rank, const CaseSetting& s) {
  run_row(rank, s, {.forward = [](sim::Communicator& tp, const Tensor& partial, const Tensor& bias) {
            const Tensor sum = copied(partial);
            if (tp.size() == 1) return sim::add_bias(sum, bias);
            sim::Work work = tp.start_all_reduce(sum, sim::ReduceOp::sum, "row_parallel_linear.forward");
            const Tensor output = sim::add_bias(sum, bias);
            work.wait();
            return output;
          }});
}

void strided_rows_cut_in_one_piece(sim::Rank& rank, const CaseSetting& s) {
  if (!is_plain_column(s)) return run_right("column_parallel_linear", rank, s);
  run_column(rank, s, "linear");  // this layer has no stride, so its rows are one block
}

void every_rank_draws_its_own_weight(sim::Rank& rank, const CaseSetting& s) {
  const int place = rank.groups.get("tp").rank();
  if (!is_plain_column(s) || s["stride"] != 1 || place == 0)
    return run_right("column_parallel_linear", rank, s);
  run_column(rank, s, "linear.of_rank_" + std::to_string(place));
}

void gathered_rows_of_the_next_rank(sim::Rank& rank, const CaseSetting& s) {
  sim::Communicator& tp = rank.groups.get("tp");
  const bool applies = is_plain_column(s) && s["stride"] == 1 && s["sequence_parallel"] == 1 && tp.size() > 1;
  if (!applies) return run_right("column_parallel_linear", rank, s);
  sim::ColumnParallelLinear layer = plain_column(rank, s, "linear");
  const Tensor x = own_input(rank, s), grad = verify::drawn_feature_grad(rank, s);
  const Tensor output = layer.forward(x).output;
  const Tensor all = sim::gathered_rows(x, tp, "column_parallel_linear.backward_input");
  const Tensor turned = copied(all);  // every chunk moves by one place
  const std::int64_t chunk = x.shape()[0];
  for (int place = 0; place < tp.size(); ++place) {
    Tensor to = turned.rows(place * chunk, (place + 1) * chunk);
    const std::int64_t from = (place + 1) % tp.size() * chunk;
    sim::copy(all.rows(from, from + chunk), to);
  }
  sim::add_matmul(sim::transposed(grad), turned, layer.weight().main_grad);
  if (s["bias"] == 1) sim::add_column_sums(grad, layer.bias().main_grad);
  const Tensor grad_input = sim::reduce_scattered_rows(sim::matmul(grad, layer.weight().value), tp,
                                                       "column_parallel_linear.backward");
  verify::publish_linear(rank, s, layer, x, output, grad, grad_input);
}

void gather_whose_backward_sums(sim::Rank& rank, const CaseSetting& s) {
  sim::Communicator& tp = rank.groups.get("tp");
  const Tensor x = sim::own_columns(whole_of(rank, s, "input"), tp);
  const Tensor grad = whole_of(rank, s, "grad_output");
  publish(rank, {x, sim::gathered_columns(x, tp, "mapping.forward"), grad,
                 sim::reduce_scattered_columns(grad, tp, "mapping.backward")});
}

void gathered_along_the_wrong_axis(sim::Rank& rank, const CaseSetting& s) {
  sim::Communicator& tp = rank.groups.get("tp");
  const Tensor x = sim::own_columns(whole_of(rank, s, "input"), tp);
  const Tensor grad = term_of(rank, s);
  const Tensor rows = sim::gathered_rows(x, tp, "mapping.forward");
  const Tensor output = rows.reshaped({s.whole("tokens"), s.whole("hidden")});
  publish(rank, {x, output, grad, sim::reduce_scattered_columns(grad, tp, "mapping.backward")});
}

void rows_of_the_peers_for_the_own(sim::Rank& rank, const CaseSetting& s) {
  verify::run_token_exchange(
      rank, s, [&](const Tensor& rows, const Rows& send_rows, const Rows& receive_rows, sim::Site site) {
        return exchanged(rank, rows, receive_rows, send_rows, site);
      });
}

void rows_of_the_next_rank_first(sim::Rank& rank, const CaseSetting& s) {
  verify::run_token_exchange(
      rank, s, [&](const Tensor& rows, const Rows& send_rows, const Rows& receive_rows, sim::Site site) {
        const Tensor right = exchanged(rank, rows, send_rows, receive_rows, site);
        const Tensor turned = copied(right);
        const std::int64_t all = sum_of(receive_rows), first = receive_rows.front();
        Tensor begin = turned.rows(0, all - first), end = turned.rows(all - first, all);
        sim::copy(right.rows(first, all), begin);
        sim::copy(right.rows(0, first), end);
        return turned;
      });
}

void odd_rows_forgotten(sim::Rank& rank, const CaseSetting& s) {
  verify::run_token_exchange(
      rank, s, [&](const Tensor& rows, const Rows& send_rows, const Rows& receive_rows, sim::Site site) {
        const std::int64_t hidden = rows.shape()[1];
        const Tensor sent = rank.device.empty(s.dtype, {sum_of(even(send_rows)), hidden});
        copy_blocks(rows, send_rows, sent, even(send_rows));
        const Tensor received = exchanged(rank, sent, even(send_rows), even(receive_rows), site);
        const Tensor output = sim::filled(rank.device, s.dtype, {sum_of(receive_rows), hidden}, 0);
        copy_blocks(received, even(receive_rows), output, receive_rows);
        return output;
      });
}

void flag_where_none_belongs(sim::Rank& rank, const CaseSetting& s) {
  sim::ParallelNorm layer(rank, {.name = "norm",
                                 .dtype = s.dtype,
                                 .hidden_size = s["hidden"],
                                 .norm = s["layer_norm"] == 1 ? sim::Norm::layer_norm : sim::Norm::rms_norm,
                                 .sequence_parallel = true});
  verify::run_token_layer(rank, s, layer, s.whole("tokens"), s["hidden"]);
  rank.publish("weight_grad", layer.weight().main_grad);
  if (s["layer_norm"] == 1) rank.publish("bias_grad", layer.bias().main_grad);
}

void gate_and_up_swapped(sim::Rank& rank, const CaseSetting& s) {
  sim::Mlp layer(rank, {.name = "mlp",
                        .dtype = s.dtype,
                        .hidden_size = s["hidden"],
                        .ffn_hidden_size = s.whole("ffn"),
                        .activation = static_cast<sim::Activation>(s["activation"]),
                        .gated = s["gated"] == 1,
                        .bias = s["bias"] == 1,
                        .sequence_parallel = s["sequence_parallel"] == 1});
  if (s["gated"] == 1) {  // a checkpoint of [up | gate] would be loaded like this
    const Tensor weight = layer.linear_fc1().weight().value;
    const std::int64_t half = weight.shape()[0] / 2;
    const Tensor gate = copied(weight.rows(0, half));
    Tensor first = weight.rows(0, half), second = weight.rows(half, 2 * half);
    sim::copy(second, first);
    sim::copy(gate, second);
  }
  verify::run_token_layer(rank, s, layer, s.whole("tokens"), s["hidden"]);
  rank.publish("fc1.weight_grad", layer.linear_fc1().weight().main_grad);
  rank.publish("fc2.weight_grad", layer.linear_fc2().weight().main_grad);
  if (s["bias"] == 0) return;
  rank.publish("fc1.bias_grad", layer.linear_fc1().bias().main_grad);
  rank.publish("fc2.bias_grad", layer.linear_fc2().bias().main_grad);
}

void same_stream_in_sharded_region(sim::Rank& rank, const CaseSetting& s) {
  run_dropout(rank, s, sim::Region::replicated, false);
}
void streams_of_ranks_in_replicated_region(sim::Rank& rank, const CaseSetting& s) {
  run_dropout(rank, s, sim::Region::sharded, false);
}
void another_mask_backward(sim::Rank& rank, const CaseSetting& s) {
  run_dropout(rank, s, s["sharded"] == 1 ? sim::Region::sharded : sim::Region::replicated, true);
}

}  // namespace test
