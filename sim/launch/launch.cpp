#include "sim/launch/launch.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string_view>
#include <unistd.h>
#include <utility>

#include "sim/base/content_hash.h"
#include "sim/base/error.h"
#include "sim/launch/host_list.h"

namespace sim {

namespace {

constexpr std::int64_t kMostRanks = std::int64_t{1} << 20;
constexpr std::int64_t kMostPort = 65535;
/// Slurm's batch, interactive and extern steps have numbers from this one on.
constexpr std::int64_t kFirstOtherStep = 0xfffffff0;
constexpr const char* kThisMachine = "127.0.0.1";
constexpr const char* kHint =
    "start all processes with one launcher (torchrun, mpirun or srun), or give --rank and --world-size";

/// A value, and the name of the option or variable that holds it.
struct Named {
  std::string name;
  std::string text;
};
using Value = std::optional<Named>;

/// A number, and the name of the option or variable that holds it.
struct Number {
  std::string name;
  std::int64_t value = 0;
};

/// The rank and the sizes that one source gives for this process.
struct Identity {
  std::string launcher;
  Number rank;
  Number world_size;
  std::optional<std::pair<Number, Number>> local;
};

[[noreturn]] void refuse_launch(const char* code, std::string option, std::string numbers, std::string rule,
                                const char* hint = kHint) {
  refuse({.code = code,
          .option = std::move(option),
          .numbers = std::move(numbers),
          .rule = std::move(rule),
          .hint = hint});
}

Number number_of(const Named& value, std::int64_t least, std::int64_t most) {
  std::int64_t number = 0;
  const char* end = value.text.data() + value.text.size();
  const auto [stop, error] = std::from_chars(value.text.data(), end, number);
  const bool is_number = stop == end && !value.text.empty() && error != std::errc::invalid_argument;
  if (!is_number) {
    refuse_launch("launch_number", value.name, fmt::format("'{}'", value.text),
                  "the value is a whole number in digits");
  }
  if (error == std::errc::result_out_of_range || number < least || number > most) {
    refuse_launch("launch_range", value.name, value.text,
                  fmt::format("the value is from {} to {}", least, most));
  }
  return {value.name, number};
}

/// Reads variables of an environment.
class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  Value operator()(const std::string& name) const {
    const auto found = environment_.find(name);
    if (found == environment_.end()) return std::nullopt;
    return Named{name, found->second};
  }
  bool has(const std::string& name) const { return environment_.contains(name); }

 private:
  const Environment& environment_;
};

/// The four values of one source: rank, world size, local rank and local world size. The first two must be
/// present together or not at all, and so must the last two, which may not be present without the first two.
struct Four {
  std::string launcher;
  std::array<std::string, 4> names;  // the options or variables of the values, for messages
  std::array<Value, 4> values;
  bool tells_local_size = true;  // if false, a local rank may be present alone, and is then not used
};

[[noreturn]] void refuse_missing(const Four& four, std::size_t set, std::size_t missing) {
  refuse_launch("launch_partly_set", four.names[missing],
                fmt::format("not set, while {} is {}", four.values[set]->name, four.values[set]->text),
                "a launcher sets a rank and a world size, and a local rank only with a local world size");
}

std::optional<Identity> identity_of(const Four& four) {
  const auto& [rank, world, local_rank, local_world] = four.values;
  for (std::size_t i = 0; i < four.values.size(); ++i) {
    if (!four.values[i]) continue;
    if (!rank) refuse_missing(four, i, 0);
    if (!world) refuse_missing(four, i, 1);
    if (i == 3 && !local_rank) refuse_missing(four, 3, 2);
    if (i == 2 && !local_world && four.tells_local_size) refuse_missing(four, 2, 3);
  }
  if (!rank) return std::nullopt;
  Identity identity{four.launcher, number_of(*rank, 0, kMostRanks), number_of(*world, 1, kMostRanks), {}};
  if (local_rank && local_world) {
    identity.local = {number_of(*local_rank, 0, kMostRanks), number_of(*local_world, 1, kMostRanks)};
  } else if (local_rank) {
    number_of(*local_rank, 0, kMostRanks);  // The value is not used, but it is still checked.
  }
  return identity;
}

// ---- the sources ------------------------------------------------------------------------------------------

std::optional<Identity> explicit_identity(const ExplicitLaunch& given) {
  const std::array<const std::optional<std::string>*, 4> texts = {&given.rank, &given.world_size,
                                                                  &given.local_rank, &given.local_world_size};
  Four four{"explicit", {"--rank", "--world-size", "--local-rank", "--local-world-size"}, {}};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (*texts[i]) four.values[i] = Named{four.names[i], **texts[i]};
  }
  return identity_of(four);
}

Four from(const Reader& read, std::string launcher, const std::array<std::string, 4>& names) {
  return {std::move(launcher), names, {read(names[0]), read(names[1]), read(names[2]), read(names[3])}};
}

std::optional<Identity> torchrun(const Reader& read) {
  const bool is_torchrun = read.has("TORCHELASTIC_RUN_ID");
  return identity_of(from(read, is_torchrun ? "torchrun" : "RANK and WORLD_SIZE",
                          {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}));
}

std::optional<Identity> open_mpi(const Reader& read) {
  return identity_of(from(read, "Open MPI",
                          {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                           "OMPI_COMM_WORLD_LOCAL_SIZE"}));
}

std::optional<Identity> mvapich(const Reader& read) {
  Four four = from(read, "MVAPICH2",
                   {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
                    "MV2_COMM_WORLD_LOCAL_SIZE"});
  four.tells_local_size = false;  // Not every version of MVAPICH2 sets the local size.
  return identity_of(four);
}

std::optional<Identity> mpich(const Reader& read) {
  Four four =
      from(read, "MPICH or Intel MPI", {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"});
  // Under PMIx the rank has another name. PMIx has no variable for the size, so without PMI_SIZE this is no
  // world.
  if (!four.values[0] && four.values[1]) four.values[0] = read("PMIX_RANK");
  // srun --mpi=pmi2 and others may set neither of the two. That is no error: this launcher is then absent.
  if (!four.values[0] && !four.values[1]) return std::nullopt;
  return identity_of(four);
}

/// Whether srun started this process as a task of a step.
bool is_slurm_task(const Reader& read) {
  const Value step = read("SLURM_STEP_ID");
  if (!step || !read.has("SLURM_PROCID")) return false;
  return number_of(*step, 0, std::int64_t{1} << 32).value < kFirstOtherStep;
}

std::optional<std::pair<Number, Number>> slurm_local(const Reader& read) {
  const Value local = read("SLURM_LOCALID");
  const Value node = read("SLURM_NODEID");
  const Value per_node = read("SLURM_STEP_TASKS_PER_NODE");
  if (!local || !node || !per_node) return std::nullopt;
  const std::vector<int> tasks = expand_tasks_per_node(per_node->name, per_node->text);
  const Number index = number_of(*node, 0, kMostRanks);
  if (index.value >= static_cast<std::int64_t>(tasks.size())) {
    refuse_launch("launch_range", node->name,
                  fmt::format("{}, while {} has {} nodes", index.value, per_node->name, tasks.size()),
                  "the value is the number of a node of the step");
  }
  return std::pair{number_of(*local, 0, kMostRanks),
                   Number{per_node->name, tasks[static_cast<std::size_t>(index.value)]}};
}

std::optional<Identity> slurm(const Reader& read) {
  if (!is_slurm_task(read)) return std::nullopt;
  // SLURM_NTASKS counts the tasks of the allocation, and a step may use only a part of it.
  const char* size = read.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  Four four{"Slurm", {"SLURM_PROCID", size, "", ""}, {read("SLURM_PROCID"), read(size), {}, {}}};
  std::optional<Identity> identity = identity_of(four);
  if (identity) identity->local = slurm_local(read);
  return identity;
}

// ---- checks of the sources --------------------------------------------------------------------------------

void require_places(const Identity& identity) {
  const auto below = [](const Number& rank, const Number& size) {
    if (rank.value < size.value) return;
    refuse_launch("launch_range", rank.name,
                  fmt::format("{}, while {} is {}", rank.value, size.name, size.value),
                  "ranks count from 0 and end below the size");
  };
  below(identity.rank, identity.world_size);
  if (!identity.local) return;
  const auto& [rank, size] = *identity.local;
  below(rank, size);
  if (size.value > identity.world_size.value) {
    refuse_launch(
        "launch_range", size.name,
        fmt::format("{}, while {} is {}", size.value, identity.world_size.name, identity.world_size.value),
        "a node has at most all ranks");
  }
}

void require_agree(const Identity& a, const Identity& b) {
  const auto same = [&](const Number& x, const Number& y) {
    if (x.value == y.value) return;
    refuse_launch(
        "launch_contradiction", x.name,
        fmt::format("{} ({}), while {} is {} ({})", x.value, a.launcher, y.name, y.value, b.launcher),
        "one process has one rank in one world",
        "unset the variables of the launcher that did not start it, or give --rank and --world-size");
  };
  same(a.rank, b.rank);
  same(a.world_size, b.world_size);
}

/// Whether a PMI identity only repeats that of a Slurm step. srun's PMI plugins (--mpi=pmi2) set Hydra's
/// variables for the rank and the size, and no others. Slurm's own variables say more about the process.
bool speaks_of_step(const Identity& pmi, const Identity& step) {
  return pmi.launcher == "MPICH or Intel MPI" && !pmi.local && step.launcher == "Slurm" &&
         pmi.rank.value == step.rank.value && pmi.world_size.value == step.world_size.value;
}

/// Returns the identity that the innermost launcher gives, which is the one that started this process.
std::optional<Identity> environment_identity(const Reader& read) {
  std::vector<Identity> found;
  for (const auto source : {torchrun, open_mpi, mpich, mvapich, slurm}) {
    std::optional<Identity> identity = source(read);
    if (!identity) continue;
    require_places(*identity);
    found.push_back(std::move(*identity));
  }
  if (found.empty()) return std::nullopt;
  const Identity last = found.back();  // Slurm's identity, if there is one
  std::erase_if(found, [&](const Identity& identity) { return speaks_of_step(identity, last); });
  const Identity& first = found.front();
  // Any other launcher may have started torchrun's agents, one on each node, and srun may have started the
  // processes of an MPI launcher. The variables of such an outer launcher do not describe this process.
  // Neither do those of a Slurm step with one task, in which a user started another launcher by hand.
  const bool is_nested = first.launcher == "torchrun";
  for (std::size_t i = 1; i < found.size() && !is_nested; ++i) {
    const bool is_outer = found[i].launcher == "Slurm" &&
                          (first.launcher != "RANK and WORLD_SIZE" || found[i].world_size.value == 1);
    if (!is_outer) require_agree(first, found[i]);
  }
  return first;
}

// ---- the address of the world -----------------------------------------------------------------------------

void require_address(const Named& address) {
  constexpr std::size_t kLongest = 253;  // the longest name in the DNS, in characters
  const auto is_plain = [](char c) { return c > ' ' && c <= '~'; };
  if (!address.text.empty() && address.text.size() <= kLongest &&
      std::all_of(address.text.begin(), address.text.end(), is_plain)) {
    return;
  }
  refuse_launch("launch_address", address.name, fmt::format("'{}'", address.text),
                "the value is a host name or an address of at most 253 characters without blanks",
                "--master-addr with the name of the node of rank 0");
}

void find_address(const ExplicitLaunch& given, const Reader& read, Launch& launch) {
  Value address;
  if (given.master_addr) {
    address = Named{"--master-addr", *given.master_addr};
  } else if (read.has("MASTER_ADDR")) {
    address = read("MASTER_ADDR");
  } else if (launch.launcher == "Slurm" && read.has("SLURM_STEP_NODELIST")) {
    // SLURM_LAUNCH_NODE_IPADDR does not serve, because srun may have run on a login node. Rank 0 is on the
    // first node of the step.
    const Value nodes = read("SLURM_STEP_NODELIST");
    address = Named{nodes->name, expand_host_list(nodes->name, nodes->text).front()};
  }
  if (address) {
    require_address(*address);
    launch.master_addr = address->text;
    launch.read.push_back(address->name);
    return;
  }
  const bool is_one_machine =
      launch.world_size == 1 || (launch.local && launch.local->world_size == launch.world_size);
  if (!is_one_machine) {
    refuse_launch("launch_partly_set", "MASTER_ADDR",
                  fmt::format("not set, while rank {} of {} ({}) has to meet others", launch.rank,
                              launch.world_size, launch.launcher),
                  "ranks that may be on several nodes need the address of the node of rank 0",
                  "--master-addr with the name of the node of rank 0, the same on all ranks");
  }
  launch.master_addr = kThisMachine;
}

void find_port(const ExplicitLaunch& given, const Reader& read, Launch& launch) {
  // Jobs use ports 20,000 to 29,999, which lie below the ephemeral ports of the system.
  constexpr std::int64_t kFirstJobPort = 20'000;
  constexpr std::int64_t kJobPorts = 10'000;
  // The distance between steps is a prime, because jobs that run at the same time have consecutive numbers.
  constexpr std::int64_t kBetweenSteps = 1'009;
  Number port{"", kDefaultPort};
  if (given.master_port) {
    port = number_of({"--master-port", *given.master_port}, 0, kMostRanks);
  } else if (read.has("MASTER_PORT")) {
    port = number_of(*read("MASTER_PORT"), 0, kMostRanks);
    // torchrun's agent has its own store at MASTER_PORT.
    const Value agent = read("TORCHELASTIC_USE_AGENT_STORE");
    if (agent && agent->text == "True") {
      launch.read.push_back(agent->name);
      ++port.value;
    }
  } else if (launch.launcher == "Slurm" && read.has("SLURM_JOB_ID")) {
    // Two jobs on one node, or two steps of one job, must not meet each other.
    const Number job = number_of(*read("SLURM_JOB_ID"), 0, std::int64_t{1} << 32);
    const Number step = number_of(*read("SLURM_STEP_ID"), 0, std::int64_t{1} << 32);
    launch.read.push_back(job.name);
    port = {step.name, kFirstJobPort + (job.value + kBetweenSteps * step.value) % kJobPorts};
  } else if (const Value job = read("PMIX_NAMESPACE"); launch.launcher == "Open MPI" && job) {
    ContentHash hash;
    hash.add(std::string_view(job->text));
    port = {job->name,
            kFirstJobPort + static_cast<std::int64_t>(hash.value() % static_cast<std::uint64_t>(kJobPorts))};
  }
  if (port.value < 1 || port.value > kMostPort) {
    refuse_launch("launch_range", port.name, fmt::format("port {}", port.value), "a port is from 1 to 65535",
                  "--master-port with a port that is free on the node of rank 0");
  }
  launch.master_port = static_cast<int>(port.value);
  if (!port.name.empty()) launch.read.push_back(port.name);
}

}  // namespace

Environment environment_of_process() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

Launch detect_launch(const ExplicitLaunch& given, const Environment& environment) {
  const Reader read(environment);
  std::optional<Identity> identity = explicit_identity(given);
  if (identity) {
    require_places(*identity);
  } else {
    identity = environment_identity(read);
  }
  Launch launch;
  launch.launcher = "none";
  if (identity) {
    launch.launcher = identity->launcher;
    launch.rank = static_cast<int>(identity->rank.value);
    launch.world_size = static_cast<int>(identity->world_size.value);
    launch.read = {identity->rank.name, identity->world_size.name};
    if (identity->local) {
      const auto& [rank, size] = *identity->local;
      launch.local = LocalPlace{static_cast<int>(rank.value), static_cast<int>(size.value)};
      launch.read.push_back(rank.name);
      launch.read.push_back(size.name);
    }
  }
  if (launch.world_size == 1 && !launch.local) launch.local = LocalPlace{};
  find_address(given, read, launch);
  find_port(given, read, launch);
  return launch;
}

std::string text_of(const Launch& launch) {
  const std::string local =
      launch.local ? fmt::format(", local rank {} of {}", launch.local->rank, launch.local->world_size) : "";
  const std::string source =
      launch.launcher == "none" ? "no launcher found" : fmt::format("told by {}", launch.launcher);
  const std::string read = launch.read.empty() ? "" : fmt::format(" (read {})", fmt::join(launch.read, ", "));
  const std::string meets =
      launch.world_size == 1 ? ""
                             : fmt::format("; meets at {} port {}", launch.master_addr, launch.master_port);
  return fmt::format("rank {} of {}{}: {}{}{}", launch.rank, launch.world_size, local, source, read, meets);
}

}  // namespace sim
