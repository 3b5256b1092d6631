//===- tests/bootstrap/rendezvous_test.cpp - ranks that meet, exchange, leave and die ---------===//

#include "tests/bootstrap/bootstrap_test.h"

#include <csignal>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace braid {
namespace {

RendezvousOptions optionsFor(int64_t ranks) { return {.ranks = ranks, .job = "job"}; }

TEST(Rendezvous, GathersInRankOrder) {
  Host host(optionsFor(4));
  onAllRanks(4, [&](int64_t rank) {
    auto member = joinAs(host.path(), rank, 4);
    for (int step = 0; step < 100; ++step) {
      auto mine = [&](int64_t of) { return std::to_string(step) + ":" + std::to_string(of); };
      auto parts = (*member)->allGather(mine(rank));
      ASSERT_TRUE(parts.isOk()) << parts.status().message();
      EXPECT_EQ(*parts, (std::vector{mine(0), mine(1), mine(2), mine(3)}));
    }
  });
  EXPECT_TRUE(host.rendezvous->waitForAllToLeave(soon()).isOk());
  EXPECT_FALSE(host.memory->isAborted());
  for (int64_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(host.memory->slot(rank).state, static_cast<uint32_t>(RankState::Left));
}

} // namespace
} // namespace braid
