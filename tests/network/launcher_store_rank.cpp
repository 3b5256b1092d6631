//===- tests/network/launcher_store_rank.cpp - a rank that reaches the others by its launcher
//
// launcher_store_rank FILE: rank 0 waits until FILE is there, then puts two texts, and stays until
// its standard input, or FILE, is gone; others print what they get.
//
//===----------------------------------------------------------------------------------------===//

#include "runtime/job/network/launcher_store.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <thread>

using namespace braid;
using namespace std::chrono_literals;

namespace {

const std::string kSecret("\0\n =%\xff", 6);

void waitUntil(const std::string &file, bool isThere, Deadline deadline) {
  while (std::filesystem::exists(file) != isThere && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(10ms);
}

Status meet(const Place &place, const std::string &file, Deadline deadline) {
  auto store = openLauncherStore(place, processEnvironment(), deadline);
  if (!store)
    return store.status();
  if (place.rank == 0) {
    waitUntil(file, true, deadline);
    Status status = (*store)->put("address", "tcp://[::1]:" + place.job.substr(0, 4), deadline);
    if (status.isOk())
      status = (*store)->put("secret", kSecret, deadline);
    waitUntil(file, false, deadline);
    return status;
  }
  auto address = (*store)->get("address", deadline), secret = (*store)->get("secret", deadline);
  if (!address || !secret)
    return address ? secret.status() : address.status();
  auto never = (*store)->get("never", deadlineIn(100ms));
  if (never || never.status().code() != StatusCode::TimedOut)
    return Status(StatusCode::WrongResult, "expected to run out of time");
  if (*secret != kSecret)
    return Status(StatusCode::WrongResult, "expected the secret that was put");
  fmt::print("rank {} of {} on host {} of {}: {}\n", place.rank, place.ranks, place.host,
             place.hosts, *address);
  std::fflush(stdout);
  return Status::ok();
}

} // namespace

int main(int count, char **arguments) {
  auto place = findPlace(processEnvironment());
  Status status = !place                 ? place.status()
                  : *place && count == 2 ? meet(**place, arguments[1], deadlineIn(60s))
                                         : Status(StatusCode::BadInput, "expected to be a rank");
  if (!status.isOk())
    fmt::print(stderr, "launcher_store_rank: {}\n", status.message());
  return static_cast<int>(status.code());
}
