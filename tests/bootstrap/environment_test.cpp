//===- tests/bootstrap/environment_test.cpp - finds ranks in launchers' variables -------------===//

#include "runtime/job/bootstrap/environment.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

namespace braid {
namespace {

using Variables = std::map<std::string, std::string>;

/// Variables that real launchers set and that Braid reads or might confuse with those it reads. The
/// values for Open MPI 4.1 and Hydra 4.0 were recorded; the others follow the launchers'
/// documentation.
const std::map<std::string, std::string> kLaunchers = {
    {"@braid", "BRAID_RANK=1 BRAID_RANKS=4 BRAID_JOB=j7 BRAID_MEETING=/run/x"},
    {"@torchrun", "RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 GROUP_RANK=0 ROLE_RANK=1 "
                  "MASTER_ADDR=localhost MASTER_PORT=29500 TORCHELASTIC_RUN_ID=none "
                  "TORCHELASTIC_RESTART_COUNT=0 TORCHELASTIC_MAX_RESTARTS=0"},
    {"@openmpi", "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 "
                 "OMPI_COMM_WORLD_LOCAL_SIZE=4 OMPI_COMM_WORLD_NODE_RANK=1 OMPI_UNIVERSE_SIZE=4 "
                 "OMPI_MCA_ess_base_jobid=9365 PMIX_NAMESPACE=9365 PMIX_RANK=1"},
    {"@hydra", "PMI_RANK=1 PMI_SIZE=4 PMI_FD=8 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=4 BRAID_JOB=j7"},
    {"@intel", "PMI_RANK=1 PMI_SIZE=4 PMI_FD=9 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=4 "
               "BRAID_JOB=j7 I_MPI_HYDRA_BOOTSTRAP=ssh I_MPI_MPIRUN=mpirun HYDI_CONTROL_FD=7"},
    {"@cray", "PMI_RANK=1 PMI_SIZE=4 PMI_LOCAL_RANK=1 PMI_LOCAL_SIZE=4 PMI_JOBID=c3"},
    {"@pmi2", "PMI_RANK=1 PMI_SIZE=4 PMI_FD=5 PMI_JOBID=77.0"}, // srun --mpi=pmi2
    // The environment of a shell in an salloc allocation, of a script run by sbatch, and of a rank
    // started by srun.
    {"@salloc", "SLURM_JOB_ID=77 SLURM_NTASKS=8 SLURM_NNODES=1 SLURM_TASKS_PER_NODE=8"},
    {"@batch", "@salloc SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_GTIDS=0"},
    {"@srun", "@batch SLURM_PROCID=1 SLURM_LOCALID=1 SLURM_NTASKS=4 SLURM_STEP_ID=0 "
              "SLURM_STEP_NUM_TASKS=4 SLURM_STEP_TASKS_PER_NODE=4 SLURM_STEP_NUM_NODES=1"},
};

/// Sets variables from a text: "@hydra PMI_RANK=2 -PMI_SIZE" sets Hydra's variables, then changes
/// PMI_RANK and removes PMI_SIZE.
void apply(const std::string &text, Variables &variables) {
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    size_t equals = word.find('=');
    if (word[0] == '@')
      apply(kLaunchers.at(word), variables);
    else if (word[0] == '-')
      variables.erase(word.substr(1));
    else
      variables[word.substr(0, equals)] = word.substr(equals + 1);
  }
}

Environment environmentOf(const Variables &variables) {
  return [variables](const std::string &name) -> std::optional<std::string> {
    auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

Environment environmentOf(const std::string &text) {
  Variables variables;
  apply(text, variables);
  return environmentOf(variables);
}

std::string describe(const Result<std::optional<Place>> &place) {
  if (!place)
    return fmt::format("{}: {}", static_cast<int>(place.status().code()), place.status().message());
  if (!*place)
    return "no rank";
  const Place &is = **place;
  const std::string host = is.hosts > 1 ? fmt::format(" on host {} of {}", is.host, is.hosts) : "";
  return fmt::format("{} of {}, {} of {} here{}, {}, job {}{}", is.rank, is.ranks, is.localRank,
                     is.localRanks, host, is.source, is.job,
                     is.meeting.empty() ? "" : " meets at " + is.meeting);
}

struct Row {
  const char *environment;
  const char *expected; ///< all of describe(), or the beginning of an error
};

constexpr const char *kBraid = "1 of 4, 1 of 4 here, BRAID_*, job j7 meets at /run/x";
constexpr const char *kTorchrun =
    "1 of 4, 1 of 4 here, torchrun, job torchrun MASTER_ADDR=localhost MASTER_PORT=29500 "
    "TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0";
constexpr const char *kOpenMpi = "1 of 4, 1 of 4 here, Open MPI, job Open MPI PMIX_NAMESPACE=9365";
constexpr const char *kHydra = "1 of 4, 1 of 4 here, PMI, job PMI BRAID_JOB=j7";
constexpr const char *kPmi2 = "1 of 4, 1 of 4 here, PMI, job PMI PMI_JOBID=77.0";
constexpr const char *kSrun =
    "1 of 4, 1 of 4 here, SLURM, job SLURM SLURM_STEP_ID=0 SLURM_JOB_ID=77";

const Row kRows[] = {
    // No variables, and variables that launchers set in processes that are not ranks.
    {"", "no rank"},
    {"MASTER_ADDR=localhost MASTER_PORT=29500", "no rank"},
    {"BRAID_JOB=j BRAID_MEETING=/run/x", "no rank"},
    {"PMIX_RANK=1 PMIX_NAMESPACE=9", "no rank"},
    {"OMPI_MCA_orte_ess_jobid=1 OMPI_UNIVERSE_SIZE=4", "no rank"}, // an MPI program without mpirun
    {"MPI_LOCALRANKID=0 MPI_LOCALNRANKS=2 PMI_FD=3", "no rank"},
    {"@salloc", "no rank"},
    {"@batch", "no rank"},
    {"@batch SLURM_STEP_ID=4294967291 SLURM_STEP_NUM_TASKS=1", "no rank"},
    {"@salloc SLURM_STEP_ID=4294967290 SLURM_PROCID=0", "no rank"}, // the shell that salloc starts

    // A single launcher.
    {"@braid", kBraid},
    {"@braid -BRAID_JOB", "1 of 4, 1 of 4 here, BRAID_*, job default meets at /run/x"},
    {"@braid -BRAID_MEETING", "1 of 4, 1 of 4 here, BRAID_*, job j7"},
    {"@torchrun", kTorchrun},
    {"@torchrun -TORCHELASTIC_RUN_ID -TORCHELASTIC_RESTART_COUNT",
     "1 of 4, 1 of 4 here, torchrun, job torchrun MASTER_ADDR=localhost MASTER_PORT=29500"},
    {"@openmpi", kOpenMpi},
    {"@openmpi -PMIX_NAMESPACE", "2: Open MPI: expected PMIX_NAMESPACE to be set as well"},
    // Local ranks can be in any order.
    {"@openmpi OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_LOCAL_RANK=3",
     "0 of 4, 3 of 4 here, Open MPI, job Open MPI PMIX_NAMESPACE=9365"},
    {"@hydra", kHydra},
    {"@hydra -BRAID_JOB", "1 of 4, 1 of 4 here, PMI, job PMI"},
    {"@intel", kHydra},
    {"@cray", "1 of 4, 1 of 4 here, PMI, job PMI PMI_JOBID=c3"},
    {"@pmi2", kPmi2},
    {"@srun", kSrun},
    {"@srun SLURM_RESTART_COUNT=2", "1 of 4, 1 of 4 here, SLURM, job SLURM SLURM_STEP_ID=0 "
                                    "SLURM_JOB_ID=77 SLURM_RESTART_COUNT=2"},
    {"@srun SLURM_NTASKS=8", kSrun}, // srun --preserve-env -n 4 in an allocation of 8
    {"@srun -SLURM_STEP_NUM_TASKS", kSrun},

    // Nested launchers: the inner launcher's variables are used.
    {"@batch @braid", kBraid},
    {"@srun @torchrun", kTorchrun},
    {"@batch @openmpi", kOpenMpi},
    {"@srun @openmpi", kOpenMpi}, // SLURM starts mpirun's daemons as a step
    {"@openmpi @hydra @torchrun", kTorchrun},
    {"@batch @hydra", kHydra},
    {"@srun @intel", kHydra},
    {"@srun @pmi2", kSrun},                                      // only SLURM assigns hosts
    {"@srun PMIX_RANK=1 PMIX_NAMESPACE=slurm.pmix.77.0", kSrun}, // srun --mpi=pmix
    // An error in the variables of an ignored launcher has no effect.
    {"@braid RANK=x SLURM_STEP_ID=-1", kBraid},

    // Incomplete variables of a launcher.
    {"BRAID_RANK=0", "2: BRAID_*: expected BRAID_RANKS to be set as well"},
    {"@srun WORLD_SIZE=4", "2: torchrun: expected RANK to be set as well"},
    {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1",
     "2: torchrun: expected LOCAL_RANK to be set as well"},
    {"@hydra -MPI_LOCALNRANKS",
     "2: PMI: expected MPI_LOCALNRANKS or PMI_LOCAL_SIZE to be set as well"},
    {"@hydra -MPI_LOCALRANKID",
     "2: PMI: expected MPI_LOCALRANKID or PMI_LOCAL_RANK to be set as well"},
    {"@srun -SLURM_PROCID", "2: SLURM: expected SLURM_PROCID to be set as well"},
    {"@srun -SLURM_NTASKS -SLURM_STEP_NUM_TASKS",
     "2: SLURM: expected SLURM_STEP_NUM_TASKS or SLURM_NTASKS to be set as well"},
    {"@srun -SLURM_STEP_TASKS_PER_NODE",
     "2: SLURM: expected SLURM_STEP_TASKS_PER_NODE to be set as well"},

    // Values that are not numbers.
    {"@torchrun RANK=-1", "2: torchrun: expected RANK to be a whole number, got '-1'"},
    {"@torchrun RANK=+1", "2: torchrun: expected RANK to be a whole number, got '+1'"},
    {"@torchrun WORLD_SIZE=0x4",
     "2: torchrun: expected WORLD_SIZE to be a whole number, got '0x4'"},
    {"@hydra PMI_SIZE=9223372036854775808",
     "2: PMI: expected PMI_SIZE to be a 63-bit non-negative integer, got '9223372036854775808'"},
    {"@srun SLURM_STEP_TASKS_PER_NODE=4(x",
     "2: SLURM: expected SLURM_STEP_TASKS_PER_NODE to be a whole number or a list like 4(x2), got "
     "'4(x'"},

    // Contradictions.
    {"@braid BRAID_RANK=4",
     "2: BRAID_*: expected BRAID_RANK to be less than BRAID_RANKS = 4, got 4"},
    {"@braid BRAID_RANKS=0", "2: BRAID_*: expected BRAID_RANKS to be at least 1, got 0"},
    {"@torchrun LOCAL_RANK=4",
     "2: torchrun: expected LOCAL_RANK to be less than LOCAL_WORLD_SIZE = 4, got 4"},
    {"@torchrun LOCAL_WORLD_SIZE=5",
     "2: torchrun: expected LOCAL_WORLD_SIZE to be at most WORLD_SIZE = 4, got 5"},
    {"@torchrun LOCAL_WORLD_SIZE=0",
     "2: torchrun: expected LOCAL_WORLD_SIZE to be at least 1, got 0"},
    {"@srun SLURM_LOCALID=4",
     "2: SLURM: expected SLURM_LOCALID to be less than SLURM_STEP_TASKS_PER_NODE = 4, got 4"},
    {"@srun SLURM_STEP_TASKS_PER_NODE=3", "4: SLURM: expected the same number of ranks on each "
                                          "host, got 3 of 4 on this host; use srun "},

    // Several hosts: ranks are numbered host by host, and every host has the same number of ranks.
    {"@braid BRAID_LOCAL_RANK=1 BRAID_LOCAL_RANKS=2",
     "1 of 4, 1 of 2 here on host 0 of 2, BRAID_*, job j7 meets at /run/x"},
    {"@braid BRAID_LOCAL_RANK=1", "2: BRAID_*: expected BRAID_LOCAL_RANKS to be set as well"},
    {"@braid BRAID_RANK=2 BRAID_LOCAL_RANK=1 BRAID_LOCAL_RANKS=2",
     "4: BRAID_*: expected the ranks of a host to be consecutive, got rank 2 as local rank 1 "
     "of 2; number the ranks host by host: BRAID_RANK = host * BRAID_LOCAL_RANKS + "
     "BRAID_LOCAL_RANK"},
    {"@torchrun RANK=3 LOCAL_WORLD_SIZE=2",
     "3 of 4, 1 of 2 here on host 1 of 2, torchrun, job torchrun MASTER_ADDR=localhost "
     "MASTER_PORT=29500 TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0"},
    {"@torchrun WORLD_SIZE=6 LOCAL_WORLD_SIZE=4", "4: torchrun: expected the same number of ranks "
                                                  "on each host, got 4 of 6 on this host; use the "
                                                  "same "
                                                  "--nproc-per-node on each host"},
    {"@openmpi OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2", // --map-by node
     "4: Open MPI: expected the ranks of a host to be consecutive, got rank 1 as local rank 0 of 2"
     "; use mpirun --map-by slot"},
    {"@hydra PMI_RANK=2 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=2",
     "2 of 4, 0 of 2 here on host 1 of 2, PMI, job PMI BRAID_JOB=j7"},
    {"@srun SLURM_STEP_TASKS_PER_NODE=2(x2)",
     "1 of 4, 1 of 2 here on host 0 of 2, SLURM, job SLURM SLURM_STEP_ID=0 SLURM_JOB_ID=77"},
    {"@srun SLURM_STEP_TASKS_PER_NODE=2(x2) SLURM_PROCID=2 SLURM_LOCALID=0 @pmi2 PMI_RANK=2",
     "2 of 4, 0 of 2 here on host 1 of 2, SLURM, job SLURM SLURM_STEP_ID=0 SLURM_JOB_ID=77"},
    {"@srun SLURM_STEP_TASKS_PER_NODE=1(x2),2",
     "4: SLURM: expected the same number of ranks on each host, got 1(x2),2; use srun "
     "--distribution=block --ntasks-per-node=N"},
    {"@srun SLURM_STEP_TASKS_PER_NODE=2(x2) SLURM_LOCALID=0", // --distribution=cyclic
     "4: SLURM: expected the ranks of a host to be consecutive, got rank 1 as local rank 0 of 2"
     "; use srun --distribution=block"},
};

TEST(Environment, FindsThePlaceThatLaunchersGive) {
  for (const Row &row : kRows) {
    std::string place = describe(findPlace(environmentOf(row.environment)));
    bool isError = row.expected[1] == ':';
    EXPECT_TRUE(isError ? place.rfind(row.expected, 0) == 0 : place == row.expected)
        << "in   " << row.environment << "\nwant " << row.expected << "\ngot  " << place;
  }
}

TEST(Environment, AnErrorListsAllThatWasFoundAndTheWayOut) {
  auto place = findPlace(environmentOf("@salloc RANK=3 PMI_RANK=0 UNRELATED=1"));
  EXPECT_EQ(describe(place),
            "2: torchrun: expected WORLD_SIZE to be set as well; found RANK='3' (torchrun), "
            "PMI_RANK='0' (PMI), SLURM_NTASKS='8', SLURM_JOB_ID='77' (SLURM); unset the variables "
            "that do not apply, or set BRAID_RANK and BRAID_RANKS, which take precedence");
}

TEST(Environment, AnErrorIsSafeToPrint) {
  Variables variables = {{"RANK", "\x1b[31m\n" + std::string(100000, 'x')}, {"WORLD_SIZE", "2"}};
  std::string text = describe(findPlace(environmentOf(variables)));
  EXPECT_THAT(text, testing::HasSubstr("RANK='\\x1b[31m\\x0axxx"));
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_LT(text.size(), 1000u);
}

TEST(Environment, JobsThatDifferInOneVariableDiffer) {
  const char *jobs[] = {
      "@torchrun",
      "@torchrun MASTER_ADDR=other",
      "@torchrun MASTER_PORT=29501",
      "@torchrun TORCHELASTIC_RUN_ID=8",
      "@torchrun TORCHELASTIC_RESTART_COUNT=1",
      "@openmpi",
      "@openmpi PMIX_NAMESPACE=9366",
      "@hydra",
      "@hydra BRAID_JOB=j8",
      "@pmi2",
      "@pmi2 PMI_JOBID=77.1",
      "@srun",
      "@srun SLURM_JOB_ID=78",
      "@srun SLURM_STEP_ID=1",
      "@srun SLURM_RESTART_COUNT=1",
      "@braid",
      "@braid BRAID_JOB=j8",
  };
  std::set<std::string> names;
  for (const char *job : jobs) {
    auto place = findPlace(environmentOf(job));
    ASSERT_TRUE(place && *place) << job;
    EXPECT_TRUE(names.insert((*place)->job).second) << job << " is " << (*place)->job;
  }
}

std::vector<std::string> counted(const std::string &text) {
  std::vector<std::string> names;
  for (const VariableReport &variable : reportVariables(environmentOf(text)))
    if (variable.counts)
      names.push_back(variable.name);
  return names;
}

TEST(Environment, TheReportSaysWhatCounts) {
  using testing::ElementsAre;
  EXPECT_THAT(counted(""), ElementsAre());
  EXPECT_THAT(counted("@batch"), ElementsAre());
  EXPECT_THAT(counted("@braid @torchrun TMPDIR=/tmp"),
              ElementsAre("BRAID_RANK", "BRAID_RANKS", "BRAID_JOB", "BRAID_MEETING", "TMPDIR"));
  EXPECT_THAT(counted("@openmpi @srun"),
              ElementsAre("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                          "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
                          "PMIX_NAMESPACE"));
  EXPECT_THAT(counted("@srun"),
              ElementsAre("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
                          "SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_ID", "SLURM_JOB_ID"));
  EXPECT_THAT(counted("RANK=7"), ElementsAre("RANK")); // used, although WORLD_SIZE is missing
}

TEST(Environment, TheReportHasEachVariableOnceWithItsValue) {
  std::set<std::string> names;
  for (const VariableReport &variable : reportVariables(environmentOf("@srun @torchrun"))) {
    EXPECT_TRUE(names.insert(variable.name).second) << variable.name;
    EXPECT_FALSE(variable.meaning.empty()) << variable.name;
    EXPECT_EQ(variable.value, environmentOf("@srun @torchrun")(variable.name));
  }
  EXPECT_TRUE(names.count("RANK") && names.count("SLURM_PROCID"));
}

TEST(Environment, NothingIsReadThatIsNotReported) {
  std::set<std::string> reported;
  for (const VariableReport &variable : reportVariables(environmentOf("")))
    reported.insert(variable.name);
  for (const Row &row : kRows) {
    Environment environment = environmentOf(row.environment);
    auto watched = [&](const std::string &name) {
      EXPECT_TRUE(reported.count(name)) << name << " in " << row.environment;
      return environment(name);
    };
    (void)findPlace(watched);
  }
}

TEST(Environment, AnEmptyVariableOfTheProcessIsNotSet) {
  setenv("BRAID_TEST_EMPTY", "", 1);
  setenv("BRAID_TEST_BLANK", " ", 1);
  unsetenv("BRAID_TEST_UNSET");
  EXPECT_EQ(processEnvironment()("BRAID_TEST_EMPTY"), std::nullopt);
  EXPECT_EQ(processEnvironment()("BRAID_TEST_BLANK"), " ");
  EXPECT_EQ(processEnvironment()("BRAID_TEST_UNSET"), std::nullopt);
}

TEST(Environment, NamesTheVariablesThatMakeItAPlace) {
  EXPECT_EQ(variablesOfPlace(environmentOf("")), "");
  EXPECT_EQ(variablesOfPlace(environmentOf("@batch")), "");
  EXPECT_EQ(variablesOfPlace(environmentOf("@srun @torchrun")), "RANK, WORLD_SIZE");
  EXPECT_EQ(variablesOfPlace(environmentOf("@srun")), "SLURM_STEP_ID");
  EXPECT_EQ(variablesOfPlace(environmentOf("BRAID_RANK=1")), "BRAID_RANK");
}

TEST(Environment, SwitchesAreOnOrOff) {
  EXPECT_TRUE(*isOn(environmentOf("X=on"), "X", false));
  EXPECT_FALSE(*isOn(environmentOf("X=off"), "X", true));
  EXPECT_TRUE(*isOn(environmentOf(""), "X", true));
  EXPECT_TRUE(checkSettings(environmentOf("BRAID_TUNE=off BRAID_SHARE_GPUS=on X=y")).isOk());
  EXPECT_EQ(*devicesOfRanks(environmentOf("BRAID_DEVICES=3,5,0")), (std::vector<int64_t>{3, 5, 0}));
  EXPECT_TRUE(devicesOfRanks(environmentOf(""))->empty());
  for (const char *text : {"3,3", "a", "1,", ",", "-1", "1 2", "99999"}) {
    Status status = checkSettings(environmentOf({{"BRAID_DEVICES", text}}));
    EXPECT_EQ(status.message(), std::string("expected BRAID_DEVICES to be distinct GPU "
                                            "numbers, such as 3,5,0, got '") +
                                    text + "'");
  }
  for (const char *name : {"BRAID_TUNE", "BRAID_SHARE_GPUS"}) {
    Status status = checkSettings(environmentOf({{name, "ON\x1b"}}));
    EXPECT_EQ(status.code(), StatusCode::BadInput);
    EXPECT_EQ(status.message(), fmt::format("expected {} to be on or off, got 'ON\\x1b'", name));
  }
}

TEST(Environment, TheRendezvousIsAnAddress) {
  auto addressOf = [](const std::string &text) -> std::string {
    const auto address = rendezvousAddress(environmentOf({{"BRAID_RENDEZVOUS", text}}));
    if (!address)
      return address.status().message();
    return fmt::format("{} {}", (*address)->host, (*address)->port);
  };
  EXPECT_FALSE(*rendezvousAddress(environmentOf("")));
  EXPECT_EQ(addressOf("tcp://node1:29500"), "node1 29500");
  EXPECT_EQ(addressOf("tcp://10.0.0.1:1"), "10.0.0.1 1");
  EXPECT_EQ(addressOf("tcp://[fe80::1%eth0]:65535"), "fe80::1%eth0 65535");
  for (const char *text :
       {"node1:29500", "tcp://node1", "tcp://:1", "tcp://node1:0", "tcp://node1:65536",
        "tcp://a:+1", "tcp://fe80::1:29500", "tcp://[fe80::1:29500"}) {
    EXPECT_THAT(addressOf(text),
                testing::StartsWith("expected BRAID_RENDEZVOUS to be tcp://host:port, as in "))
        << text;
    EXPECT_FALSE(checkSettings(environmentOf({{"BRAID_RENDEZVOUS", text}})).isOk());
  }
  EXPECT_TRUE(checkSettings(environmentOf("BRAID_RENDEZVOUS=tcp://node1:29500")).isOk());
}

} // namespace
} // namespace braid
