//===- tools/doctor.cpp - `braid doctor` ------------------------------------------------------===//

#include "api/doctor/between_ranks.h"
#include "api/doctor/report.h"
#include "api/launch/job_rank.h"
#include "api/ranks/run.h"
#include "ir/failure.h"
#include "runtime/job/process_group.h"
#include "tools/command.h"
#include "tools/integer_flag.h"
#include "tools/process.h"

#include "llvm/Support/raw_ostream.h"

#include <algorithm>

#include <unistd.h>

namespace braid::tools {
namespace {

constexpr const char *kDoctorFooter = R"(
Goes through what stops programs on GPUs in practice: driver and libraries, access between GPUs,
containers and limits, power, clocks and errors, variables, the folder of measurements. Uses no GPU
and changes nothing. Each line is ok, a note or a problem: what was seen, and below it what to do.
Under torchrun, mpirun or srun the ranks compare what they see, and rank 0 prints.

Exit codes: 0, also with notes, and where there is no GPU; 4 with a problem, which stops programs
here from running.

  braid doctor
  braid doctor --json
  mpirun -n 4 braid doctor)";

struct DoctorFlags {
  bool asJson = false;
  std::optional<int64_t> ranks;
  int64_t timeoutMs = 60000;
};

/// The ranks of a job, met to compare.
class Meeting {
public:
  static Result<std::unique_ptr<Meeting>> join(const Place &place,
                                               std::chrono::milliseconds timeout) {
    std::unique_ptr<Meeting> meeting(new Meeting());
    meeting->job_ = BRAID_TRY(JobRank::join(place, timeout));
    meeting->group_ = std::make_unique<ProcessGroup>(meeting->job_->takeClient(), timeout);
    Status status = meeting->group_->start();
    return status.isOk() ? Result<std::unique_ptr<Meeting>>(std::move(meeting)) : status;
  }

  /// What all ranks say, decoded.
  template <class Value>
  Result<std::vector<Value>> gather(std::string mine, Result<Value> (*decode)(llvm::StringRef)) {
    std::vector<Value> values;
    const std::vector<std::string> texts = BRAID_TRY(group_->allGather(std::move(mine)));
    for (const std::string &text : texts)
      values.push_back(BRAID_TRY(decode(text)));
    return values;
  }

  Status end() {
    BRAID_TRY(group_->commit());
    group_->close();
    group_->leave();
    return Status::ok();
  }

private:
  Meeting() = default;
  std::unique_ptr<JobRank> job_; ///< waits for others when the group has left
  std::unique_ptr<ProcessGroup> group_;
};

/// A launcher that names no rank is none, and so is a job of one.
Result<std::optional<Place>> placeInJob() {
  std::optional<Place> place = BRAID_TRY(findPlace(processEnvironment()));
  if (place && place->ranks == 1)
    place.reset();
  return place;
}

struct Examined {
  doctor::Facts facts;
  std::vector<doctor::Finding> findings;
};

Result<Examined> examine(const DoctorFlags &flags, const std::optional<Place> &place) {
  std::unique_ptr<Meeting> meeting;
  if (place)
    meeting = BRAID_TRY(Meeting::join(*place, std::chrono::milliseconds(flags.timeoutMs)));
  doctor::Sources sources = doctor::processSources(builtinBackends());
  sources.patience = std::min(sources.patience, std::chrono::milliseconds(flags.timeoutMs));
  doctor::Facts facts = doctor::readFacts(sources);
  facts.ranks = flags.ranks.value_or(place ? place->ranks : 0);
  if (!meeting)
    return Examined{facts, doctor::runChecks(facts)};
  facts.own.gpu = facts.gpuOfRank(place->localRank);
  facts.ofRanks =
      BRAID_TRY(meeting->gather<doctor::RankFacts>(facts.own.encode(), doctor::RankFacts::decode));
  const auto findings = BRAID_TRY(meeting->gather<std::vector<doctor::Finding>>(
      doctor::encodeFindings(doctor::runChecks(facts)), doctor::decodeFindings));
  BRAID_TRY(meeting->end());
  return Examined{facts, doctor::mergeFindings(findings)};
}

Result<int> doctorCommand(const DoctorFlags &flags) {
  if (flags.ranks.value_or(1) < 1)
    return badInput("expected --ranks to be at least 1, got {}", *flags.ranks);
  if (flags.timeoutMs < 1 || flags.timeoutMs > 86400000)
    return badInput("expected --timeout-ms to be from 1 to 86400000, got {}", flags.timeoutMs);
  const std::optional<Place> place = BRAID_TRY(placeInJob());
  const Examined examined = BRAID_TRY(examine(flags, place));
  const auto &[facts, findings] = examined;
  if (!place || place->rank == 0)
    llvm::outs() << (flags.asJson
                         ? doctor::reportJson(facts, findings)
                         : doctor::reportText(facts, findings, wantsColours(STDOUT_FILENO)));
  return doctor::exitCodeOf(findings);
}

} // namespace

Command addDoctor(CLI::App &app) {
  auto flags = std::make_shared<DoctorFlags>();
  CLI::App *command = app.add_subcommand("doctor", "Say what stops programs here from running");
  command->add_flag("--json", flags->asJson, "the same as JSON");
  addInteger(*command, "--ranks", flags->ranks, "R",
             "how many ranks are to run here (default: one for each GPU, or those of the job)");
  addInteger(*command, "--timeout-ms", flags->timeoutMs, "T",
             "how long ranks of a job wait for each other (default 60000), and how long the driver "
             "is waited for, at most 20000");
  command->footer(kDoctorFooter);
  return {command, [flags] {
            return runCommand([&](std::unique_ptr<Source> &) { return doctorCommand(*flags); });
          }};
}

} // namespace braid::tools
