//===- tools/bench/worker/serve.cpp - one rank of the job that times our rows -----------------===//
//
// Rank 0 reads requests and hands each to all; the other ranks wait for it in a collective that
// does not spin. A row that cannot be lowered is refused and the job goes on; any other failure
// ends the job, whose first cause is then the row's.
//
//===----------------------------------------------------------------------------------------===//

#include "tools/bench/worker/serve.h"

#include "api/autotune/choose.h"
#include "api/bench/row_timer.h"
#include "api/launch/job_rank.h"
#include "api/ranks/run.h"
#include "ir/failure.h"
#include "runtime/warn.h"
#include "tools/bench/worker/channel.h"
#include "tools/command.h"

#include "llvm/Support/raw_ostream.h"

#include <fcntl.h>

namespace braid::tools {
namespace {

using Json = nlohmann::json;

/// How often rank 0, while it waits, says that it is not stuck.
constexpr std::chrono::milliseconds kTick{100};

Json refusal(const Status &status) {
  return {{"failure", status.message()}, {"code", static_cast<int>(status.code())}};
}

class BenchServer {
public:
  /// `plans`: those that `planTimer` has prepared.
  BenchServer(const BenchFlags &flags, const Backend &backend, Cluster &cluster, RowTimer &timer,
              const PlanTimer &planTimer, const TimedPlans &plans, const BenchTypes &types,
              Channel channel)
      : flags_(flags), backend_(backend), cluster_(cluster),
        control_(cluster.control(cluster.firstHosted())), timer_(timer), planTimer_(planTimer),
        plans_(plans), types_(types), channel_(std::move(channel)) {}

  /// Until the end is asked for, or the job has failed. Collective.
  Status serve();

private:
  Result<Json> nextRequest();
  Result<Json> answerTo(const Json &request);
  Status send(const Json &message) {
    return control_.rank() == 0 ? channel_.send(message) : Status::ok();
  }

  const BenchFlags &flags_;
  const Backend &backend_;
  Cluster &cluster_;
  ControlPlane &control_;
  RowTimer &timer_;
  const PlanTimer &planTimer_;
  const TimedPlans &plans_;
  const BenchTypes types_;
  Channel channel_; ///< of rank 0
  std::optional<BenchShape> shape_;
};

Status BenchServer::serve() {
  std::string device = cluster_.device(cluster_.firstHosted()).description();
  if (backend_.transport == Transport::Messages)
    device += ", NCCL " + BRAID_TRY(backend_.messages());
  BRAID_TRY(send({{"id", 0}, {"device", device}}));
  while (true) {
    Json request = BRAID_TRY(nextRequest());
    if (request.contains("end"))
      return control_.commit();
    Json answer = BRAID_TRY(answerTo(request));
    answer["id"] = request.at("id");
    answer["bytes"] = planTimer_.allocatedBytes();
    answer["prepared"] = plans_.size();
    BRAID_TRY(send(answer));
  }
}

/// The same on all ranks.
Result<Json> BenchServer::nextRequest() {
  std::string text;
  while (control_.rank() == 0 && text.empty()) {
    std::optional<Json> request = BRAID_TRY(channel_.receive(kTick));
    if (request)
      text = request->dump();
    control_.tick();
  }
  std::vector<std::string> texts = BRAID_TRY(control_.allGather(text));
  return Json::parse(texts.front(), nullptr, /*allow_exceptions=*/false);
}

/// Requests are the command's own, so they have what they should.
Result<Json> BenchServer::answerTo(const Json &request) {
  BenchShape shape{request.at("m"), request.at("n"), request.at("k")};
  if (shape_ != shape)
    timer_.forgetRows();
  shape_ = shape;
  Result<TimedRow> row = flags_.operation.makeRow(
      request.at("row"), shape, types_, cluster_.ranks(), request.at("graph").get<bool>());
  if (!row)
    return refusal(row.status());
  row->options.reproducible = flags_.source.reproducible;
  row->options.transport = backend_.transport;
  if (Status status = timer_.lower(*row); !status.isOk())
    return refusal(status);
  RowTimes times = BRAID_TRY(timer_.time(*row, {.warmUp = request.at("warm_up"),
                                                .iterations = request.at("iterations"),
                                                .limitUs = request.at("limit_us"),
                                                .warmUpUs = request.at("warm_up_us"),
                                                .idleGapUs = request.at("idle_gap_us"),
                                                .bursts = request.at("bursts")}));
  return Json{
      {"samples_us", times.us}, {"burst_us", times.burstUs}, {"choice", timer_.choiceOf(*row)}};
}

/// What `auto` is, found as `braid run --schedule auto` finds it; rank 0 shows the best candidates.
RowChooser chooserFor(const BenchFlags &flags, const Backend &backend, PlanTimer &planTimer) {
  ChooseOptions options = chooseOptions(backend, /*ranksAreProcesses=*/true);
  options.seconds = 4; // the choice is compared with other rows, and nobody waits for it
  if (flags.graph != "both")
    options.launchModes = {flags.graph == "yes" ? LaunchMode::Graph : LaunchMode::Eager};
  if (planTimer.rank() == 0)
    options.warn = warnOnStderr;
  return [options, &planTimer](const TimedRow &row) -> Result<ChosenRow> {
    ScheduleChoice choice;
    TimedRow chosen = BRAID_TRY(chooseRow(row, options, planTimer, &choice));
    if (planTimer.rank() == 0)
      llvm::errs() << explain(choice);
    return ChosenRow{std::move(chosen), choice.best().str()};
  };
}

Result<Channel> openChannel(const BenchFlags &flags) {
  FileDescriptor in(open(flags.requests.c_str(), O_RDONLY | O_CLOEXEC));
  FileDescriptor out(open(flags.answers.c_str(), O_WRONLY | O_CLOEXEC));
  if (!in.isValid() || !out.isValid())
    return badInput("expected --requests and --answers to be the bench's pipes");
  return Channel(std::move(in), std::move(out));
}

Status serveAsRank(const BenchFlags &flags, const Backend &backend, const BenchTypes &types,
                   JobRank &rank) {
  const int64_t number = rank.place().rank;
  Channel channel;
  if (number == 0)
    channel = BRAID_TRY(openChannel(flags));
  ClusterOptions options{.ranks = rank.place().ranks,
                         .timeout = std::chrono::milliseconds(flags.timeoutMs),
                         .reproducible = flags.source.reproducible};
  TimedPlans plans; // outlives the devices
  auto mesh = BRAID_TRY(LocalMesh::join(backend, options, rank.takeClient()));
  PlanTimer planTimer(mesh->cluster(), number, plans, rank.barrier());
  RowTimer timer(planTimer);
  timer.setChooser(chooserFor(flags, backend, planTimer));
  return BenchServer(flags, backend, mesh->cluster(), timer, planTimer, plans, types,
                     std::move(channel))
      .serve();
}

} // namespace

int benchRank(const BenchFlags &flags) {
  BackendRegistry registry = builtinBackends();
  const Backend *backend = registry.find(flags.backend);
  Result<BenchTypes> types = flags.types();
  Result<std::optional<Place>> place = findPlace(processEnvironment());
  if (!backend || !types || !place || !*place)
    return report(badInput("expected to be one rank of a bench's job"));
  Result<std::unique_ptr<JobRank>> rank =
      JobRank::join(**place, std::chrono::milliseconds(flags.timeoutMs));
  if (!rank)
    return static_cast<int>(rank.status().code());
  Status status = serveAsRank(flags, *backend, *types, **rank);
  if (!status.isOk())
    status = (*rank)->fail(status);
  return static_cast<int>(status.code());
}

} // namespace braid::tools
