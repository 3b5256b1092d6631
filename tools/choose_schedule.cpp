//===- tools/choose_schedule.cpp - what `braid run --schedule auto` comes to ------------------===//

#include "tools/choose_schedule.h"

#include "api/launch/launch.h"
#include "ir/failure.h"
#include "runtime/files.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <unistd.h>

namespace braid::tools {
namespace {

/// A file for rank 0 to write to, gone with this object.
class AnswerFile {
public:
  static Result<std::unique_ptr<AnswerFile>> create() {
    std::string path = temporaryFolder() + "/braid-choice-XXXXXX";
    const int descriptor = mkstemp(path.data());
    if (descriptor < 0)
      return unsupported("cannot make a file like {}", path);
    close(descriptor);
    return std::unique_ptr<AnswerFile>(new AnswerFile(path));
  }
  ~AnswerFile() { unlink(path_.c_str()); }
  AnswerFile(const AnswerFile &) = delete;
  const std::string &path() const { return path_; }
  Result<std::string> read() const { return readFile(path_, 4096); }

private:
  explicit AnswerFile(std::string path) : path_(std::move(path)) {}
  const std::string path_;
};

} // namespace

std::vector<std::string> commandLine(const std::vector<std::string> &extra,
                                     llvm::StringRef command) {
  std::vector<std::string> arguments;
  if (auto text = llvm::MemoryBuffer::getFileAsStream("/proc/self/cmdline")) {
    llvm::SmallVector<llvm::StringRef> parts;
    // Every argument ends with a zero.
    (*text)->getBuffer().drop_back().split(parts, '\0');
    for (llvm::StringRef part : parts)
      arguments.push_back(part.str());
  }
  auto subcommand = llvm::find(arguments, command);
  if (subcommand != arguments.end())
    arguments.insert(subcommand + 1, extra.begin(), extra.end());
  return arguments;
}

ScheduleChooser::ScheduleChooser(const RunFlags &flags, const RankSetup &setup,
                                 const Backend &backend, const Source &source, CompileOptions given,
                                 int64_t ranks)
    : flags_(flags), setup_(setup), backend_(backend), source_(source), given_(std::move(given)),
      ranks_(ranks) {}

ChooseOptions ScheduleChooser::options() const {
  ChooseOptions options = chooseOptions(backend_, setup_.kind != RankSetup::Threads);
  options.given = given_;
  const Configuration &given = given_.schedule.all;
  if (given.get(Knob::Launch))
    options.launchModes = {launchModeOf(given)};
  else if (!flags_.trace.empty()) // that of a graph has no commands
    options.launchModes = {LaunchMode::Eager};
  if (transferModeOf(given) != TransferMode())
    options.transferModes = {transferModeOf(given)};
  options.timed = flags_.timeBest;
  options.warn = [](const std::string &line) {
    llvm::errs() << "braid: warning: " << line << "\n";
  };
  return options;
}

ClusterOptions ScheduleChooser::clusterOptions() const {
  return {.ranks = ranks_,
          .timeout = std::chrono::milliseconds(flags_.timeoutMs),
          .reproducible = given_.reproducible};
}

Result<Configurations> ScheduleChooser::chooseOn(LocalMesh &mesh, std::vector<TimedPlans> &plans,
                                                 const std::function<bool()> &barrier) {
  std::optional<ScheduleChoice> choice;
  auto chooseOnRank = [&](int64_t rank) {
    const int64_t hosted = rank - mesh.firstHosted();
    PlanTimer timer(mesh.cluster(), rank, plans[static_cast<size_t>(hosted)], barrier);
    ScheduleChoice mine =
        BRAID_TRY(braid::choose(source_.diags.fileName(), source_.diags.text(), options(), timer));
    if (hosted == 0)
      choice = std::move(mine);
    return mesh.transport(rank).commit();
  };
  BRAID_TRY(mesh.onEveryRank(chooseOnRank));
  if (flags_.explain && mesh.firstHosted() == 0)
    llvm::errs() << (flags_.timeBest ? explain(*choice, choice->candidates.size())
                                     : explain(*choice));
  return choice->best();
}

Result<Configurations> ScheduleChooser::chooseByThreads() {
  std::vector<TimedPlans> plans(static_cast<size_t>(ranks_)); // longer than the mesh
  std::unique_ptr<LocalMesh> mesh = BRAID_TRY(LocalMesh::create(backend_, clusterOptions()));
  return chooseOn(*mesh, plans, nullptr);
}

Result<Configurations> ScheduleChooser::chooseAsRank(JobRank &job) {
  std::vector<TimedPlans> plans(1);
  std::unique_ptr<LocalMesh> mesh =
      BRAID_TRY(LocalMesh::join(backend_, clusterOptions(), job.takeClient()));
  const int64_t rank = job.place().rank;
  return chooseOn(*mesh, plans, [&job, rank] { return job.memory().spinUntilAllCome(rank); });
}

Result<Configurations> ScheduleChooser::chooseByLaunching() {
  std::unique_ptr<AnswerFile> file = BRAID_TRY(AnswerFile::create());
  LaunchReport report = BRAID_TRY(launch({.ranks = ranks_,
                                          .arguments = commandLine({"--choose-into", file->path()}),
                                          .input = source_.diags.text(),
                                          .timeout = std::chrono::milliseconds(flags_.timeoutMs),
                                          .prefixOutput = flags_.prefixOutput}));
  signal_ = report.signal;
  if (!report.status.isOk())
    return report.status;
  Result<std::string> text = file->read();
  return text ? Configurations::parse(*text) : text.status();
}

Result<Configurations> ScheduleChooser::choose() {
  if (!flags_.chosen.empty())
    return Configurations::parse(flags_.chosen);
  switch (setup_.kind) {
  case RankSetup::Threads:
    return chooseByThreads();
  case RankSetup::Launcher:
    return chooseByLaunching();
  case RankSetup::Rank:
    break;
  }
  Place place = *setup_.place;
  place.job += "-choose";
  std::unique_ptr<JobRank> job =
      BRAID_TRY(JobRank::join(place, {std::chrono::milliseconds(flags_.timeoutMs), ""}));
  Result<Configurations> chosen = chooseAsRank(*job);
  return chosen ? chosen : job->fail(chosen.status());
}

Status ScheduleChooser::answer(JobRank &job) {
  Configurations chosen = BRAID_TRY(chooseAsRank(job));
  if (job.place().rank != 0)
    return Status::ok();
  return writeFile(flags_.chooseInto, chosen.str());
}

} // namespace braid::tools
