//===- api/compile/compile.h - compiles a source to the program that every rank runs ----------===//
#pragma once

#include "api/compile/source.h"
#include "lowering/lower.h"
#include "runtime/plan/transport.h"

namespace braid {

/// The user's choices. An empty optional means the default. The defaults of knobs are in
/// lowering/schedule/knobs.def.
struct CompileOptions {
  /// The name of the fusion or program to compile. Optional if the text has only one program, or no
  /// program and only one fusion.
  std::optional<std::string> entry = {};
  /// The number of ranks. Sets the parameter that sizes a fusion's mesh; must equal a program's.
  std::optional<int64_t> ranks = {};
  /// Values for a fusion's parameters, by name.
  std::vector<std::pair<std::string, int64_t>> parameters = {};
  /// The knobs of each stage. Unset knobs have their defaults.
  Configurations schedule = {};
  /// If true, the ranks choose the schedule by measuring. They do not vary the knobs in `schedule`.
  bool isAuto = false;
  /// If true, results depend only on the inputs, the number of ranks, the kind of device and the
  /// library. Schedules that add partial results in an order other than that of the ranks are
  /// refused. Programs are not restricted; CheckOptions::ordered proves their order.
  bool reproducible = false;
  /// The transport between ranks, unless the schedule sets it. Messages have no protocol, copies or
  /// signals, and no GEMM stores into a peer's memory, so these knobs are refused.
  Transport transport = Transport::PeerMemory;
  /// Called after each pass. May be empty.
  AfterPass afterPass = {};

  /// Sets `schedule` and `isAuto` from a text such as "ring;chunks=2" or "auto;chunks=2". `flags`
  /// are as in Configuration::parse().
  Status readSchedule(llvm::StringRef text, const Configuration &flags = {});
};

/// A verified program, and the fusion that it implements, if any. Refers to the Source.
struct Compiled {
  Source *source = nullptr;
  const Program *program = nullptr;
  const Fusion *fusion = nullptr; ///< null if the expected result is unknown
  bool isLowered = false;         ///< lowered from the fusion here, rather than read from the text
  bool isReproducible = false;    ///< see CompileOptions; the caller selects the GEMMs for it
  Transport transport = Transport::PeerMemory; ///< the transport of its Plans
};

/// The knobs of access to peers' memory, which have no meaning for messages.
constexpr Knob kKnobsOfPeerMemory[] = {Knob::Protocol, Knob::SecondShot, Knob::Partials,
                                       Knob::Copies,   Knob::Signals,    Knob::Memory};

/// Returns the transport that `config` sets, or else `otherwise`.
Transport transportOf(const Configuration &config, Transport otherwise);

/// Verifies the source, and finds its program or lowers its fusion to one, which is added to the
/// source's module. Located mistakes are added to source.diags, and the Status only refers to them.
/// Other mistakes are in the Status alone.
Result<Compiled> compile(Source &source, const CompileOptions &options);

} // namespace braid
