#include "tests/defects/wrong_training.h"

#include <functional>

#include "verify/cases/data_parallel_plan.h"

namespace test {

namespace {

using sim::Tensor;
using verify::CaseSetting;
using verify::DataParallelPlan;
using verify::Training;

/// What a wrong training does differently from the case.
struct Mistakes {
  void (*parameters)(std::vector<sim::Parameter>& parameters) = nullptr;
  void (*config)(const DataParallelPlan& plan, int rank, sim::DataParallelConfig& config) = nullptr;
  void (*optimizer)(sim::OptimizerConfig& config) = nullptr;
  void (*after_load)(Training& training, Training& fresh) = nullptr;
  bool saves_before_last_step = false;
  void (*zero)(Training& training) = [](Training& training) { training.data_parallel.zero_grads(); };
  bool ready_in_first_microbatch = false;
  bool waits = true;
  bool last_gather = true;
  bool drops_last_microbatch = false;
  bool steps_each_microbatch = false;
  std::function<void(Training& training, std::int64_t step)> after_sync = nullptr;
  std::function<void(Training& training)> after_step = nullptr;
};

void divide(Training& training, std::int64_t step) {
  if (training.plan.per_token()) training.data_parallel.divide_grads(training.plan.tokens_of(step));
}

Training made(sim::Rank& rank, const DataParallelPlan& plan, const Mistakes& mistakes) {
  std::vector<sim::Parameter> parameters = Training::make_parameters(rank, plan);
  if (mistakes.parameters != nullptr) mistakes.parameters(parameters);
  sim::DataParallelConfig config = plan.data_parallel();
  if (mistakes.config != nullptr) mistakes.config(plan, rank.id, config);
  sim::OptimizerConfig optimizer = plan.optimizer();
  if (mistakes.optimizer != nullptr) mistakes.optimizer(optimizer);
  return {rank, plan, std::move(parameters), config, optimizer};
}

void load(Training& training, const Mistakes& mistakes) {
  if (training.plan.first_step() == 0) return;
  sim::load_checkpoint(training.rank, training.optimizer, *training.plan.s.stretch->store);
  if (mistakes.after_load == nullptr) return;
  Training fresh(training.rank, training.plan);
  mistakes.after_load(training, fresh);
}

void save(Training& training) {
  const auto& stretch = training.plan.s.stretch;
  if (stretch && stretch->saves)
    sim::save_checkpoint(training.rank, training.optimizer, *stretch->store, stretch->last);
}

void train_step(Training& training, std::int64_t step, const Mistakes& mistakes) {
  const CaseSetting& s = training.plan.s;
  const std::int64_t microbatches = s["microbatches"] - (mistakes.drops_last_microbatch ? 1 : 0);
  mistakes.zero(training);
  for (std::int64_t microbatch = 0; microbatch < microbatches; ++microbatch) {
    if (microbatch == 0 && mistakes.waits) training.wait_for_parameters();
    if (microbatch == 0 && step > 0) training.publish_before(step);
    training.backward(step, microbatch,
                      mistakes.ready_in_first_microbatch ? microbatch == 0 : microbatch + 1 == microbatches);
    if (mistakes.steps_each_microbatch && microbatch + 1 < microbatches) training.update();
  }
  training.data_parallel.finish_grad_sync();
  if (mistakes.after_sync == nullptr) {
    divide(training, step);
  } else {
    mistakes.after_sync(training, step);
  }
  const bool is_last = step + 1 == training.plan.end_step();
  if (is_last && mistakes.saves_before_last_step) save(training);
  const bool stepped = training.update();
  if (mistakes.after_step != nullptr) mistakes.after_step(training);
  const bool gathers = stepped && training.plan.overlaps() && (mistakes.last_gather || !is_last);
  if (gathers) training.optimizer.start_param_gather();
}

void run(sim::Rank& rank, const CaseSetting& s, const Mistakes& mistakes) {
  const DataParallelPlan plan{s};
  Training training = made(rank, plan, mistakes);
  load(training, mistakes);
  for (std::int64_t step = plan.first_step(); step < plan.end_step(); ++step)
    train_step(training, step, mistakes);
  training.optimizer.finish_param_gather();
  if (!mistakes.saves_before_last_step || plan.first_step() == plan.end_step()) save(training);
  training.publish();
}

}  // namespace

void gradients_not_zeroed(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.zero = [](Training& training) {
        // The readiness of gradients is reset, but the gradients of this rank's pieces stay.
        std::vector<Tensor> kept;
        for (const auto& piece : training.optimizer.pieces()) kept.push_back(sim::scale(piece.grad, {1, 1}));
        training.data_parallel.zero_grads();
        for (std::size_t i = 0; i < kept.size(); ++i) sim::copy(kept[i], training.optimizer.pieces()[i].grad);
      }});
}

void reduced_before_the_last_gradient(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.ready_in_first_microbatch = true});
}

void mean_of_means(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.after_sync = [](Training& training, std::int64_t step) {
        if (!training.plan.per_token()) return;
        // This treats every sample as if it had the mean number of tokens.
        training.data_parallel.divide_grads(training.plan.samples() * training.plan.tokens(step, 0));
      }});
}

void tokens_of_the_own_rank(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.after_sync = [](Training& training, std::int64_t step) {
        if (!training.plan.per_token()) return;
        const int place = training.rank.groups.get("dp-cp").rank();
        std::int64_t tokens = 0;
        for (std::int64_t i = 0; i < training.plan.s["microbatches"]; ++i)
          tokens += training.plan.tokens(step, place * training.plan.s["microbatches"] + i);
        training.data_parallel.divide_grads(tokens);
      }});
}

void not_divided_by_tokens(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.after_sync = [](Training&, std::int64_t) {}});
}

void divided_by_microbatches(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.after_sync = [](Training& training, std::int64_t step) {
        divide(training, step);
        training.data_parallel.divide_grads(training.plan.s["microbatches"]);
      }});
}

void parameters_not_waited_for(sim::Rank& rank, const CaseSetting& s) { run(rank, s, {.waits = false}); }

void last_gather_forgotten(sim::Rank& rank, const CaseSetting& s) { run(rank, s, {.last_gather = false}); }

void optimizer_holds_other_parameters(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.after_step = [](Training& training) {
        // The model was moved after the optimizer was made, so it reads copies that are never stepped.
        for (sim::Parameter& parameter : training.parameters)
          parameter.value = sim::scale(parameter.value, {1, 1});
      }});
}

void last_microbatch_dropped(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.drops_last_microbatch = s["microbatches"] > 1});
}

void stepped_once_a_microbatch(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.steps_each_microbatch = s["overlap"] == 0});
}

void main_parameter_from_rounded_value(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.after_step = [](Training& training) {
        for (auto& piece : training.optimizer.pieces()) {
          // A checkpoint of only the model's parameters would be loaded like this. Here every value is
          // halved.
          sim::copy(sim::scale(piece.main, {1, 2}), piece.main);
        }
      }});
}

void moments_forgotten(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.after_step = [](Training& training) {
        for (auto& piece : training.optimizer.pieces()) sim::fill(piece.exp_avg, 0);
      }});
}

// ---- Buffers and groups ----

void experts_reduced_as_dense(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.parameters = [](std::vector<sim::Parameter>& parameters) {
        for (sim::Parameter& parameter : parameters) parameter.attributes.allreduce = true;
      }});
}

void experts_divided_by_their_replicas(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.after_sync = [](Training& training, std::int64_t step) {
        divide(training, step);
        for (auto& piece : training.optimizer.pieces()) {
          if (!piece.parameter->attributes.allreduce)
            sim::scale_in_place(piece.grad, {training.plan.ep(), 1});
        }
      }});
}

void experts_not_divided_by_dp(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.after_sync = [](Training& training, std::int64_t step) {
        divide(training, step);
        if (training.plan.per_token()) return;
        for (auto& piece : training.optimizer.pieces()) {
          if (!piece.parameter->attributes.allreduce)
            sim::scale_in_place(piece.grad, {training.plan.s.group_size, 1});
        }
      }});
}

void experts_clipped_by_their_own_norm(sim::Rank& rank, const CaseSetting& s) {
  // Each rank has all gradients, so that no call is needed for either norm.
  const DataParallelPlan planned{s};
  const bool applies = !planned.distributed() && s["experts"] > 0 && planned.ep() == 1 && s["clip"] == 1 &&
                       !planned.is_scaled();
  if (!applies) return run(rank, s, {});
  Tensor norm;  // the squares of all gradients, which are logged
  run(rank, s,
      {.optimizer =
           [](sim::OptimizerConfig& config) {
             config.clip_grad = {0, 1};
             config.log_grad_norm = true;
           },
       .after_sync =
           [&](Training& training, std::int64_t step) {
             divide(training, step);
             norm = sim::filled(training.rank.device, training.data_parallel.grad_dtype(), {1}, 0);
             for (const bool is_dense : {true, false}) {
               Tensor squares = sim::scale(norm, {0, 1});
               for (const auto& piece : training.optimizer.pieces())
                 if (piece.parameter->attributes.allreduce == is_dense)
                   sim::add_sum_of_squares(piece.grad, squares);
               for (auto& piece : training.optimizer.pieces())
                 if (piece.parameter->attributes.allreduce == is_dense)
                   sim::scale_by(piece.grad, sim::clip_factor(squares, verify::kClip));
               sim::add_to(norm, squares);
             }
           },
       .after_step =
           [&](Training& training) {
             Tensor logged = training.optimizer.grad_norm_squared();
             sim::copy(norm, logged);
           }});
}

void padding_differs_by_rank(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.config = [](const DataParallelPlan&, int id, sim::DataParallelConfig& config) {
        config.pad_for_high_nccl_busbw = id == 0;
      }});
}

void not_sharded_where_not_divisible(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.config = [](const DataParallelPlan& plan, int, sim::DataParallelConfig& config) {
        if (plan.own_size(0) % plan.s.group_size != 0) config.distributed_optimizer = false;
      }});
}

void unscaled_by_the_next_scale(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.after_sync = [](Training& training, std::int64_t step) {
        divide(training, step);
        const bool grows =
            training.plan.is_scaled() && training.optimizer.loss_scaling().state().good_steps == 1;
        if (grows) training.data_parallel.divide_grads(2);
      }});
}

// ---- Checkpoints ----

void only_the_last_bucket_saved(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.after_load = [](Training& training, Training& fresh) {
        auto& loaded = training.optimizer.pieces();
        const auto& initial = fresh.optimizer.pieces();
        for (std::size_t i = 0; i < loaded.size(); ++i) {
          const auto place = training.data_parallel.place_of(*loaded[i].parameter);
          const int last = training.data_parallel.parts()[place->part].buffer.buckets() - 1;
          if (place->bucket != last) sim::copy(initial[i].exp_avg, loaded[i].exp_avg);
        }
      }});
}

void moments_not_loaded(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.after_load = [](Training& training, Training&) {
        for (auto& piece : training.optimizer.pieces()) sim::fill(piece.exp_avg_sq, 0);
      }});
}

void step_counter_not_loaded(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.after_load = [](Training& training, Training&) {
        training.optimizer.restore(0, training.optimizer.loss_scaling().state());
      }});
}

void weights_active_after_the_next_step(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.after_load = [](Training& training, Training& fresh) {
        // The part that this rank owns is loaded, but the rest of the model has its initial values.
        std::vector<Tensor> kept;
        for (auto& piece : training.optimizer.pieces()) kept.push_back(sim::scale(piece.value, {1, 1}));
        for (std::size_t i = 0; i < training.parameters.size(); ++i)
          sim::copy(fresh.parameters[i].value, training.parameters[i].value);
        for (std::size_t i = 0; i < kept.size(); ++i)
          sim::copy(kept[i], training.optimizer.pieces()[i].value);
      }});
}

void slices_off_by_one(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.after_load = [](Training& training, Training&) {
        for (auto& piece : training.optimizer.pieces()) {
          const std::int64_t last = piece.exp_avg.count() - 1;
          const Tensor later = sim::scale(piece.exp_avg.rows(1, last + 1), {1, 1});
          Tensor to = piece.exp_avg.rows(0, last);
          sim::copy(later, to);
        }
      }});
}

void one_rank_keeps_its_stale_shard(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.after_load = [](Training& training, Training& fresh) {
        if (training.rank.id != 0) return;
        for (std::size_t i = 0; i < training.optimizer.pieces().size(); ++i)
          sim::copy(fresh.optimizer.pieces()[i].exp_avg, training.optimizer.pieces()[i].exp_avg);
      }});
}

void saved_before_the_update(sim::Rank& rank, const CaseSetting& s) {
  run(rank, s, {.saves_before_last_step = true});
}

}  // namespace test
