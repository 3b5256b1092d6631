//===- tests/bootstrap/hosts_in_process.h - jobs of several hosts in one process --------------===//
#pragma once

#include "ir/failure.h"
#include "runtime/job/bootstrap/other_hosts.h"
#include "tests/bootstrap/bootstrap_test.h"

#include <map>

namespace braid {

/// The contents of the store that all hosts share.
struct SharedTexts {
  std::mutex mutex;
  std::map<std::string, std::string> texts;
};

/// A host's connection to the store.
class SharedStore final : public Store {
public:
  /// Tests may set these from any thread.
  struct Faults {
    std::atomic<bool> isCut{false};  ///< calls time out
    std::atomic<bool> isGone{false}; ///< calls fail
  };
  SharedStore(std::shared_ptr<SharedTexts> shared, std::shared_ptr<Faults> faults)
      : shared_(std::move(shared)), faults_(std::move(faults)) {}

  Status put(const std::string &key, const std::string &value) override {
    if (Status fault = this->fault(); !fault.isOk())
      return fault;
    std::lock_guard lock(shared_->mutex);
    shared_->texts[key] = value;
    return Status::ok();
  }
  Result<std::string> putIfAbsent(const std::string &key, const std::string &value) override {
    if (Status fault = this->fault(); !fault.isOk())
      return fault;
    std::lock_guard lock(shared_->mutex);
    return shared_->texts.try_emplace(key, value).first->second;
  }
  Result<std::optional<std::string>> poll(const std::string &key) override {
    if (Status fault = this->fault(); !fault.isOk())
      return fault;
    std::lock_guard lock(shared_->mutex);
    const auto found = shared_->texts.find(key);
    return found == shared_->texts.end() ? std::optional<std::string>() : found->second;
  }

private:
  Status fault() const {
    if (faults_->isGone)
      return peerFailed("the store is gone");
    if (!faults_->isCut)
      return Status::ok();
    std::this_thread::sleep_for(20ms);
    return timedOut("the store did not answer in time");
  }
  const std::shared_ptr<SharedTexts> shared_;
  const std::shared_ptr<Faults> faults_;
};

struct JobShape {
  int64_t hosts = 2, perHost = 2;
  std::chrono::milliseconds join{30000}, silence{30000};
  int64_t ranks() const { return hosts * perHost; }
};

/// A host with its memory and its rendezvous.
class JobHost {
public:
  JobHost(const JobShape &shape, int64_t number, std::shared_ptr<SharedTexts> shared)
      : faults_(std::make_shared<SharedStore::Faults>()) {
    auto made = JobMemory::create(shape.ranks(), {number, shape.hosts});
    EXPECT_TRUE(made.isOk()) << made.status().message();
    memory_ = std::make_unique<JobMemory>(std::move(*made));
    auto others =
        OtherHosts::start(std::make_unique<SharedStore>(std::move(shared), faults_), *memory_,
                          {.job = "job", .joinTimeout = shape.join, .silence = shape.silence});
    EXPECT_TRUE(others.isOk()) << others.status().message();
    others_ = std::move(*others);
    auto place = listenAnywhere();
    EXPECT_TRUE(place.isOk()) << place.status().message();
    auto started =
        Rendezvous::start(std::move(*place), *memory_, {.job = "job", .joinTimeout = shape.join});
    EXPECT_TRUE(started.isOk()) << started.status().message();
    rendezvous_ = std::move(*started);
  }

  JobMemory &memory() { return *memory_; }
  SharedStore::Faults &faults() { return *faults_; }
  std::unique_ptr<Client> join(int64_t rank) {
    return joinAs(rendezvous_->name(), rank, memory_->ranks());
  }

private:
  const std::shared_ptr<SharedStore::Faults> faults_;
  std::unique_ptr<JobMemory> memory_;
  std::unique_ptr<Rendezvous> rendezvous_;
  std::unique_ptr<OtherHosts> others_;
};

/// All hosts and ranks of a job, except host `without` and its ranks.
class JobOfHosts {
public:
  explicit JobOfHosts(const JobShape &shape, int64_t without = -1,
                      std::shared_ptr<SharedTexts> shared = std::make_shared<SharedTexts>())
      : shape_(shape), shared_(std::move(shared)) {
    for (int64_t number = 0; number < shape.hosts; ++number)
      hosts_.push_back(number == without ? nullptr
                                         : std::make_unique<JobHost>(shape, number, shared_));
    for (int64_t rank = 0; rank < shape.ranks(); ++rank)
      clients_.push_back(rank / shape.perHost == without ? nullptr
                                                         : host(rank / shape.perHost).join(rank));
  }
  ~JobOfHosts() {
    clients_.clear();
    // The hosts leave concurrently, because host 0 waits for the others.
    onAllRanks(shape_.hosts, [this](int64_t number) { endHost(number); });
  }

  const JobShape &shape() const { return shape_; }
  const std::shared_ptr<SharedTexts> &shared() const { return shared_; }
  JobHost &host(int64_t number) { return *hosts_[static_cast<size_t>(number)]; }
  JobMemory &memory(int64_t number) { return host(number).memory(); }
  Client &client(int64_t rank) { return *clients_[static_cast<size_t>(rank)]; }
  void endHost(int64_t number) { hosts_[static_cast<size_t>(number)].reset(); }
  void endRanksOf(int64_t host) {
    for (int64_t rank = host * shape_.perHost; rank < (host + 1) * shape_.perHost; ++rank)
      clients_[static_cast<size_t>(rank)].reset();
  }
  /// Runs `body(rank, client)` for each existing rank on a separate thread.
  template <class Body> void onRanks(Body body) {
    onAllRanks(shape_.ranks(), [&](int64_t rank) {
      if (clients_[static_cast<size_t>(rank)])
        body(rank, client(rank));
    });
  }
  /// Waits until all existing hosts report the same cause, and returns its text.
  std::string commonCause() {
    std::string text;
    for (const auto &host : hosts_) {
      if (!host)
        continue;
      EXPECT_TRUE(eventually([&] { return host->memory().isAborted(); }));
      if (!host->memory().isAborted())
        continue;
      const std::string its = host->memory().cause()->status.message();
      EXPECT_TRUE(text.empty() || text == its) << text << "\n" << its;
      text = its;
    }
    return text;
  }

private:
  const JobShape shape_;
  const std::shared_ptr<SharedTexts> shared_;
  std::vector<std::unique_ptr<JobHost>> hosts_;
  std::vector<std::unique_ptr<Client>> clients_;
};

} // namespace braid
