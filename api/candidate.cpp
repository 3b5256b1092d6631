//===- api/candidate.cpp - one way to run a fusion --------------------------------------------===//

#include "api/candidate.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <fmt/format.h>

namespace braid {
namespace {

Status badPart(llvm::StringRef part) {
  return Status(
      StatusCode::BadInput,
      fmt::format("expected SCHEDULE;protocol=P;chunks=S;streams=K;taper=T;wave=R;transfers=X;"
                  "copies=C;signals=G;issuing=I, got '{}' in it",
                  part.str()));
}

bool setPart(Candidate &candidate, llvm::StringRef key, llvm::StringRef value) {
  int64_t number = 0;
  const bool isNumber = !value.getAsInteger(10, number) && number >= 0;
  if (key == "protocol" && (value == "get" || value == "put"))
    candidate.protocol = value == "get" ? Protocol::Get : Protocol::Put;
  else if (key == "issuing" && (value == "eager" || value == "graph"))
    candidate.issuing = value == "graph" ? Issuing::Graph : Issuing::Eager;
  else if (key == "transfers" && transfersFromName(value))
    candidate.transfers = *transfersFromName(value);
  else if (key == "copies" && copyByFromName(value))
    candidate.means.copies = *copyByFromName(value);
  else if (key == "signals" && signalByFromName(value))
    candidate.means.signals = *signalByFromName(value);
  else if (key == "chunks" && isNumber)
    candidate.chunks = number;
  else if (key == "streams" && isNumber)
    candidate.streams = number;
  else if (key == "taper" && isNumber)
    candidate.taper = number;
  else if (key == "wave" && isNumber)
    candidate.waveRows = number;
  else
    return false;
  return true;
}

} // namespace

CompileOptions Candidate::applyTo(CompileOptions options) const {
  options.schedule = schedule;
  options.protocol = protocol;
  options.streams = streams;
  options.taper = taper;
  options.waveRows = waveRows;
  options.transfers = transfers;
  if (chunks > 0)
    options.chunks = chunks;
  return options;
}

std::array<std::string, 3> Candidate::traits() const {
  return {name(schedule).str() + " " + name(transfers).str(), name(protocol).str(),
          braid::str(means)};
}

std::string Candidate::str() const {
  std::string text = fmt::format("{};protocol={};chunks={};streams={}", name(schedule).str(),
                                 name(protocol).str(), chunks, streams);
  if (taper != 1)
    text += fmt::format(";taper={}", taper);
  if (waveRows != 0)
    text += fmt::format(";wave={}", waveRows);
  if (transfers != Transfers::Each)
    text += ";transfers=" + name(transfers).str();
  if (means.copies != CopyBy::Default)
    text += ";copies=" + name(means.copies).str();
  if (means.signals != SignalBy::Default)
    text += ";signals=" + name(means.signals).str();
  return text + ";issuing=" + name(issuing).str();
}

Result<Candidate> Candidate::fromText(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef, 8> parts;
  text.split(parts, ';');
  std::optional<Schedule> schedule = scheduleFromName(parts.front());
  if (!schedule)
    return badPart(parts.front());
  Candidate candidate;
  candidate.schedule = *schedule;
  for (llvm::StringRef part : llvm::drop_begin(parts)) {
    auto [key, value] = part.split('=');
    if (!setPart(candidate, key, value))
      return badPart(part);
  }
  return candidate;
}

} // namespace braid
