// Proves that training resumed from a checkpoint gives the bits of training that never stopped, on any
// number of data-parallel ranks. A save that ends in the middle leaves the previous checkpoint whole. A
// checkpoint that was cut short, changed or written by another model is refused by every rank and
// changes nothing.

#include "sim/optimizer/checkpoint.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <limits>
#include <rapidcheck/gtest.h>
#include <set>

#include "sim/base/error.h"
#include "sim/cpu/cpu_device.h"
#include "sim/optimizer/checkpoint_index.h"
#include "sim/optimizer/safetensors.h"
#include "sim/tensor/checks.h"
#include "sim/world/simulate.h"

namespace {

using namespace sim;

/// The model that is trained. Its gradients are small whole numbers, so their sums have no rounding and
/// every number of ranks gives the same sum.
struct Model {
  std::vector<std::int64_t> sizes = {70, 1, 0, 200};
  DType dtype = DType::f32;
  std::optional<std::int64_t> bucket_size = 100;
  bool distributed_optimizer = true;
  std::int64_t samples = 12;  // samples of one step
};

class Training {
 public:
  Training(Rank& rank, const Model& model)
      : rank_(rank),
        model_(model),
        parameters_(made(rank, model)),
        data_parallel_(rank, {pointers()},
                       {.bucket_size = model.bucket_size,
                        .distributed_optimizer = model.distributed_optimizer,
                        .per_token_loss = true}),
        optimizer_(rank, data_parallel_, {.weight_decay = {1, 4}, .clip_grad = {0, 1}}) {}

  void step(std::int64_t iteration) {
    data_parallel_.zero_grads();
    const Communicator& group = rank_.groups.get("dp-cp");
    const std::int64_t own = model_.samples / group.size();
    for (std::int64_t i = 0; i < own; ++i) {
      for (Parameter& parameter : parameters_) {
        const KeyedRandom random =
            rank_.random.named(fmt::format("{} {} {}", parameter.name, iteration, group.rank() * own + i));
        std::vector<std::int32_t> whole;
        for (std::int64_t k = 0; k < parameter.value.count(); ++k)
          whole.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(k), 7)) - 3);
        const Tensor grad =
            from_host(rank_.device, DType::i32, parameter.value.shape(), std::as_bytes(std::span(whole)));
        add_to(parameter.main_grad, cast(grad, parameter.main_grad.dtype()));
        if (i + 1 == own) data_parallel_.grad_ready(parameter);
      }
    }
    data_parallel_.finish_grad_sync();
    data_parallel_.divide_grads(model_.samples);
    optimizer_.step({1, 8});
  }
  DistributedOptimizer& optimizer() { return optimizer_; }
  void publish() {
    for (const Parameter& parameter : parameters_) rank_.publish(parameter.name, parameter.value);
  }

 private:
  static std::vector<Parameter> made(Rank& rank, const Model& model) {
    std::vector<Parameter> parameters;
    for (std::size_t i = 0; i < model.sizes.size(); ++i) {
      parameters.push_back(
          make_parameter(rank, "p" + std::to_string(i), model.dtype, {1, model.sizes[i]}, {}, {}));
    }
    return parameters;
  }
  std::vector<Parameter*> pointers() {
    std::vector<Parameter*> all;
    for (Parameter& parameter : parameters_) all.push_back(&parameter);
    return all;
  }

  Rank& rank_;
  Model model_;
  std::vector<Parameter> parameters_;
  DistributedDataParallel data_parallel_;
  DistributedOptimizer optimizer_;
};

/// One stretch of training on `ranks` ranks, from iteration `from` (loaded from the store if it is not
/// 0) to iteration `to` (saved there if `saves`).
struct Stretch {
  int ranks = 1;
  std::int64_t from = 0;
  std::int64_t to = 0;
  bool saves = true;
};

WorldSpec world(int ranks, ParallelSizes sizes = {}) {
  sizes.world_size = ranks;
  WorldSpec spec = world_of(ranks);
  spec.layout = make_layout(sizes, RuleBook::megatron);
  spec.seed = 5;
  return spec;
}

RunReport run(const Model& model, const Stretch& stretch, CheckpointStore& store,
              const ParallelSizes& sizes = {}) {
  CpuDevice device;
  return simulate(world(stretch.ranks, sizes), device, [&](Rank& rank) {
    Training training(rank, model);
    std::int64_t iteration = 0;
    if (stretch.from > 0) iteration = load_checkpoint(rank, training.optimizer(), store);
    for (; iteration < stretch.to; ++iteration) training.step(iteration);
    if (stretch.saves) save_checkpoint(rank, training.optimizer(), store, iteration);
    training.publish();
  });
}

/// Returns what the ranks hold at the end. All ranks must hold the same values.
std::vector<Published> model_of(const RunReport& report) {
  EXPECT_TRUE(report.ok()) << report.failure();
  for (const RankReport& rank : report.ranks) {
    for (std::size_t i = 0; i < rank.published.size(); ++i)
      EXPECT_EQ(rank.published[i].values, report.ranks.front().published[i].values);
  }
  return report.ranks.front().published;
}

RC_GTEST_PROP(Checkpoint, GoesOnWithTheSameBitsOnAnyNumberOfRanks, ()) {
  Model model;
  model.sizes = *rc::gen::container<std::vector<std::int64_t>>(4, rc::gen::inRange<std::int64_t>(0, 300));
  model.dtype = *rc::gen::element(DType::field, DType::f32, DType::bf16, DType::f64);
  model.bucket_size = *rc::gen::element<std::int64_t>(1, 64, 200, 100'000);
  const auto ranks = rc::gen::element(1, 2, 3, 4, 6, 12);
  const int first = *ranks, second = *ranks;
  const std::int64_t all = *rc::gen::inRange(1, 5), stop = *rc::gen::inRange<std::int64_t>(1, all + 1);
  MemoryStore store;
  const auto never_stopped = model_of(run(model, {.ranks = *ranks, .to = all, .saves = false}, store));
  model.distributed_optimizer = *rc::gen::weightedElement<bool>({{4, true}, {1, false}});
  RC_ASSERT(run(model, {.ranks = first, .to = stop}, store).ok());
  model.distributed_optimizer = *rc::gen::weightedElement<bool>({{4, true}, {1, false}});
  const auto resumed = model_of(run(model, {.ranks = second, .from = stop, .to = all}, store));
  RC_ASSERT(resumed == never_stopped);
}

TEST(Checkpoint, KeepsWhatEachInstanceHasOnce) {
  MemoryStore store;
  const auto never_stopped = model_of(run({}, {.ranks = 4, .to = 3, .saves = false}, store));
  ASSERT_TRUE(run({}, {.ranks = 4, .to = 2}, store, {.num_distributed_optimizer_instances = 2}).ok());
  EXPECT_EQ(
      model_of(run({}, {.ranks = 6, .from = 2, .to = 3}, store, {.num_distributed_optimizer_instances = 3})),
      never_stopped);
}

// ---- A save that ends in the middle ----

/// A store that ends the program after `operations_left` operations. If the next operation is a write,
/// it is done in part first.
class EndingStore : public MemoryStore {
 public:
  std::int64_t operations_left = 1'000'000;
  double part = 0;       // the share of the last write that is done
  bool run_ends = true;  // if false, the store refuses instead, as a failing file system does

  void write(const std::string& name, std::string_view bytes) override {
    if (operations_left == 0)
      MemoryStore::write(name,
                         bytes.substr(0, static_cast<std::size_t>(part * static_cast<double>(bytes.size()))));
    count();
    MemoryStore::write(name, bytes);
  }
  void replace(const std::string& name, std::string_view bytes) override {
    count();
    MemoryStore::replace(name, bytes);
  }
  void remove(const std::string& name) override {
    count();
    MemoryStore::remove(name);
  }

 private:
  void count() {
    if (operations_left == 0 && !run_ends)
      refuse({.code = "checkpoint_store", .option = "", .numbers = "", .rule = "", .hint = ""});
    if (operations_left == 0) throw std::runtime_error("the program ends here");
    --operations_left;
  }
};

RC_GTEST_PROP(Checkpoint, ASaveThatEndsInTheMiddleLeavesAWholeOne, ()) {
  const int ranks = *rc::gen::element(1, 2, 3), before = *rc::gen::element(1, 2, 4);
  EndingStore store;
  const auto first = model_of(run({}, {.ranks = before, .to = 1}, store));
  const auto second = model_of(run({}, {.ranks = ranks, .from = 1, .to = 2, .saves = false}, store));
  store.operations_left = *rc::gen::inRange(0, 2 * ranks + 6);
  store.part = *rc::gen::element(0, 1, 2) / 2.0;
  const RunReport ended = run({}, {.ranks = ranks, .from = 1, .to = 2}, store);
  store.operations_left = 1'000'000;
  const std::int64_t iteration = index_of(*store.read("index.json")).iteration;
  RC_ASSERT(iteration == 1 || iteration == 2);
  RC_ASSERT(!ended.ok() || iteration == 2);
  const auto loaded = model_of(run({}, {.ranks = 2, .from = 1, .to = 0, .saves = false}, store));
  RC_ASSERT(loaded == (iteration == 1 ? first : second));
  // The next save removes what the unfinished save left.
  model_of(run({}, {.ranks = 3, .from = 1, .to = 3}, store));
  RC_ASSERT(store.names().size() == index_of(*store.read("index.json")).files.size() + 1);
}

TEST(Checkpoint, NothingIsRemovedBeforeTheIndexIsThere) {
  EndingStore store;
  model_of(run({}, {.ranks = 2, .to = 1}, store));
  const auto shards = store.names();
  store.operations_left = 2;  // the two shards, but not the index
  EXPECT_FALSE(run({}, {.ranks = 2, .from = 1, .to = 2}, store).ok());
  for (const std::string& name : shards) EXPECT_TRUE(store.read(name).has_value()) << name;
  EXPECT_EQ(store.names().size(), shards.size() + 2);
  // Once the index is written, the new checkpoint counts, even though the old files cannot be removed.
  store.operations_left = 3;
  store.run_ends = false;
  EXPECT_TRUE(run({}, {.ranks = 2, .from = 1, .to = 2}, store).ok());
  EXPECT_EQ(index_of(*store.read("index.json")).iteration, 2);
}

// ---- What is refused ----

/// Loads on `ranks` ranks from a store whose files may have been changed. Returns the code of the
/// refusal, or "" if the checkpoint is loaded. Either all ranks are refused or none. Ranks that only
/// hear of the refusal get checkpoint_elsewhere, and the others say why.
std::string refusal_of_load(const Model& model, int ranks, CheckpointStore& store,
                            const ParallelSizes& sizes = {}) {
  CpuDevice device;
  const WorldSpec spec = world(ranks, sizes);
  std::vector<std::string> codes(static_cast<std::size_t>(ranks));
  bool is_changed = false;
  const RunReport report = simulate(spec, device, [&](Rank& rank) {
    Training training(rank, model);
    std::vector<std::vector<std::byte>> before, after;
    for (const auto& piece : training.optimizer().pieces()) before.push_back(host_bytes(piece.main));
    try {
      load_checkpoint(rank, training.optimizer(), store);
    } catch (const Error& error) {
      codes[static_cast<std::size_t>(rank.id)] = error.refusal().code;
    }
    for (const auto& piece : training.optimizer().pieces()) after.push_back(host_bytes(piece.main));
    if (!codes[static_cast<std::size_t>(rank.id)].empty() && before != after) is_changed = true;
  });
  EXPECT_TRUE(report.ok()) << report.failure();
  EXPECT_FALSE(is_changed) << "loaded in part";
  std::string code;
  const bool all = std::none_of(codes.begin(), codes.end(), [](const auto& c) { return c.empty(); });
  const bool none = std::all_of(codes.begin(), codes.end(), [](const auto& c) { return c.empty(); });
  EXPECT_TRUE(all || none) << "refused by some ranks only";
  for (const std::string& one : codes) {
    if (one != "checkpoint_elsewhere") code = one;
  }
  return code;
}

RC_GTEST_PROP(Checkpoint, AnyChangedByteAndAnyMissingEndIsRefused, ()) {
  MemoryStore store;
  Model model;
  model.dtype = *rc::gen::element(DType::f32, DType::bf16);
  model_of(run(model, {.ranks = *rc::gen::element(1, 2, 3), .to = 1}, store));
  const std::string name = *rc::gen::elementOf(store.names());
  std::string bytes = *store.read(name);
  const auto at = *rc::gen::inRange<std::size_t>(0, bytes.size());
  const int damage = *rc::gen::inRange(0, 3);
  if (damage == 0) bytes[at] = static_cast<char>(bytes[at] ^ *rc::gen::inRange(1, 256));
  if (damage == 1) bytes.resize(at);
  store.replace(name, bytes);
  if (damage == 2) store.remove(name);
  const std::string code = refusal_of_load(model, *rc::gen::element(1, 2, 4), store);
  const std::string missing = damage == 2 ? "checkpoint_missing" : "checkpoint_index";
  RC_ASSERT(code == (name == "index.json" ? missing : "checkpoint_shard"));
}

TEST(Checkpoint, OfAnotherModelIsRefused) {
  MemoryStore store;
  EXPECT_EQ(refusal_of_load({}, 2, store), "checkpoint_missing");
  model_of(run({}, {.ranks = 2, .to = 1}, store));
  EXPECT_EQ(refusal_of_load({}, 2, store), "");
  EXPECT_EQ(refusal_of_load({.sizes = {70, 1, 0}}, 2, store), "checkpoint_model");
  EXPECT_EQ(refusal_of_load({.sizes = {70, 1, 0, 200, 3}}, 2, store), "checkpoint_model");
  EXPECT_EQ(refusal_of_load({.sizes = {70, 1, 0, 201}}, 2, store), "checkpoint_model");
  EXPECT_EQ(refusal_of_load({.sizes = {70, 1, 2, 200}}, 2, store), "checkpoint_model");
  EXPECT_EQ(refusal_of_load({.dtype = DType::f64}, 2, store), "checkpoint_model");
}

TEST(Checkpoint, LoadsOnOtherModelParallelSizes) {
  const ParallelSizes one, tp{.tensor_model_parallel_size = 2}, ep{.expert_model_parallel_size = 2},
      etp{.tensor_model_parallel_size = 2, .expert_tensor_parallel_size = 1};
  MemoryStore unused;
  const auto never_stopped = model_of(run({}, {.ranks = 4, .to = 2, .saves = false}, unused));
  for (const auto& saved : {one, tp, ep, etp}) {
    for (const auto& loaded : {one, tp, ep, etp}) {
      MemoryStore store;
      ASSERT_TRUE(run({}, {.ranks = 4, .to = 1}, store, saved).ok());
      EXPECT_EQ(model_of(run({}, {.ranks = 4, .from = 1, .to = 2}, store, loaded)), never_stopped);
    }
  }
}

TEST(Checkpoint, TensorsOfTwoStagesHaveTwoNames) {
  MemoryStore store;
  const RunReport report = run({}, {.ranks = 4, .to = 1}, store, {.pipeline_model_parallel_size = 2});
  EXPECT_TRUE(report.failure().starts_with("checkpoint_names: rank 0: p0/exp_avg: element 0 is in shard-"))
      << report.failure();
}

/// Runs `body` with an optimizer for a single parameter of the given shape, dtype and kind.
void with_one(Rank& rank, const Shape& shape, DType dtype, bool is_expert, const LossScaleConfig& scale,
              const std::function<void(DistributedOptimizer&)>& body) {
  Parameter a = make_parameter(rank, "a", dtype, shape, {}, {});
  a.attributes.allreduce = !is_expert;
  DistributedDataParallel data_parallel(rank, {{&a}}, {});
  DistributedOptimizer optimizer(rank, data_parallel, {.loss_scale = scale});
  body(optimizer);
}

TEST(Checkpoint, OfAnotherShapeDtypeOrLossScaleIsRefused) {
  MemoryStore store;
  CpuDevice device;
  const LossScaleConfig scaled{.initial_power = 16, .growth_interval = 100};
  const auto save = [&](const Shape& shape, DType dtype, bool is_expert, const LossScaleConfig& scale) {
    const RunReport report = simulate(world(2), device, [&](Rank& rank) {
      with_one(rank, shape, dtype, is_expert, scale,
               [&](DistributedOptimizer& optimizer) { save_checkpoint(rank, optimizer, store, 0); });
    });
    ASSERT_TRUE(report.ok()) << report.failure();
  };
  const auto code = [&](const Shape& shape, DType dtype, bool is_expert, const LossScaleConfig& scale) {
    std::string refused;
    simulate(world(2), device, [&](Rank& rank) {
      with_one(rank, shape, dtype, is_expert, scale, [&](DistributedOptimizer& optimizer) {
        try {
          load_checkpoint(rank, optimizer, store);
        } catch (const Error& error) {
          if (rank.id == 0) refused = error.refusal().code;
        }
      });
    });
    return refused;
  };
  save({4, 3}, DType::f32, false, scaled);
  EXPECT_EQ(code({4, 3}, DType::f32, false, scaled), "");
  EXPECT_EQ(code({3, 4}, DType::f32, false, scaled), "checkpoint_model");
  EXPECT_EQ(code({12}, DType::f32, false, scaled), "checkpoint_model");
  EXPECT_EQ(code({4, 3}, DType::bf16, false, scaled), "checkpoint_model");
  EXPECT_EQ(code({4, 3}, DType::f32, true, scaled), "");  // an expert in the buffers of dense parameters
  EXPECT_EQ(code({4, 3}, DType::f32, false, {}), "checkpoint_model");
  EXPECT_EQ(code({4, 3}, DType::f32, false, {.initial_power = 17, .least_power = 17, .growth_interval = 9}),
            "checkpoint_model");
}

TEST(Checkpoint, IsOfTheExpertsOfEachPlaceWhateverTheOrder) {
  const auto with_experts = [](Rank& rank,
                               const std::function<void(Parameter&, DistributedOptimizer&)>& body) {
    const auto at = rank.layout.expert.coordinates_of(rank.id);
    Parameter a = make_parameter(rank, "a" + std::to_string(at[Axis::ep]), DType::f32, {12},
                                 {.dim = 0, .place = at[Axis::tp], .size = 2}, {});
    a.attributes.allreduce = false;
    DistributedDataParallel data_parallel(rank, {{&a}}, {});
    DistributedOptimizer optimizer(rank, data_parallel, {});
    body(a, optimizer);
  };
  const auto value_of = [](const Rank& rank) {
    const auto at = rank.layout.expert.coordinates_of(rank.id);
    return at[Axis::tp] + 10.0 * at[Axis::ep];
  };
  MemoryStore store;
  CpuDevice device;
  ParallelSizes sizes{
      .tensor_model_parallel_size = 2, .expert_model_parallel_size = 2, .expert_tensor_parallel_size = 2};
  for (const char* order : {"tp-cp-ep-dp-pp", "ep-cp-tp-dp-pp"}) {
    sizes.order = order;
    const RunReport report = simulate(world(4, sizes), device, [&](Rank& rank) {
      with_experts(rank, [&](Parameter& a, DistributedOptimizer& optimizer) {
        if (std::string(order).starts_with("tp")) {
          for (auto& piece : optimizer.pieces()) fill(piece.main, value_of(rank));
          save_checkpoint(rank, optimizer, store, 0);
          return;
        }
        load_checkpoint(rank, optimizer, store);
        rank.publish("loaded", a.value);
        rank.publish("expected", filled(rank.device, DType::f32, {6}, value_of(rank)));
      });
    });
    ASSERT_TRUE(report.ok()) << report.failure();
    for (int rank = 0; rank < 4 && report.find(rank, "loaded") != nullptr; ++rank)
      EXPECT_EQ(report.find(rank, "loaded")->values, report.find(rank, "expected")->values);
  }
}

/// Changes the index in a way its writer never would, and stores it again with its hash.
template <typename Change>
void change_index(MemoryStore& store, const Change& change) {
  CheckpointIndex index = index_of(*store.read("index.json"));
  change(index);
  store.replace("index.json", text_of(index));
}

TEST(Checkpoint, WithATensorMissingIsRefused) {
  MemoryStore store;
  model_of(run({}, {.ranks = 2, .to = 1}, store));
  const CheckpointIndex whole = index_of(*store.read("index.json"));
  change_index(store, [](CheckpointIndex& index) { index.tensors.erase("p3/exp_avg"); });
  EXPECT_EQ(refusal_of_load({}, 2, store), "checkpoint_model");
  // The tensor is in the index, but not in its file.
  store.replace("index.json", text_of(whole));
  change_index(store, [&](CheckpointIndex& index) {
    auto& pieces = index.tensors.at("p3/exp_avg").pieces;
    const std::string name = pieces.front().file;
    Safetensors shard = decoded(*store.read(name), name);
    shard.tensors.erase("p3/exp_avg@0");
    const std::string bytes = encoded(shard);
    store.replace(name, bytes);
    index.files[name] = {static_cast<std::int64_t>(bytes.size()), hash_of(bytes)};
  });
  EXPECT_EQ(refusal_of_load({}, 2, store), "checkpoint_shard");
  // Pieces with a gap do not form an index, so its text is refused.
  CheckpointIndex gap = whole;
  gap.tensors.at("p3/main").pieces.front().range.begin = 1;
  EXPECT_THROW(text_of(gap), Error);
}

TEST(Checkpoint, OfAnotherVersionIsRefused) {
  MemoryStore store;
  model_of(run({}, {.ranks = 1, .to = 1}, store));
  const auto with_body = [](std::string body) { return body + fmt::format("{:016x}\n", hash_of(body)); };
  for (const char* body :
       {"{\"format\": \"shardproof-checkpoint\", \"version\": 1}\n", "{}\n", "[1, 2]\n", "\n",
        "{\"format\": \"shardproof-checkpoint\", \"version\": 2}\n",
        "{\"format\": \"shardproof-checkpoint\", \"version\": 2, \"generation\": \"x\"}\n"}) {
    store.replace("index.json", with_body(body));
    EXPECT_EQ(refusal_of_load({}, 2, store), "checkpoint_index") << body;
  }
}

TEST(Checkpoint, WithNumbersThatAreNoneIsRefused) {
  MemoryStore store;
  model_of(run({}, {.ranks = 1, .to = 1}, store));
  const std::string text = *store.read("index.json");
  const std::string body = text.substr(0, text.rfind('\n', text.size() - 2) + 1);
  const std::pair<std::string, std::string> changes[] = {
      {"\"steps\": 1", "\"steps\": 9223372036854775807"},
      {"\"steps\": 1", "\"steps\": -1"},
      {"\"iteration\": 1", "\"iteration\": 1.5"},
      {"\"iteration\": 1", "\"iteration\": 1e300"},
      {"\"generation\": 0", "\"generation\": 99999999999"},
      {"\"power\": 0", "\"power\": 4294967299"},
      {"\"parts\": 1", "\"parts\": 0"},
      {"\"hash\": \"", "\"hash\": \"0x"},
      {"shard-000000-rank00000.safetensors", "../shard-000000-rank00000.safetensors"}};
  for (const auto& [from, to] : changes) {
    std::string changed = body;
    for (std::size_t at = changed.find(from); at != std::string::npos;
         at = changed.find(from, at + to.size()))
      changed.replace(at, from.size(), to);
    ASSERT_NE(changed, body) << from;
    store.replace("index.json", changed + fmt::format("{:016x}\n", hash_of(changed)));
    EXPECT_EQ(refusal_of_load({}, 1, store), "checkpoint_index") << to;
  }
}

TEST(Checkpoint, IsRefusedOnAllRanksWhereOneCannotSave) {
  class Refusing : public MemoryStore {
   public:
    std::string name;
    void write(const std::string& to, std::string_view bytes) override {
      check(to);
      MemoryStore::write(to, bytes);
    }
    void replace(const std::string& to, std::string_view bytes) override {
      check(to);
      MemoryStore::replace(to, bytes);
    }

   private:
    void check(const std::string& to) const {
      if (to == name)
        refuse({.code = "checkpoint_store", .option = to, .numbers = "", .rule = "", .hint = ""});
    }
  };
  for (const char* name : {"shard-000000-rank00001.safetensors", "index.json"}) {
    Refusing store;
    store.name = name;
    CpuDevice device;
    std::vector<std::string> codes(3);
    const RunReport report = simulate(world(3), device, [&](Rank& rank) {
      Training training(rank, {});
      try {
        save_checkpoint(rank, training.optimizer(), store, 0);
      } catch (const Error& error) {
        codes[static_cast<std::size_t>(rank.id)] = error.refusal().code;
      }
    });
    EXPECT_TRUE(report.ok()) << report.failure();
    const bool is_index = std::string(name) == "index.json";
    EXPECT_EQ(codes[is_index ? 0 : 1], "checkpoint_store");
    EXPECT_EQ(codes[2], "checkpoint_elsewhere");
  }
}

/// Returns the failure of a save at an iteration over a checkpoint of iteration 1, and checks that the store
/// is as it was if there is one.
std::string failure_of_save_at(std::int64_t iteration) {
  MemoryStore store;
  model_of(run({}, {.ranks = 2, .to = 1}, store));
  std::map<std::string, std::string> before;
  for (const std::string& name : store.names()) before[name] = *store.read(name);
  CpuDevice device;
  const RunReport report = simulate(world(2), device, [&](Rank& rank) {
    Training training(rank, {});
    save_checkpoint(rank, training.optimizer(), store, iteration);
  });
  if (report.ok()) {
    EXPECT_EQ(refusal_of_load({}, 2, store), "");
    return "";
  }
  std::map<std::string, std::string> after;
  for (const std::string& name : store.names()) after[name] = *store.read(name);
  EXPECT_EQ(after, before);
  return report.failure();
}

TEST(Checkpoint, AnIterationThatNoLoadTakesIsRefusedBeforeAnythingIsWritten) {
  EXPECT_EQ(failure_of_save_at(0), "");
  EXPECT_EQ(failure_of_save_at(kMostCheckpointCount), "");
  for (const std::int64_t iteration :
       {std::int64_t{-1}, kMostCheckpointCount + 1, std::numeric_limits<std::int64_t>::min()}) {
    const std::string failure = failure_of_save_at(iteration);
    EXPECT_TRUE(failure.starts_with("checkpoint_index: ranks 0, 1: index.json: iteration ")) << failure;
    EXPECT_NE(failure.find(std::to_string(iteration)), std::string::npos) << failure;
  }
}

TEST(Checkpoint, TheRankThatHasAReasonComesFirst) {
  for (const int damaged : {0, 1}) {  // the ranks of three that own elements
    MemoryStore store;
    model_of(run({}, {.ranks = 3, .to = 1}, store));
    const std::string name = shard_name(0, damaged);
    std::string bytes = *store.read(name);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    store.replace(name, bytes);
    const RunReport report = run({}, {.ranks = 3, .from = 1, .to = 2}, store);
    ASSERT_EQ(report.findings.size(), 3U);
    const std::string first = fmt::format("rank {}: {}: the hash of the file is ", damaged, name);
    EXPECT_EQ(report.findings[0].code, "checkpoint_shard");
    EXPECT_TRUE(report.findings[0].sentence.starts_with(first)) << report.findings[0].sentence;
    for (const std::size_t other : {1U, 2U}) {
      EXPECT_EQ(report.findings[other].code, "checkpoint_elsewhere");
      EXPECT_NE(report.findings[other].sentence.find(fmt::format("rank {} refused the checkpoint", damaged)),
                std::string::npos)
          << report.findings[other].sentence;
    }
  }
}

TEST(Checkpoint, IsSavedByTheRanksThatRun) {
  MemoryStore store;
  CpuDevice device;
  WorldSpec spec = world(4, {.local_world_size = 2, .rank_offset = 1});
  const RunReport report = simulate(spec, device, [&](Rank& rank) {
    Training training(rank, {});
    save_checkpoint(rank, training.optimizer(), store, 7);
    if (load_checkpoint(rank, training.optimizer(), store) != 7)
      throw std::runtime_error("another iteration");
  });
  EXPECT_TRUE(report.ok()) << report.failure();
}

TEST(Checkpoint, KeepsWhatIsNotItsOwn) {
  MemoryStore store;
  store.write("shard-of-mine.txt", "mine");
  model_of(run({}, {.ranks = 2, .to = 1}, store));
  EXPECT_TRUE(store.read("shard-of-mine.txt").has_value());
}

TEST(Checkpoint, WaitsForParametersThatAreUnderWay) {
  MemoryStore store;
  CpuDevice device;
  const RunReport report = simulate(world(2), device, [&](Rank& rank) {
    Parameter a = make_parameter(rank, "a", DType::f32, {1, 200}, {}, {});
    DistributedDataParallel data_parallel(rank, {{&a}}, {});
    DistributedOptimizer optimizer(rank, data_parallel, {.overlap_param_gather = true});
    data_parallel.finish_grad_sync();
    optimizer.step({1, 8});
    optimizer.start_param_gather();
    save_checkpoint(rank, optimizer, store, 1);
    optimizer.start_param_gather();
    load_checkpoint(rank, optimizer, store);
  });
  EXPECT_TRUE(report.ok()) << report.failure();
}

TEST(Checkpoint, NamesAreOfOneParameterEachAndUtf8) {
  CpuDevice device;
  MemoryStore store;
  const RunReport named = simulate(world(1), device, [&](Rank& rank) {
    Parameter a = make_parameter(rank, "a\xff", DType::f32, {1, 3}, {}, {});
    DistributedDataParallel data_parallel(rank, {{&a}}, {});
    DistributedOptimizer optimizer(rank, data_parallel, {});
    save_checkpoint(rank, optimizer, store, 0);
  });
  EXPECT_NE(named.failure().find("checkpoint_names"), std::string::npos) << named.failure();
  const RunReport report = simulate(world_of(2), device, [&](Rank& rank) {
    Parameter a = make_parameter(rank, "a", DType::f32, {1, 3}, {}, {}),
              b = make_parameter(rank, "a", DType::f32, {1, 3}, {}, {});
    DistributedDataParallel data_parallel(rank, {{&a, &b}}, {});
    DistributedOptimizer optimizer(rank, data_parallel, {});
    save_checkpoint(rank, optimizer, store, 0);
  });
  EXPECT_NE(report.failure().find("checkpoint_names"), std::string::npos) << report.failure();
  EXPECT_TRUE(store.names().empty());
}

TEST(Checkpoint, TheScaleOfLossesGoesOn) {
  CpuDevice device;
  MemoryStore store;
  const auto scale_after = [&](bool stops) {
    double scale = 0;
    const RunReport report = simulate(world_of(2), device, [&](Rank& rank) {
      Parameter a = make_parameter(rank, "a", DType::f32, {1, 3}, {}, {});
      DistributedDataParallel data_parallel(rank, {{&a}}, {});
      const OptimizerConfig config{.loss_scale = {.initial_power = 3, .growth_interval = 3, .hysteresis = 3}};
      DistributedOptimizer first(rank, data_parallel, config), second(rank, data_parallel, config);
      const auto steps = [&](DistributedOptimizer& optimizer, int count, bool are_finite = true) {
        for (int i = 0; i < count; ++i) {
          data_parallel.zero_grads();
          if (!are_finite) fill(a.main_grad, std::numeric_limits<double>::infinity());
          data_parallel.finish_grad_sync();
          optimizer.step({1, 8});
        }
      };
      steps(first, 1, false);  // a bad step, which is forgiven
      if (stops) save_checkpoint(rank, first, store, 2);
      if (stops) load_checkpoint(rank, second, store);
      if (stops && second.steps() != 0) throw std::runtime_error("a skipped step is none");
      steps(stops ? second : first, 1, false);
      scale = static_cast<double>((stops ? second : first).loss_scale().numerator);
    });
    EXPECT_TRUE(report.ok()) << report.failure();
    return scale;
  };
  EXPECT_EQ(scale_after(false), 8);
  EXPECT_EQ(scale_after(true), 8);
}

}  // namespace
