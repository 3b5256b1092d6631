//===- runtime/execute/backend.cpp - backends by name -----------------------------------------===//

#include "runtime/execute/backend.h"

#include "ir/counted.h"
#include "ir/failure.h"
#include "runtime/job/bootstrap/start_thread.h"

#include <fmt/format.h>

#include <thread>

namespace braid {

/// Formats a layout, for example "2 hosts of 4 ranks each" or "1 host of 8 ranks".
static std::string hostsText(int64_t ranks, int64_t ranksPerHost) {
  const int64_t hosts = ranks / ranksPerHost;
  return fmt::format("{} of {}{}", counted(hosts, "host"), counted(ranksPerHost, "rank"),
                     hosts == 1 ? "" : " each");
}

Status checkHosts(const Cluster &cluster, const Plan &plan) {
  const int64_t expected = cluster.ranksPerHost().value_or(0);
  const int64_t got = plan.ranks / plan.hosts();
  if (expected == 0 || expected == got || plan.ranks != cluster.ranks())
    return Status::ok();
  return badInput("@{} is for {}, but the job has {}: expected mesh [0 .. {}) of {}", plan.program,
                  hostsText(plan.ranks, got), hostsText(cluster.ranks(), expected), plan.ranks,
                  expected);
}

Status Cluster::onEveryRank(const std::function<Status(int64_t rank)> &fn) {
  std::vector<Status> statuses(static_cast<size_t>(hosted()));
  auto call = [&](int64_t i) {
    int64_t rank = firstHosted() + i;
    Status &status = statuses[static_cast<size_t>(i)];
    status = fn(rank);
    if (!status.isOk())
      control(rank).abort(status);
  };
  std::vector<std::thread> threads;
  for (int64_t i = 1; i < hosted(); ++i) {
    Status started = startThread(threads.emplace_back(), "a rank", [&call, i] { call(i); });
    if (started.isOk())
      continue;
    threads.pop_back();
    control(firstHosted()).abort(started);
    statuses[static_cast<size_t>(i)] = std::move(started);
    break;
  }
  call(0);
  for (std::thread &thread : threads)
    thread.join();
  for (const Status &status : statuses)
    if (!status.isOk())
      return fail(status);
  return Status::ok();
}

Status Cluster::synchronize() {
  return onEveryRank([this](int64_t rank) { return device(rank).synchronize(); });
}

Status Cluster::commit() {
  return onEveryRank([this](int64_t rank) { return control(rank).commit(); });
}

Status Cluster::fail(const Status &cause) {
  control(firstHosted()).abort(cause);
  // After a failure, synchronize() immediately returns the root cause.
  const Status first = device(firstHosted()).synchronize();
  return first.isOk() ? cause : first;
}

const Backend *BackendRegistry::find(llvm::StringRef name) const {
  for (const Backend &backend : backends_)
    if (name == backend.name)
      return &backend;
  return nullptr;
}

std::vector<std::string> BackendRegistry::names() const {
  std::vector<std::string> names;
  for (const Backend &backend : backends_)
    names.push_back(backend.name);
  return names;
}

std::string describe(const Tag &tag) {
  const bool isKnown = tag.plan && tag.command < tag.plan->commands.size();
  return fmt::format("{}, run {}",
                     isKnown ? describeOrigin(*tag.plan, tag.plan->commands[tag.command].origin)
                             : "a command that is not part of a plan",
                     tag.run);
}

} // namespace braid
