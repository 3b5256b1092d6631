//===- tests/bootstrap/bootstrap_test.h - helpers for tests whose ranks are threads -----------===//
#pragma once

#include "runtime/job/bootstrap/rendezvous.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>

namespace braid {

using namespace std::chrono_literals;

/// A deadline far beyond what any step needs on a loaded machine.
inline Deadline soon() { return deadlineIn(30s); }

/// Returns the number of descriptors that this process has open.
inline size_t countDescriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto &entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

/// Polls until `condition` holds. Returns false if it does not hold by the deadline soon().
template <class Condition> bool eventually(Condition condition) {
  for (Deadline end = soon(); std::chrono::steady_clock::now() < end;) {
    if (condition())
      return true;
    std::this_thread::sleep_for(1ms);
  }
  return condition();
}

/// Listens under a random name.
inline Result<RendezvousPlace> listenAnywhere() {
  return listenForJob({.job = *randomName()}, soon());
}

/// The host of a job and the job's memory.
struct Host {
  explicit Host(int64_t ranks, RendezvousOptions options = {.job = "job"}) {
    Result<JobMemory> made = JobMemory::create(ranks);
    EXPECT_TRUE(made.isOk()) << made.status().message();
    memory = std::make_unique<JobMemory>(std::move(*made));
    Result<RendezvousPlace> place = listenAnywhere();
    EXPECT_TRUE(place.isOk()) << place.status().message();
    auto started = Rendezvous::start(std::move(*place), *memory, std::move(options));
    EXPECT_TRUE(started.isOk()) << started.status().message();
    rendezvous = std::move(*started);
  }
  const std::string &name() const { return rendezvous->name(); }

  std::unique_ptr<JobMemory> memory;
  std::unique_ptr<Rendezvous> rendezvous;
};

/// Joins a job. If this fails, the test fails with the error.
inline std::unique_ptr<Client> joinAs(const std::string &name, int64_t rank, int64_t ranks,
                                      const std::string &job = "job") {
  auto client = Client::join(name, {.job = job, .rank = rank, .ranks = ranks}, soon());
  EXPECT_TRUE(client.isOk()) << client.status().message();
  return client ? std::move(*client) : nullptr;
}

/// Joins the next all-gather, or commits step `step`, as a rank's control plane does.
inline Status meet(Client &client, const std::string &part, uint32_t step) {
  client.abortIfHostIsGone();
  return client.memory().meet(client.rank(), part, step);
}
inline Result<std::vector<std::string>> allGather(Client &client, const std::string &part) {
  client.abortIfHostIsGone();
  return client.memory().allGather(client.rank(), part);
}

/// Runs `body` for each rank, each on a separate thread.
template <class Body> void onAllRanks(int64_t ranks, Body body) {
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([=] { body(rank); });
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace braid
