//===- api/compile/compile.h - from a source to the program that every rank runs --------------===//
#pragma once

#include "api/compile/source.h"
#include "lowering/schedule/configuration.h"
#include "runtime/plan/transport.h"

#include <functional>

namespace braid {

/// A user's choices. An empty optional means the default, which for knobs is the one in
/// lowering/schedule/knobs.def.
struct CompileOptions {
  /// Which fusion or program of the text; may be left out where there is only one program, or no
  /// program and only one fusion.
  std::optional<std::string> entry = {};
  /// The mesh's size. Sets the parameter that sizes a fusion's mesh; must equal a program's.
  std::optional<int64_t> ranks = {};
  /// Values for a fusion's parameters, by name.
  std::vector<std::pair<std::string, int64_t>> parameters = {};
  /// For each stage; what has no value has its default.
  Configurations schedule = {};
  /// The ranks choose the schedule by measuring. `schedule` has what they do not vary.
  bool isAuto = false;
  /// Results are to depend on the inputs alone, for so many ranks, a kind of device and a library.
  /// Schedules that add partial results in another order than that of ranks are refused. A program
  /// is taken as it is; CheckOptions::ordered proves its order.
  bool reproducible = false;
  /// The transport between ranks, unless the schedule names one. Messages have no protocol, copies
  /// or signals to choose, and no GEMM stores at a peer: such knobs are refused.
  Transport transport = Transport::PeerMemory;
  /// Called with a pass's name and the program after it; may be empty.
  std::function<void(llvm::StringRef pass, const Program &program)> afterPass = {};

  /// Sets `schedule` and `isAuto` from a text such as "ring;chunks=2" or "auto;chunks=2". `flags`
  /// are as in Configuration::parse().
  Status readSchedule(llvm::StringRef text, const Configuration &flags = {});
};

/// A verified program, and the fusion it implements if any. Points into the Source.
struct Compiled {
  Source *source = nullptr;
  const Program *program = nullptr;
  const Fusion *fusion = nullptr; ///< null: nothing says what the result should be
  bool isLowered = false;         ///< made from the fusion here, rather than read
  bool isReproducible = false;    ///< see CompileOptions; whoever runs it sees to the GEMMs
  Transport transport = Transport::PeerMemory; ///< its Plans use this
  Operands operands = Operands::Anywhere;      ///< likewise

  /// As `config` says it, and where it does not, by `transport`.
  void travelBy(const Configuration &config, Transport otherwise);
};

/// Knobs about peers' memory, which have no meaning for messages.
constexpr Knob kKnobsOfPeerMemory[] = {Knob::Protocol, Knob::SecondShot, Knob::Partials,
                                       Knob::Copies, Knob::Signals};
/// The first of them that `config` says, or memory that is not NCCL's, which messages may have.
std::optional<Knob> knobOfPeerMemoryIn(const Configuration &config);
/// `config` says something that holds for messages only.
bool asksForMessages(const Configuration &config);

/// The transport that `config` names, or else `otherwise`.
Transport transportOf(const Configuration &config, Transport otherwise);

/// Verifies the source and finds or makes its program, which is added to the source's module.
/// Located mistakes are in source.diags, and the Status then just says so; others are in the
/// Status alone.
Result<Compiled> compile(Source &source, const CompileOptions &options);

} // namespace braid
