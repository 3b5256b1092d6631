//===- api/compile/compile.h - compiles a source to the program that every rank runs ----------===//
#pragma once

#include "ir/module.h"
#include "lowering/lower.h"
#include "runtime/plan/transport.h"

namespace braid {

/// A source text, its module and its diagnostics. Must outlive all programs, Plans and runs made
/// from it, because they may refer to it.
struct Source {
  explicit Source(std::string name, std::string text = "")
      : diags(std::move(name), std::move(text)) {}

  Diagnostics diags;
  Module module;
};

/// Parses `text`, named `name` in diagnostics. Errors are added to the result's `diags`.
std::unique_ptr<Source> parseSource(std::string name, std::string text);
/// Parses the file `path`, or standard input for "-". Diagnostics name the file `name`, or `path`
/// if `name` is empty. Returns BadInput if the file cannot be read or exceeds 64 MiB.
Result<std::unique_ptr<Source>> readSource(const std::string &path, const std::string &name = "");

/// Replaces the message of a failed `status` with the errors in `diags`, if any.
Status withLocated(const Status &status, const Diagnostics &diags);

/// The user's choices. An empty optional selects the default.
struct CompileOptions {
  /// The name of the fusion or program to compile. Optional if the text has only one program, or
  /// one fusion and no program.
  std::optional<std::string> entry = {};
  /// The number of ranks. Sets a fusion's mesh size; must equal a program's number of ranks.
  std::optional<int64_t> ranks = {};
  /// Values for a fusion's parameters, by name.
  std::vector<std::pair<std::string, int64_t>> parameters = {};
  /// The knobs for each stage. Unset knobs default to the values in lowering/schedule/knobs.def.
  Configurations schedule = {};
  /// If true, the ranks choose the knobs that `schedule` leaves unset, by measurement.
  bool isAuto = false;
  /// If true, results depend only on the inputs, the number of ranks, the device model and the
  /// library. Lowering rejects schedules that do not add partial results in rank order. The order
  /// of additions in a program is checked later: see CheckOptions::ordered.
  bool reproducible = false;
  /// The transport between ranks, unless the schedule sets one. With Messages, the knobs in
  /// kKnobsOfPeerMemory are rejected.
  Transport transport = Transport::PeerMemory;
  /// Called after each pass. May be empty.
  AfterPass afterPass = {};

  /// Sets `schedule` and `isAuto` from text such as "ring;chunks=2" or "auto;chunks=2". See
  /// Configuration::parse() for `flags`.
  Status readSchedule(llvm::StringRef text, const Configuration &flags = {});
};

/// A verified program, and the fusion that it implements, if any. The Source must outlive both.
struct Compiled {
  Source *source = nullptr;
  const Program *program = nullptr;
  const Fusion *fusion = nullptr; ///< null if the program implements no known fusion
  bool isLowered = false;         ///< true if lowered from `fusion`, false if read from the text
  bool isReproducible = false;    ///< see CompileOptions; the caller must select reproducible GEMMs
  Transport transport = Transport::PeerMemory; ///< the transport for the program's Plans
};

/// The knobs that apply only to peer-memory access, not to messages.
constexpr Knob kKnobsOfPeerMemory[] = {Knob::Protocol, Knob::SecondShot, Knob::Partials,
                                       Knob::Copies,   Knob::Signals,    Knob::Memory};

/// Returns the transport that `config` sets, or `otherwise` if it sets none.
Transport transportOf(const Configuration &config, Transport otherwise);

/// Verifies the source, then finds its program, or lowers its fusion and adds the resulting program
/// to the source's module. Errors with a source location are added to source.diags, and listed in
/// the Status.
Result<Compiled> compile(Source &source, const CompileOptions &options);

} // namespace braid
