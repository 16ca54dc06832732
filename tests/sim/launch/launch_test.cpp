// Proves that a process learns its rank from the variables of every launcher, avoids their pitfalls, and
// refuses by name any subset of variables that is incomplete.

#include "sim/launch/launch.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <set>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "tests/support/refusal_code.h"

namespace {

using namespace sim;

Environment of_torchrun() {
  return {{"RANK", "5"},
          {"WORLD_SIZE", "8"},
          {"LOCAL_RANK", "1"},
          {"LOCAL_WORLD_SIZE", "4"},
          {"GROUP_RANK", "1"},
          {"MASTER_ADDR", "node1"},
          {"MASTER_PORT", "29500"},
          {"TORCHELASTIC_RUN_ID", "none"},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
}

Environment of_open_mpi() {
  return {{"OMPI_COMM_WORLD_RANK", "3"},
          {"OMPI_COMM_WORLD_SIZE", "4"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
          {"PMIX_RANK", "3"}};
}

Environment of_mpich() {
  return {{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "1"}};
}

Environment of_mvapich() {
  return {{"MV2_COMM_WORLD_RANK", "2"},
          {"MV2_COMM_WORLD_SIZE", "3"},
          {"MV2_COMM_WORLD_LOCAL_RANK", "0"},
          {"MASTER_ADDR", "node1"}};
}

/// Rank 5 of a step of 3 + 3 + 2 tasks in a larger allocation. srun was called on a login node.
Environment of_srun() {
  return {{"SLURM_JOB_ID", "1234567"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_PROCID", "5"},
          {"SLURM_NTASKS", "64"},
          {"SLURM_STEP_NUM_TASKS", "8"},
          {"SLURM_LOCALID", "2"},
          {"SLURM_NODEID", "1"},
          {"SLURM_STEP_TASKS_PER_NODE", "3(x2),2"},
          {"SLURM_STEP_NODELIST", "gpu[07-08,11]"},
          {"SLURM_NODELIST", "gpu[01-16]"},
          {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.254"}};
}

// ---- What launchers were seen to set, among variables about ranks, places, jobs and addresses ----

/// Slurm 22.05: srun -N 2 -n 5, rank 4, which is alone on the second node.
Environment seen_of_srun() {
  return {{"SLURM_GTIDS", "4"},
          {"SLURM_JOBID", "1"},
          {"SLURM_JOB_ID", "1"},
          {"SLURM_JOB_NODELIST", "n[1-2]"},
          {"SLURM_JOB_NUM_NODES", "2"},
          {"SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1"},
          {"SLURM_LOCALID", "0"},
          {"SLURM_NNODES", "2"},
          {"SLURM_NODEID", "1"},
          {"SLURM_NODELIST", "n[1-2]"},
          {"SLURM_NPROCS", "5"},
          {"SLURM_NTASKS", "5"},
          {"SLURM_PROCID", "4"},
          {"SLURM_STEPID", "0"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_STEP_NODELIST", "n[1-2]"},
          {"SLURM_STEP_NUM_NODES", "2"},
          {"SLURM_STEP_NUM_TASKS", "5"},
          {"SLURM_STEP_TASKS_PER_NODE", "4,1"},
          {"SLURM_TASKS_PER_NODE", "4,1"},
          {"SLURM_TOPOLOGY_ADDR", "n2"}};
}

/// What --mpi=pmi2 and --mpi=pmix add for the same task.
Environment seen_of_pmi2() {
  return {{"PMI_FD", "11"},
          {"PMI_JOBID", "1.0"},
          {"PMI_RANK", "4"},
          {"PMI_SIZE", "5"},
          {"SLURM_MPI_TYPE", "pmi2"}};
}
Environment seen_of_pmix() {
  return {{"PMIX_NAMESPACE", "slurm.pmix.1.0"}, {"PMIX_RANK", "4"}, {"SLURM_MPI_TYPE", "pmix"}};
}

/// What the body of sbatch -n 2 sees.
Environment seen_of_sbatch() {
  return {{"SLURM_GTIDS", "0"},  {"SLURM_JOB_ID", "5"}, {"SLURM_JOB_NODELIST", "n1"}, {"SLURM_LOCALID", "0"},
          {"SLURM_NNODES", "1"}, {"SLURM_NODEID", "0"}, {"SLURM_NODELIST", "n1"},     {"SLURM_NPROCS", "2"},
          {"SLURM_NTASKS", "2"}, {"SLURM_PROCID", "0"}, {"SLURM_TASKS_PER_NODE", "2"}};
}

/// What a task of srun -n 1 --mpi=pmi2 sees, in which somebody starts a launcher.
Environment seen_of_one_task() {
  return {{"PMI_FD", "11"},
          {"PMI_JOBID", "9.0"},
          {"PMI_RANK", "0"},
          {"PMI_SIZE", "1"},
          {"SLURM_JOB_ID", "9"},
          {"SLURM_LOCALID", "0"},
          {"SLURM_NODEID", "0"},
          {"SLURM_NTASKS", "1"},
          {"SLURM_PROCID", "0"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_STEP_NODELIST", "n1"},
          {"SLURM_STEP_NUM_TASKS", "1"},
          {"SLURM_STEP_TASKS_PER_NODE", "1"}};
}

/// MPICH 4.0: mpirun -n 2, rank 1.
Environment seen_of_mpich() {
  return {{"HYDI_CONTROL_FD", "7"}, {"MPI_LOCALNRANKS", "2"}, {"MPI_LOCALRANKID", "1"},
          {"PMI_FD", "8"},          {"PMI_RANK", "1"},        {"PMI_SIZE", "2"}};
}

/// Open MPI 4.1: mpirun -n 2, rank 1.
Environment seen_of_open_mpi() {
  return {{"OMPI_APP_CTX_NUM_PROCS", "2"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
          {"OMPI_COMM_WORLD_NODE_RANK", "1"},
          {"OMPI_COMM_WORLD_RANK", "1"},
          {"OMPI_COMM_WORLD_SIZE", "2"},
          {"OMPI_FIRST_RANKS", "0"},
          {"OMPI_UNIVERSE_SIZE", "4"},
          {"PMIX_ID", "1277100033.1"},
          {"PMIX_NAMESPACE", "1277100033"},
          {"PMIX_RANK", "1"}};
}

/// torchrun of PyTorch 2.15: --nnodes 2 --node-rank 1 --master-addr node1 --master-port 29577
/// --nproc-per-node 2, the last rank.
Environment seen_of_torchrun() {
  return {{"GROUP_RANK", "1"},
          {"GROUP_WORLD_SIZE", "2"},
          {"LOCAL_RANK", "1"},
          {"LOCAL_WORLD_SIZE", "2"},
          {"MASTER_ADDR", "node1"},
          {"MASTER_PORT", "29577"},
          {"RANK", "3"},
          {"ROLE_NAME", "default"},
          {"ROLE_RANK", "3"},
          {"ROLE_WORLD_SIZE", "4"},
          {"TORCHELASTIC_MAX_RESTARTS", "0"},
          {"TORCHELASTIC_RESTART_COUNT", "0"},
          {"TORCHELASTIC_RUN_ID", "none"},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"},
          {"WORLD_SIZE", "4"}};
}

/// Joins two environments. Where both set a variable, that of `a`, the inner launcher, wins.
Environment joined(Environment a, const Environment& b) {
  a.insert(b.begin(), b.end());
  return a;
}

Refusal refusal_of(const Environment& given, const Environment& environment) {
  try {
    detect_launch(given, environment);
  } catch (const Error& error) {
    return error.refusal();
  }
  return {};
}

void expect_place(const Launch& launch, const char* launcher, int rank, int world,
                  std::optional<LocalPlace> local) {
  EXPECT_EQ(launch.launcher, launcher);
  EXPECT_EQ(launch.rank, rank);
  EXPECT_EQ(launch.world_size, world);
  EXPECT_EQ(launch.local, local);
}

TEST(Launch, NobodyIsAWorldOfOne) {
  const Launch launch = detect_launch({}, {{"HOME", "/root"}});
  expect_place(launch, "none", 0, 1, LocalPlace{0, 1});
  EXPECT_EQ(launch.read, std::vector<std::string>{});
  EXPECT_EQ(text_of(launch), "rank 0 of 1, local rank 0 of 1: no launcher found");
}

TEST(Launch, TorchrunsAgentKeepsItsPort) {
  Environment environment = of_torchrun();
  const Launch launch = detect_launch({}, environment);
  expect_place(launch, "torchrun", 5, 8, LocalPlace{1, 4});
  EXPECT_EQ(launch.master_addr, "node1");
  EXPECT_EQ(launch.master_port, 29501);
  EXPECT_EQ(text_of(launch),
            "rank 5 of 8, local rank 1 of 4: from torchrun (read RANK, WORLD_SIZE, LOCAL_RANK, "
            "LOCAL_WORLD_SIZE, "
            "MASTER_ADDR, TORCHELASTIC_USE_AGENT_STORE, MASTER_PORT); meets at node1 port 29501");
  environment["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  EXPECT_EQ(detect_launch({}, environment).master_port, 29500);
  environment = of_torchrun();
  environment["MASTER_PORT"] = "65535";
  EXPECT_EQ(refusal_of({}, environment).code, "launch_range");
}

TEST(Launch, EachMpi) {
  expect_place(detect_launch({}, of_open_mpi()), "Open MPI", 3, 4, LocalPlace{3, 4});
  EXPECT_EQ(detect_launch({}, of_open_mpi()).master_addr, "127.0.0.1");  // all ranks are on this machine
  expect_place(detect_launch({{"--master-addr", "node1"}}, of_mpich()), "MPICH or Intel MPI", 2, 3,
               LocalPlace{0, 1});
  expect_place(detect_launch({}, of_mvapich()), "MVAPICH2", 2, 3, std::nullopt);
  EXPECT_EQ(detect_launch({}, of_mvapich()).master_port, kDefaultPort);
  // No MPI gives an address, and these ranks are on several nodes.
  EXPECT_EQ(refusal_of({}, of_mpich()).code, "launch_partly_set");
  EXPECT_EQ(refusal_of({}, of_mpich()).option, "MASTER_ADDR");
  // PMIx names the rank differently.
  expect_place(detect_launch({{"--master-addr", "a"}}, {{"PMIX_RANK", "1"}, {"PMI_SIZE", "3"}}),
               "MPICH or Intel MPI", 1, 3, std::nullopt);
}

TEST(Launch, AStepOfSlurm) {
  const Launch launch = detect_launch({}, of_srun());
  expect_place(launch, "Slurm", 5, 8, LocalPlace{2, 3});
  EXPECT_EQ(launch.master_addr, "gpu07");  // neither the login node nor the first node of the allocation
  EXPECT_EQ(launch.master_port, 24567);
  Environment environment = of_srun();
  environment.erase("SLURM_STEP_NUM_TASKS");
  environment.erase("SLURM_STEP_TASKS_PER_NODE");
  expect_place(detect_launch({}, environment), "Slurm", 5, 64, std::nullopt);
  environment = of_srun();
  environment["SLURM_NODEID"] = "3";
  EXPECT_EQ(refusal_of({}, environment).option, "SLURM_NODEID");
}

TEST(Launch, AnAllocationWithoutSrunIsNoLauncher) {
  Environment environment = of_srun();
  environment.erase("SLURM_STEP_ID");
  expect_place(detect_launch({}, environment), "none", 0, 1, LocalPlace{0, 1});
  for (const char* step : {"4294967291", "4294967290"}) {  // the batch script and an interactive shell
    environment["SLURM_STEP_ID"] = step;
    expect_place(detect_launch({}, environment), "none", 0, 1, LocalPlace{0, 1});
  }
}

TEST(Launch, TheInnermostLauncherDecides) {
  expect_place(detect_launch({}, joined(of_torchrun(), of_srun())), "torchrun", 5, 8, LocalPlace{1, 4});
  expect_place(detect_launch({}, joined(of_torchrun(), of_open_mpi())), "torchrun", 5, 8, LocalPlace{1, 4});
  expect_place(detect_launch({}, joined(of_open_mpi(), of_srun())), "Open MPI", 3, 4, LocalPlace{3, 4});
  const Environment given = {{"--rank", "1"}, {"--world-size", "2"}, {"--master-addr", "a"}};
  expect_place(detect_launch(given, joined(of_torchrun(), of_srun())), "explicit", 1, 2, std::nullopt);
  EXPECT_EQ(detect_launch(given, of_torchrun()).master_addr, "a");
}

TEST(Launch, RankAndWorldSizeOfAScriptMustAgreeWithTheLauncher) {
  Environment environment = joined({{"RANK", "5"}, {"WORLD_SIZE", "8"}}, of_srun());
  expect_place(detect_launch({{"--master-addr", "a"}}, environment), "RANK and WORLD_SIZE", 5, 8,
               std::nullopt);
  environment["RANK"] = "0";
  EXPECT_EQ(refusal_of({}, environment).code, "launch_contradiction");
  EXPECT_EQ(refusal_of({}, environment).numbers, "0 (RANK and WORLD_SIZE), while SLURM_PROCID is 5 (Slurm)");
  EXPECT_EQ(refusal_of({}, joined(of_open_mpi(), of_mpich())).code, "launch_contradiction");
  // The process runs in a shell within a step of one task, where somebody starts a launcher by hand.
  environment = {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"},
                 {"RANK", "5"},          {"WORLD_SIZE", "8"},   {"MASTER_ADDR", "a"}};
  expect_place(detect_launch({}, environment), "RANK and WORLD_SIZE", 5, 8, std::nullopt);
}

TEST(Launch, WhatIsNoRankIsRefusedByName) {
  const auto with = [](const char* name, const char* text) {
    Environment environment = of_torchrun();
    environment[name] = text;
    return refusal_of({}, environment);
  };
  const std::vector<std::array<const char*, 3>> table = {
      {"RANK", "three", "launch_number"},
      {"RANK", "", "launch_number"},
      {"RANK", " 3", "launch_number"},
      {"RANK", "+3", "launch_number"},
      {"RANK", "3 ", "launch_number"},
      {"RANK", "0x3", "launch_number"},
      {"RANK", "-1", "launch_range"},
      {"RANK", "8", "launch_range"},
      {"RANK", "99999999999999999999", "launch_range"},
      {"WORLD_SIZE", "0", "launch_range"},
      {"WORLD_SIZE", "1048577", "launch_range"},
      {"LOCAL_RANK", "4", "launch_range"},
      {"LOCAL_WORLD_SIZE", "9", "launch_range"},
      {"MASTER_PORT", "-1", "launch_range"},
      {"MASTER_PORT", "http", "launch_number"},
      {"MASTER_ADDR", "", "launch_address"},
      {"MASTER_ADDR", "a b", "launch_address"},
  };
  for (const auto& [name, text, code] : table) {
    EXPECT_EQ(with(name, text).code, code) << name << "=" << text;
    EXPECT_EQ(with(name, text).option, name) << text;
  }
  EXPECT_EQ(refusal_of({{"--master-port", "0"}}, of_torchrun()).option, "--master-port");
  EXPECT_EQ(refusal_of({{"--rank", "0"}}, of_torchrun()).option, "--world-size");
  EXPECT_EQ(refusal_of({{"--local-rank", "0"}}, of_torchrun()).option, "--rank");
  EXPECT_EQ(refusal_of({{"--rank", "2"}, {"--world-size", "2"}}, {}).option, "--rank");
}

// ---- Environments as they were seen ----

TEST(Launch, AsLaunchersWereSeen) {
  expect_place(detect_launch({}, seen_of_torchrun()), "torchrun", 3, 4, LocalPlace{1, 2});
  EXPECT_EQ(detect_launch({}, seen_of_torchrun()).master_port, 29578);
  expect_place(detect_launch({}, seen_of_open_mpi()), "Open MPI", 1, 2, LocalPlace{1, 2});
  expect_place(detect_launch({}, seen_of_mpich()), "MPICH or Intel MPI", 1, 2, LocalPlace{1, 2});
  EXPECT_EQ(detect_launch({}, seen_of_mpich()).master_addr, "127.0.0.1");
  expect_place(detect_launch({}, seen_of_sbatch()), "none", 0, 1, LocalPlace{0, 1});
  expect_place(detect_launch({}, seen_of_one_task()), "Slurm", 0, 1, LocalPlace{0, 1});
}

TEST(Launch, AnMpiPluginOfSrunAddsNothing) {
  const Launch launch = detect_launch({}, seen_of_srun());
  expect_place(launch, "Slurm", 4, 5, LocalPlace{0, 1});
  EXPECT_EQ(launch.master_addr, "n1");
  EXPECT_EQ(detect_launch({}, joined(seen_of_pmi2(), seen_of_srun())), launch);
  EXPECT_EQ(detect_launch({}, joined(seen_of_pmix(), seen_of_srun())), launch);
}

TEST(Launch, ALauncherWithinAStepOfOneTask) {
  for (const Environment& inner : {seen_of_open_mpi(), seen_of_mpich()})
    EXPECT_EQ(detect_launch({}, joined(inner, seen_of_one_task())), detect_launch({}, inner));
  expect_place(detect_launch({}, joined(seen_of_torchrun(), seen_of_one_task())), "torchrun", 3, 4,
               LocalPlace{1, 2});
}

/// Two steps of a job on one node get different ports, and so do the steps of neighbouring jobs.
TEST(Launch, APortIsMadeOfTheNumbersOfSlurmsJobAndStep) {
  std::set<int> ports;
  Environment environment = seen_of_srun();
  for (const char* job : {"1234567", "1234568", "1234569", "1234570"}) {
    for (const char* step : {"0", "1", "2", "3", "4"}) {
      environment["SLURM_JOB_ID"] = job;
      environment["SLURM_STEP_ID"] = step;
      const Launch launch = detect_launch({}, environment);
      EXPECT_GE(launch.master_port, 20'000);
      EXPECT_LT(launch.master_port, 30'000);
      EXPECT_TRUE(ports.insert(launch.master_port).second) << job << "." << step;
      EXPECT_EQ(launch.read.back(), "SLURM_STEP_ID");
    }
  }
}

/// Where PMI gives the same rank and size as the Slurm step, the step is believed in every field. Where
/// it gives something else, another launcher was started within the step.
RC_GTEST_PROP(Launch, APmiRankIsTheStepsWhereItIsTheSame, ()) {
  Environment environment = of_srun();
  const int world = 8;  // on three nodes with 3 + 3 + 2 tasks
  const int rank = *rc::gen::inRange(0, world);
  environment["SLURM_PROCID"] = std::to_string(rank);
  environment["SLURM_NODEID"] = std::to_string(rank / 3);
  environment["SLURM_LOCALID"] = std::to_string(rank % 3);
  environment["MASTER_ADDR"] = "a";
  const Launch step = detect_launch({}, environment);
  const int pmi_rank = *rc::gen::oneOf(rc::gen::just(rank), rc::gen::inRange(0, world));
  const int pmi_size =
      *rc::gen::oneOf(rc::gen::just(world), rc::gen::inRange(std::max(pmi_rank + 1, 2), 2 * world));
  environment["PMI_RANK"] = std::to_string(pmi_rank);
  environment["PMI_SIZE"] = std::to_string(pmi_size);
  const bool is_same = pmi_size == world && pmi_rank == rank;
  RC_CLASSIFY(is_same);
  const Launch launch = detect_launch({}, environment);
  if (is_same) {
    RC_ASSERT(launch == step);
  } else {
    RC_ASSERT(launch.launcher == "MPICH or Intel MPI");
    RC_ASSERT(launch.rank == pmi_rank && launch.world_size == pmi_size && !launch.local);
  }
  // Hydra itself says where a process is on its node.
  environment["MPI_LOCALRANKID"] = "0";
  environment["MPI_LOCALNRANKS"] = "1";
  RC_ASSERT(detect_launch({}, environment).launcher == "MPICH or Intel MPI");
}

// ---- Any subset of all launchers' variables ----

/// The four names of each launcher (rank, size, local rank, local size) where it has them, and further
/// names it uses.
const std::vector<std::vector<std::string>>& groups() {
  static const std::vector<std::vector<std::string>> names = {
      {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
       "OMPI_COMM_WORLD_LOCAL_SIZE"},
      {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMIX_RANK"},
      {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
       "MV2_COMM_WORLD_LOCAL_SIZE"},
      {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE",
       "SLURM_STEP_ID", "SLURM_NODEID"},
      {"--rank", "--world-size", "--local-rank", "--local-world-size"},
  };
  return names;
}

const std::vector<std::string>& others() {
  static const std::vector<std::string> names = {
      "MASTER_ADDR",  "MASTER_PORT",         "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE",
      "SLURM_JOB_ID", "SLURM_STEP_NODELIST", "--master-addr",       "--master-port"};
  return names;
}

const std::vector<std::string>* group_of(const std::string& name) {
  for (const auto& group : groups()) {
    if (std::find(group.begin(), group.end(), name) != group.end()) return &group;
  }
  return nullptr;
}

std::string drawn_text(const std::string& name) {
  if (name == "TORCHELASTIC_USE_AGENT_STORE") return *rc::gen::element<std::string>("True", "False");
  if (name.ends_with("ADDR") || name.ends_with("addr"))
    return *rc::gen::weightedElement<std::string>({{9, "node1"}, {9, "::1"}, {1, ""}});
  if (name == "SLURM_STEP_NODELIST")
    return *rc::gen::weightedElement<std::string>({{4, "n[1-2]"}, {4, "n"}, {1, "n["}, {1, ""}});
  if (name == "SLURM_STEP_TASKS_PER_NODE")
    return *rc::gen::weightedElement<std::string>({{4, "2"}, {4, "2(x2)"}, {1, "2("}, {4, "1,2"}});
  const bool is_size = name.find("SIZE") != std::string::npos || name.find("TASKS") != std::string::npos ||
                       name.find("NRANKS") != std::string::npos || name.find("size") != std::string::npos;
  return is_size
             ? *rc::gen::weightedElement<std::string>({{30, "2"}, {30, "3"}, {2, "1"}, {1, "0"}, {1, "x"}})
             : *rc::gen::weightedElement<std::string>({{30, "1"}, {30, "0"}, {2, "2"}, {1, "-1"}, {1, ""}});
}

RC_GTEST_PROP(Launch, IsWholeOrRefusedByName, ()) {
  Environment all;  // command-line options are drawn like variables, so that one rule covers both
  const auto favoured = *rc::gen::inRange<std::size_t>(0, groups().size());
  for (std::size_t i = 0; i < groups().size(); ++i) {
    const int in_twenty =
        i == favoured ? 19 : *rc::gen::weightedElement<int>({{10, 0}, {1, 1}, {1, 10}, {1, 20}});
    for (const std::string& name : groups()[i]) {
      if (*rc::gen::inRange(0, 20) < in_twenty) all[name] = drawn_text(name);
    }
  }
  for (const std::string& name : others()) {
    if (*rc::gen::inRange(0, 2) == 0) all[name] = drawn_text(name);
  }
  Environment given;
  for (const auto& [name, text] : all) {
    if (name.starts_with("--")) given[name] = text;
  }
  try {
    const Launch launch = detect_launch(given, all);
    RC_ASSERT(0 <= launch.rank && launch.rank < launch.world_size);
    RC_ASSERT(!launch.master_addr.empty());
    RC_ASSERT(1 <= launch.master_port && launch.master_port <= 65535);
    if (launch.local) {
      RC_ASSERT(0 <= launch.local->rank && launch.local->rank < launch.local->world_size);
      RC_ASSERT(launch.local->world_size <= launch.world_size);
    }
    for (const std::string& name : launch.read) RC_ASSERT(all.contains(name));
    if (launch.launcher == "none") {
      RC_ASSERT(launch.world_size == 1);
      return;
    }
    // The rank and the size are what the variables of one launcher say, and the local ones come from the
    // same launcher.
    RC_ASSERT(launch.read.size() >= 2U);
    RC_ASSERT(all.at(launch.read[0]) == std::to_string(launch.rank));
    RC_ASSERT(all.at(launch.read[1]) == std::to_string(launch.world_size));
    const auto* group = group_of(launch.read[0]);
    RC_ASSERT(group != nullptr);
    for (const std::string& name : launch.read) {
      const bool is_other = std::find(others().begin(), others().end(), name) != others().end();
      RC_ASSERT(is_other || group_of(name) == group);
    }
    const bool tells_local = launch.read.size() > 3 && group_of(launch.read[2]) == group;
    if (launch.world_size > 1) RC_ASSERT(launch.local.has_value() == tells_local);
    if (tells_local) RC_ASSERT(all.at(launch.read[2]) == std::to_string(launch.local->rank));
    RC_TAG(launch.launcher);
  } catch (const Error& error) {
    const std::string name = error.refusal().option;
    RC_ASSERT(group_of(name) != nullptr ||
              std::find(others().begin(), others().end(), name) != others().end());
    RC_TAG(error.refusal().code);
  }
}

/// With all its variables, a launcher gives what they say. Without its rank, its size or its local rank,
/// it is refused.
RC_GTEST_PROP(Launch, OfALauncherIsWhatItSaid, ()) {
  const auto i = *rc::gen::inRange<std::size_t>(0, 4);
  const std::vector<std::string>& names = groups()[i];
  const int world = *rc::gen::inRange(1, 50);
  const int rank = *rc::gen::inRange(0, world);
  const int local_world = *rc::gen::inRange(1, world + 1);
  const int local = *rc::gen::inRange(0, local_world);
  Environment environment = {{names[0], std::to_string(rank)},
                             {names[1], std::to_string(world)},
                             {names[2], std::to_string(local)},
                             {names[3], std::to_string(local_world)},
                             {"MASTER_ADDR", "node1"}};
  const Launch launch = detect_launch({}, environment);
  RC_ASSERT(launch.rank == rank && launch.world_size == world);
  RC_ASSERT(launch.local == std::optional(LocalPlace{local, local_world}));
  const auto lost = *rc::gen::inRange<std::size_t>(0, 3);
  environment.erase(names[lost]);
  RC_ASSERT(refusal_of({}, environment).code == "launch_partly_set");
  RC_ASSERT(refusal_of({}, environment).option == names[lost]);
}

TEST(Launch, ReadsTheEnvironmentOfThisProcess) {
  const Environment environment = environment_of_process();
  ASSERT_TRUE(environment.contains("PATH"));
  EXPECT_EQ(environment.at("PATH"), std::getenv("PATH"));
}

/// Two jobs of mpirun on one node get different ports.
TEST(Launch, APortIsMadeOfOpenMpisNameOfTheJob) {
  Environment environment = of_open_mpi();
  EXPECT_EQ(detect_launch({}, environment).master_port, kDefaultPort);
  environment["PMIX_NAMESPACE"] = "1422589953";
  const Launch one = detect_launch({}, environment);
  EXPECT_EQ(one, detect_launch({}, environment));
  EXPECT_EQ(one.read.back(), "PMIX_NAMESPACE");
  environment["PMIX_NAMESPACE"] = "1422655489";
  const Launch other = detect_launch({}, environment);
  EXPECT_NE(one.master_port, other.master_port);
  for (const int port : {one.master_port, other.master_port}) {
    EXPECT_GE(port, 20'000);
    EXPECT_LT(port, 30'000);
  }
  environment["MASTER_PORT"] = "4000";
  EXPECT_EQ(detect_launch({}, environment).master_port, 4000);
}

}  // namespace
