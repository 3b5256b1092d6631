//===- runtime/job/network/launcher_store.cpp -------------------------------------------------===//

#include "runtime/job/network/launcher_store.h"

#include "ir/failure.h"
#include "ir/printable.h"
#include "runtime/job/network/pmi_store.h"
#include "runtime/job/network/pmix_store.h"
#include "runtime/job/network/tcp.h"
#include "runtime/job/network/torch_store.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA1.h"

namespace braid {
namespace {

using Opened = Result<std::unique_ptr<LauncherStore>>;

Status noStore(const std::string &why) {
  return unsupported("{}; or set BRAID_RENDEZVOUS=tcp://host:port and BRAID_SECRET_FILE on all "
                     "ranks",
                     why);
}

template <class Store> Opened opened(Result<std::unique_ptr<Store>> store) {
  if (store)
    return std::unique_ptr<LauncherStore>(std::move(*store));
  return store.status().code() == StatusCode::Unsupported ? noStore(store.status().message())
                                                          : store.status();
}

Opened openTorch(const Place &place, const Environment &environment, Deadline deadline) {
  return opened(TorchStore::open(place, environment, deadline));
}

Opened openPmix(const Place &place, const Environment &environment, Deadline deadline) {
  return opened(PmixStore::open(place, environment, deadline));
}

Opened openPmi(const Place &place, const Environment &environment, Deadline deadline) {
  return opened(PmiStore::open(place, environment, deadline));
}

/// srun has the store of the plug-in that --mpi names, if any.
Opened openSrun(const Place &place, const Environment &environment, Deadline deadline) {
  if (environment("PMIX_NAMESPACE"))
    return openPmix(place, environment, deadline);
  if (environment("PMI_FD"))
    return openPmi(place, environment, deadline);
  return noStore("srun gives its ranks no store through which hosts find each other: use srun "
                 "--mpi=pmix or --mpi=pmi2");
}

struct Row {
  const char *source; ///< of the place
  Opened (*open)(const Place &, const Environment &, Deadline);
};
constexpr Row kRows[] = {
    {"torchrun", openTorch},
    {"Open MPI", openPmix},
    {"PMI", openPmi},
    {"SLURM", openSrun},
};

bool isOfName(char c) { return llvm::isAlnum(c) || c == '-' || c == '_' || c == '.'; }
bool isPlain(char c) { return isOfName(c) || c == ':' || c == '/'; }

} // namespace

Opened openLauncherStore(const Place &place, const Environment &environment, Deadline deadline) {
  for (const Row &row : kRows)
    if (place.source == row.source)
      return row.open(place, environment, deadline);
  return noStore(fmt::format("{} has no store through which hosts find each other: use torchrun, "
                             "mpirun or srun",
                             place.source));
}

Result<std::string> LauncherStore::addressOfThisHost(Deadline) {
  return braid::addressOfThisHost();
}

std::string storeKey(const std::string &job, const std::string &name) {
  llvm::SHA1 hash;
  hash.update(job);
  const auto digest = hash.final();
  const std::string hex =
      llvm::toHex(llvm::StringRef(std::string(digest.begin(), digest.end())), true);
  return "braid/" + hex.substr(0, 32) + "/" + name;
}

Status checkStoreEntry(const std::string &name, const std::string &value) {
  if (name.empty() || name.size() > kMaxStoreName || !llvm::all_of(name, isOfName))
    return badInput("expected a name of at most {} letters, digits, '-', '_' and '.', got '{}'",
                    kMaxStoreName, printable(name, kMaxStoreName));
  if (value.size() > kMaxStoreValue)
    return badInput("expected at most {} bytes for a launcher's store, got {}", kMaxStoreValue,
                    value.size());
  return Status::ok();
}

std::string escapeStoreValue(const std::string &value) {
  std::string text;
  for (char c : value)
    text += isPlain(c) ? std::string(1, c) : fmt::format("%{:02x}", static_cast<unsigned char>(c));
  return text;
}

std::optional<std::string> unescapeStoreValue(llvm::StringRef text) {
  std::string value;
  while (!text.empty()) {
    uint8_t byte = static_cast<uint8_t>(text[0]);
    if (text.consume_front("%")) {
      const llvm::StringRef digits = text.take_front(2);
      if (digits.size() != 2 || !llvm::all_of(digits, llvm::isHexDigit))
        return std::nullopt;
      byte = static_cast<uint8_t>(llvm::hexFromNibbles(digits[0], digits[1]));
      text = text.drop_front(2);
    } else {
      if (!isPlain(text[0]))
        return std::nullopt;
      text = text.drop_front();
    }
    value += static_cast<char>(byte);
  }
  return value;
}

} // namespace braid
