//===- tests/network/launcher_store_test.cpp - what all stores have in common -----------------===//

#include "runtime/job/network/launcher_store.h"
#include "tests/network/fake_launcher.h"

#include <gmock/gmock.h>

namespace braid {
namespace {

TEST(LauncherStore, WhereThereIsNoneItSaysWhatToDo) {
  auto opened = [](const char *source) {
    const Place place{.source = source, .job = "j"};
    return openLauncherStore(
               place, [](const std::string &) { return std::nullopt; }, soon())
        .status();
  };
  EXPECT_EQ(opened("BRAID_*").code(), StatusCode::Unsupported);
  EXPECT_EQ(opened("BRAID_*").message(),
            "BRAID_* has no store through which hosts find each other: use torchrun, mpirun or "
            "srun; or set BRAID_RENDEZVOUS=tcp://host:port and BRAID_SECRET_FILE on all ranks");
  EXPECT_EQ(opened("SLURM").code(), StatusCode::Unsupported);
  EXPECT_EQ(opened("SLURM").message(),
            "srun gives its ranks no store through which hosts find each other: use srun "
            "--mpi=pmix or --mpi=pmi2; or set BRAID_RENDEZVOUS=tcp://host:port and "
            "BRAID_SECRET_FILE on all ranks");
  EXPECT_EQ(opened("PMI").message(),
            "the launcher gives its ranks no connection (PMI_FD); or set "
            "BRAID_RENDEZVOUS=tcp://host:port and BRAID_SECRET_FILE on all ranks");
}

TEST(LauncherStore, JobsHaveKeysOfTheirOwn) {
  EXPECT_THAT(storeKey("a job", "address"), testing::MatchesRegex("braid/[0-9a-f]*/address"));
  EXPECT_NE(storeKey("a job", "x"), storeKey("another", "x"));
  EXPECT_LT(storeKey(std::string(100000, 'j'), std::string(kMaxStoreName, 'n')).size(), 80u);
}

TEST(LauncherStore, ValuesComeBackAsTheyWere) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte)
    all += static_cast<char>(byte);
  EXPECT_EQ(unescapeStoreValue(escapeStoreValue(all)), all);
  EXPECT_EQ(escapeStoreValue("tcp://[::1]:7 %"), "tcp://%5b::1%5d:7%20%25");
  for (const char *text : {"%", "%1", "%1g", "a b", "\n", "="})
    EXPECT_EQ(unescapeStoreValue(text), std::nullopt) << text;
}

} // namespace
} // namespace braid
