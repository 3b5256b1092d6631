//===- runtime/job/network/meet_hosts.cpp -----------------------------------------------------===//

#include "runtime/job/network/meet_hosts.h"

#include "ir/failure.h"
#include "runtime/job/network/secret.h"

namespace braid {
namespace {

constexpr const char *kEntry = "hosts";
constexpr size_t kDrawnSecretBytes = 32;

/// The port in 2 bytes, the secret, the address.
std::string encodeEntry(const TcpAddress &at, const std::string &secret) {
  std::string entry;
  append(entry, at.port);
  return entry + secret + at.host;
}

Status decodeEntry(llvm::StringRef entry, TcpAddress &at, std::string &secret) {
  if (entry.size() <= 2 + kDrawnSecretBytes)
    return badInput("expected the launcher's store to say where host 0 is, got {} bytes",
                    entry.size());
  at.port = llvm::support::endian::read16le(entry.data());
  secret = entry.substr(2, kDrawnSecretBytes).str();
  at.host = entry.drop_front(2 + kDrawnSecretBytes).str();
  return Status::ok();
}

bool isEveryAddress(const std::string &host) { return host == "0.0.0.0" || host == "::"; }

} // namespace

Result<MeetingOfHosts> MeetingOfHosts::open(const Place &place, const Environment &environment,
                                            Options options, Deadline deadline) {
  MeetingOfHosts meeting(place, std::move(options));
  const std::optional<TcpAddress> address = BRAID_TRY(rendezvousAddress(environment));
  const std::optional<std::string> file = environment("BRAID_SECRET_FILE");
  if (address.has_value() != file.has_value())
    return badInput("{} is set, and {} is not: expected both on all hosts, or neither where the "
                    "launcher has a store",
                    file ? "BRAID_SECRET_FILE" : "BRAID_RENDEZVOUS",
                    file ? "BRAID_RENDEZVOUS" : "BRAID_SECRET_FILE");
  if (address) {
    meeting.at_ = *address;
    meeting.secret_ = BRAID_TRY(readSecretFile(*file));
  } else {
    meeting.store_ = BRAID_TRY(openLauncherStore(place, environment, deadline));
  }
  return meeting;
}

/// Ranks that were started by hand may be of several jobs with one secret.
std::string MeetingOfHosts::context() const {
  return "hosts of a job" + (store_ ? std::string() : " " + place_.job);
}

Result<HostPlace> MeetingOfHosts::begin(Deadline deadline) {
  return place_.host == 0 ? listen(deadline) : connect(deadline);
}

Result<HostPlace> MeetingOfHosts::listen(Deadline deadline) {
  if (store_) {
    at_ = {BRAID_TRY(store_->addressOfThisHost(deadline)), 0};
    secret_ = randomBytes(kDrawnSecretBytes);
  }
  TcpListener listener = BRAID_TRY(listenAt(at_, deadline));
  if (store_)
    BRAID_TRY(store_->put(kEntry, encodeEntry(listener.address, secret_), deadline));
  HostPlace place{0, place_.hosts, listener.address.host};
  if (isEveryAddress(place.address))
    place.address = BRAID_TRY(braid::addressOfThisHost());
  begun_ = std::move(listener);
  return place;
}

OtherHostOptions MeetingOfHosts::optionsOfOther() const {
  return {.host = place_.host,
          .hosts = place_.hosts,
          .ranks = place_.ranks,
          .secret = secret_,
          .context = context(),
          .silence = options_.timeout};
}

Result<HostPlace> MeetingOfHosts::connect(Deadline deadline) {
  if (store_) {
    const std::string entry = BRAID_TRY(store_->get(kEntry, deadline));
    BRAID_TRY(decodeEntry(entry, at_, secret_));
  }
  JoinedHost joined = BRAID_TRY(joinHostZero(at_, optionsOfOther(), deadline));
  begun_ = std::move(joined.link);
  return HostPlace{place_.host, place_.hosts, std::move(joined.address)};
}

std::unique_ptr<OtherHosts> MeetingOfHosts::join(JobMemory &memory) {
  if (auto *listener = std::get_if<TcpListener>(&begun_))
    return std::make_unique<HostZero>(std::move(*listener), memory,
                                      HostOptions{.secret = secret_,
                                                  .context = context(),
                                                  .joinTimeout = options_.timeout,
                                                  .silence = options_.timeout,
                                                  .say = options_.say});
  return std::make_unique<OtherHost>(std::move(std::get<HostLink>(begun_)), memory,
                                     optionsOfOther());
}

} // namespace braid
