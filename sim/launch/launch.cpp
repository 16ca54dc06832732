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

namespace sim {

namespace {

/// A list, from whose beginning its parts are taken.
struct List {
  const std::string& variable;
  const std::string& whole;
  std::string_view rest = whole;

  void require(bool holds, const char* what) const {
    if (holds) return;
    refuse({.code = "host_list",
            .option = variable,
            .numbers = fmt::format("'{}': {}", whole, what),
            .rule = "the list has the form of Slurm: hosts like gpu[01-03,7],login1, tasks like 4(x2),3",
            .hint = "unset the variable and give --master-addr, or start with srun, which sets it"});
  }
  bool takes(char c) {
    const bool has = rest.starts_with(c);
    if (has) rest.remove_prefix(1);
    return has;
  }
  std::string take(const char* characters, bool are_wanted) {
    const std::size_t end = are_wanted ? rest.find_first_not_of(characters) : rest.find_first_of(characters);
    const std::string taken(rest.substr(0, end));
    rest.remove_prefix(taken.size());
    return taken;
  }
  std::string take_number() {
    const std::string number = take("0123456789", true);
    require(!number.empty() && number.size() <= 9, "a number of one to nine digits is missing");
    return number;
  }
};

/// Takes what is left of a bracket after its opening sign. Returns the first number in it.
std::string take_bracket(List& list) {
  std::string first;
  do {
    const std::string from = list.take_number();
    if (first.empty()) first = from;
    list.require(!list.takes('-') || std::stoi(list.take_number()) >= std::stoi(from), "a range descends");
  } while (list.takes(','));
  list.require(list.takes(']'), "a bracket does not end after a number");
  return first;
}

std::string take_host(List& list) {
  std::string host = list.take(",[]", false);
  while (list.takes('[')) {
    host += take_bracket(list);
    host += list.take(",[]", false);
  }
  list.require(!host.empty(), "a host has no name");
  return host;
}

}  // namespace

std::string first_host(const std::string& variable, const std::string& text) {
  List list{variable, text};
  std::string first = take_host(list);
  while (list.takes(',')) take_host(list);
  list.require(list.rest.empty(), "a closing bracket has no opening bracket");
  return first;
}

std::vector<int> expand_tasks_per_node(const std::string& variable, const std::string& text) {
  constexpr std::size_t kMostNodes = std::size_t{1} << 20;
  List list{variable, text};
  std::vector<int> tasks;
  do {
    const int each = std::stoi(list.take_number());
    int nodes = 1;
    if (list.takes('(')) {
      list.require(list.takes('x'), "a bracket without x");
      nodes = std::stoi(list.take_number());
      list.require(list.takes(')'), "a bracket does not end after a number");
    }
    list.require(tasks.size() + static_cast<std::size_t>(nodes) <= kMostNodes, "it has more than 2^20 nodes");
    tasks.insert(tasks.end(), static_cast<std::size_t>(nodes), each);
  } while (list.takes(','));
  list.require(list.rest.empty(), "a number of tasks is followed by something else");
  return tasks;
}

namespace {

using std::string_literals::operator""s;
constexpr std::int64_t kMostRanks = std::int64_t{1} << 20;
constexpr std::int64_t kMostSteps = std::int64_t{1} << 32;  // and jobs

/// The names in which a launcher tells the rank, the world size, the local rank and the local world size.
struct Launcher {
  std::string name;
  std::array<std::string, 4> names;
};

/// The command line decides first, and then the innermost launcher.
const std::vector<Launcher>& launchers() {
  static const std::vector<Launcher> table = {
      {"explicit", {"--rank", "--world-size", "--local-rank", "--local-world-size"}},
      {"RANK and WORLD_SIZE", {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}},
      {"Open MPI",
       {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE"}},
      {"MPICH or Intel MPI", {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}},
      {"MVAPICH2",
       {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
        "MV2_COMM_WORLD_LOCAL_SIZE"}},
      {"Slurm", {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "", ""}}};
  return table;
}

void require_launch(bool holds, const char* code, const std::string& option, const std::string& numbers,
                    const std::string& rule,
                    const char* hint =
                        "start all processes with one launcher (torchrun, mpirun or srun), or "
                        "give --rank and --world-size") {
  if (!holds) refuse({.code = code, .option = option, .numbers = numbers, .rule = rule, .hint = hint});
}

std::int64_t number_in(const Environment& all, const std::string& name, std::int64_t least,
                       std::int64_t most) {
  const std::string& text = all.at(name);
  const char* const end = text.data() + text.size();
  std::int64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  require_launch(stop == end && error != std::errc::invalid_argument, "launch_number", name, "'" + text + "'",
                 "the value is a whole number in digits");
  require_launch(error == std::errc() && least <= number && number <= most, "launch_range", name, text,
                 fmt::format("the value is from {} to {}", least, most));
  return number;
}

/// Refuses a set of variables of which one is missing that another one needs.
void require_whole(const Environment& all, const Launcher& launcher) {
  const auto& names = launcher.names;
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (const std::size_t needed : {std::size_t{0}, std::size_t{1}, i ^ 1U}) {
      const bool is_optional = needed == 3 && launcher.name == "MVAPICH2";  // some versions do not set it
      if (!all.contains(names[i]) || all.contains(names[needed]) || is_optional) continue;
      require_launch(
          false, "launch_partly_set", names[needed],
          fmt::format("not set, while {} is {}", names[i], all.at(names[i])),
          "a launcher sets a rank and a world size, and a local rank only with a local world size");
    }
  }
}

/// Whether srun started this process as a task of a step. Batch scripts and interactive shells have steps
/// with the last numbers.
bool is_slurm_task(const Environment& all) {
  constexpr std::int64_t kOthers = 16;
  return all.contains("SLURM_STEP_ID") && all.contains("SLURM_PROCID") &&
         number_in(all, "SLURM_STEP_ID", 0, kMostSteps) < kMostSteps - kOthers;
}

/// Sets the local place of a task of Slurm, if it has all variables that tell it.
void find_slurm_place(const Environment& all, Launch& launch) {
  const std::string name = "SLURM_STEP_TASKS_PER_NODE";
  if (!all.contains("SLURM_LOCALID") || !all.contains("SLURM_NODEID") || !all.contains(name)) return;
  const std::vector<int> tasks = expand_tasks_per_node(name, all.at(name));
  const std::int64_t node = number_in(all, "SLURM_NODEID", 0, kMostRanks);
  require_launch(node < std::ssize(tasks), "launch_range", "SLURM_NODEID",
                 fmt::format("{}, while {} has {} nodes", node, name, tasks.size()),
                 "the value is the number of a node of the step");
  launch.local = {static_cast<int>(number_in(all, "SLURM_LOCALID", 0, kMostRanks)),
                  tasks[static_cast<std::size_t>(node)]};
  launch.read.insert(launch.read.end(), {"SLURM_LOCALID", name});
}

void require_places(const Launch& launch) {
  const auto require = [&](bool holds, std::size_t name, int value, std::size_t of, int size,
                           const char* rule) {
    require_launch(holds, "launch_range", launch.read[name],
                   fmt::format("{}, while {} is {}", value, launch.read[of], size), rule);
  };
  const char* const ranks = "ranks count from 0 and end below the size";
  require(launch.rank < launch.world_size, 0, launch.rank, 1, launch.world_size, ranks);
  if (!launch.local) return;
  const auto [rank, size] = *launch.local;
  require(rank < size, 2, rank, 3, size, ranks);
  require(size <= launch.world_size, 3, size, 1, launch.world_size, "a node has at most all ranks");
}

/// Returns what one launcher tells; nothing if it did not start this process.
std::optional<Launch> launch_by(Launcher launcher, const Environment& all) {
  auto& [rank, size, local, local_size] = launcher.names;
  if (launcher.name == "Slurm" && !is_slurm_task(all)) return std::nullopt;
  // SLURM_NTASKS counts the tasks of the allocation, and a step may use only a part of it.
  if (launcher.name == "Slurm" && !all.contains(size)) size = "SLURM_NTASKS";
  // PMIx has another name for the rank and none for the size, and srun --mpi=pmi2 may set neither.
  if (launcher.name == "MPICH or Intel MPI" && !all.contains(rank)) {
    if (!all.contains(size)) return std::nullopt;
    if (all.contains("PMIX_RANK")) rank = "PMIX_RANK";
  }
  if (rank == "RANK" && all.contains("TORCHELASTIC_RUN_ID")) launcher.name = "torchrun";
  require_whole(all, launcher);
  if (!all.contains(rank)) return std::nullopt;
  const auto number = [&](const std::string& name, int least) {
    return static_cast<int>(number_in(all, name, least, kMostRanks));
  };
  Launch launch{.launcher = launcher.name,
                .rank = number(rank, 0),
                .world_size = number(size, 1),
                .read = {rank, size}};
  if (all.contains(local)) number(local, 0);  // MVAPICH2 may set it alone
  if (all.contains(local_size)) {
    launch.local = {number(local, 0), number(local_size, 1)};
    launch.read = {rank, size, local, local_size};
  }
  if (launcher.name == "Slurm") find_slurm_place(all, launch);
  require_places(launch);
  return launch;
}

/// Whether a launcher of the outside, which started the one that started this process, may differ from it.
/// srun may have started the launcher of an MPI, and a user may start any launcher in a step of one task.
bool is_outer(const Launch& outer, const Launch& inner) {
  return inner.launcher == "torchrun" ||  // any launcher may start its agents, one on each node
         (outer.launcher == "Slurm" && (inner.launcher != "RANK and WORLD_SIZE" || outer.world_size == 1));
}

/// Whether variables of PMI only repeat a step of Slurm: its plugin (--mpi=pmi2) sets the rank and the size.
bool repeats(const Launch& pmi, const Launch& step) {
  return pmi.launcher == "MPICH or Intel MPI" && !pmi.local && step.launcher == "Slurm" &&
         pmi.rank == step.rank && pmi.world_size == step.world_size;
}

/// Returns what the command line or the innermost launcher tells.
Launch innermost(const Environment& all) {
  std::vector<Launch> found;
  for (const Launcher& launcher : launchers()) {
    if (std::optional<Launch> launch = launch_by(launcher, all)) found.push_back(std::move(*launch));
    if (!found.empty() && found[0].launcher == "explicit") return found[0];
  }
  if (found.empty()) return {.launcher = "none"};
  const Launch last = found.back();
  std::erase_if(found, [&](const Launch& launch) { return repeats(launch, last); });
  const Launch& inner = found.front();
  for (const Launch& other : found) {
    const auto require_same = [&](int own, int its, std::size_t name) {
      require_launch(
          own == its || is_outer(other, inner), "launch_contradiction", inner.read[name],
          fmt::format("{} ({}), while {} is {} ({})", own, inner.launcher, other.read[name], its,
                      other.launcher),
          "one process has one rank in one world",
          "unset the variables of the launcher that did not start it, or give --rank and --world-size");
    };
    require_same(inner.rank, other.rank, 0);
    require_same(inner.world_size, other.world_size, 1);
  }
  return inner;
}

void find_address(const Environment& all, Launch& launch) {
  const std::string nodes = launch.launcher == "Slurm" ? "SLURM_STEP_NODELIST" : "";
  for (const std::string& name : {"--master-addr"s, "MASTER_ADDR"s, nodes}) {
    if (!all.contains(name)) continue;
    // Rank 0 is on the first node of the step. srun itself may have run on a login node.
    launch.master_addr = name == nodes ? first_host(name, all.at(name)) : all.at(name);
    const auto is_plain = [](char c) { return c > ' ' && c <= '~'; };
    require_launch(!launch.master_addr.empty() && launch.master_addr.size() <= 253 &&
                       std::all_of(launch.master_addr.begin(), launch.master_addr.end(), is_plain),
                   "launch_address", name, "'" + launch.master_addr + "'",
                   "the value is a host name or an address of at most 253 characters without blanks",
                   "--master-addr with the name of the node of rank 0");
    launch.read.push_back(name);
    return;
  }
  const bool is_one_machine = launch.local && launch.local->world_size == launch.world_size;
  require_launch(is_one_machine, "launch_partly_set", "MASTER_ADDR",
                 fmt::format("not set, while rank {} of {} ({}) has to meet others", launch.rank,
                             launch.world_size, launch.launcher),
                 "ranks that may be on several nodes need the address of the node of rank 0",
                 "--master-addr with the name of the node of rank 0, the same on all ranks");
  launch.master_addr = "127.0.0.1";
}

/// A port of a job lies below the ephemeral ports of the system.
std::int64_t port_of_job(std::uint64_t number) { return 20'000 + static_cast<std::int64_t>(number % 10'000); }

void find_port(const Environment& all, Launch& launch) {
  constexpr std::int64_t kBetweenSteps = 1'009;  // a prime, because jobs of one time have consecutive numbers
  const std::string agent = "TORCHELASTIC_USE_AGENT_STORE", job = "SLURM_JOB_ID", step = "SLURM_STEP_ID",
                    pmix = "PMIX_NAMESPACE";
  std::int64_t port = kDefaultPort;
  std::vector<std::string> read;
  if (all.contains("--master-port")) {
    read = {"--master-port"};
    port = number_in(all, "--master-port", 0, kMostRanks);
  } else if (all.contains("MASTER_PORT")) {
    const bool is_taken = all.contains(agent) && all.at(agent) == "True";  // by the store of torchrun's agent
    if (is_taken) read.push_back(agent);
    read.push_back("MASTER_PORT");
    port = number_in(all, "MASTER_PORT", 0, kMostRanks) + (is_taken ? 1 : 0);
  } else if (launch.launcher == "Slurm" && all.contains(job)) {
    read = {job, step};
    port = port_of_job(static_cast<std::uint64_t>(number_in(all, job, 0, kMostSteps) +
                                                  kBetweenSteps * number_in(all, step, 0, kMostSteps)));
  } else if (launch.launcher == "Open MPI" && all.contains(pmix)) {
    read = {pmix};
    ContentHash hash;
    hash.add(std::string_view(all.at(pmix)));
    port = port_of_job(hash.value());
  }
  launch.read.insert(launch.read.end(), read.begin(), read.end());
  require_launch(1 <= port && port <= 65535, "launch_range", launch.read.empty() ? "" : launch.read.back(),
                 fmt::format("port {}", port), "a port is from 1 to 65535",
                 "--master-port with a port that is free on the node of rank 0");
  launch.master_port = static_cast<int>(port);
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

Launch detect_launch(const Environment& options, const Environment& environment) {
  Environment all = options;
  all.insert(environment.begin(), environment.end());
  Launch launch = innermost(all);
  if (launch.world_size == 1 && !launch.local) launch.local = LocalPlace{};
  find_address(all, launch);
  find_port(all, launch);
  return launch;
}

std::string text_of(const Launch& launch) {
  const std::string local =
      launch.local ? fmt::format(", local rank {} of {}", launch.local->rank, launch.local->world_size) : "";
  const std::string source =
      launch.launcher == "none" ? "no launcher found" : fmt::format("from {}", launch.launcher);
  const std::string read = launch.read.empty() ? "" : fmt::format(" (read {})", fmt::join(launch.read, ", "));
  const std::string meets =
      launch.world_size == 1 ? ""
                             : fmt::format("; meets at {} port {}", launch.master_addr, launch.master_port);
  return fmt::format("rank {} of {}{}: {}{}{}", launch.rank, launch.world_size, local, source, read, meets);
}

}  // namespace sim
