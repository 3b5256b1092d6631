//===- runtime/job/network/secret.cpp ---------------------------------------------------------===//

#include "runtime/job/network/secret.h"

#include "ir/failure.h"
#include "ir/printable.h"
#include "runtime/job/bootstrap/socket.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Errno.h"

#include <sodium.h>

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace braid {
namespace {

constexpr size_t kShownOfPath = 200;

/// The library draws and computes nothing before.
void initialize() {
  [[maybe_unused]] static const int isThere = sodium_init();
  assert(isThere >= 0 && "libsodium cannot be used");
}

std::string whyNotSecret(const struct stat &about) {
  if (!S_ISREG(about.st_mode))
    return "it is no file";
  if (about.st_size == 0)
    return "it is empty";
  return (about.st_mode & 077) == 0
             ? ""
             : fmt::format("others may read or change it (mode {:o})", about.st_mode & 0777);
}

} // namespace

std::string whyNotSecret(const std::string &file) {
  struct stat about = {};
  if (stat(file.c_str(), &about) != 0 || access(file.c_str(), R_OK) != 0)
    return llvm::sys::StrError(errno);
  return whyNotSecret(about);
}

Result<std::string> readSecretFile(const std::string &file) {
  auto refuse = [&file](const std::string &why) {
    return badInput("expected BRAID_SECRET_FILE to be a file with the job's secret, got '{}': {}",
                    printable(file, kShownOfPath), why);
  };
  const FileDescriptor opened(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about = {};
  if (!opened.isValid() || fstat(opened.get(), &about) != 0)
    return refuse(llvm::sys::StrError(errno));
  if (const std::string why = whyNotSecret(about); !why.empty())
    return refuse(why);
  char bytes[kMostSecretBytes + 1];
  const ssize_t count = read(opened.get(), bytes, sizeof bytes);
  if (count < 0)
    return refuse(llvm::sys::StrError(errno));
  const llvm::StringRef whole(bytes, static_cast<size_t>(count)), trimmed = whole.rtrim();
  // Of random bytes, the last may be white space as well as any other.
  const llvm::StringRef secret =
      trimmed.empty() ? trimmed : whole.take_front(std::max(trimmed.size(), kLeastSecretBytes));
  // What begins with much white space may go on after it.
  const bool isTooLong = secret.size() > kMostSecretBytes || about.st_size > ssize_t(sizeof bytes);
  if (secret.size() < kLeastSecretBytes || isTooLong)
    return refuse(fmt::format(
        "expected {} to {} bytes, got {}", kLeastSecretBytes, kMostSecretBytes,
        isTooLong ? fmt::format("more than {}", kMostSecretBytes) : fmt::to_string(secret.size())));
  return secret.str();
}

std::string randomBytes(size_t count) {
  initialize();
  std::string bytes(count, '\0');
  randombytes_buf(bytes.data(), bytes.size());
  return bytes;
}

std::string authenticationCode(const std::string &secret, const std::string &text) {
  initialize();
  std::string code(crypto_auth_hmacsha256_BYTES, '\0');
  auto bytesOf = [](const std::string &from) {
    return reinterpret_cast<const unsigned char *>(from.data());
  };
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, bytesOf(secret), secret.size());
  crypto_auth_hmacsha256_update(&state, bytesOf(text), text.size());
  crypto_auth_hmacsha256_final(&state, reinterpret_cast<unsigned char *>(code.data()));
  return code;
}

bool areEqualSecrets(const std::string &one, const std::string &other) {
  return one.size() == other.size() && sodium_memcmp(one.data(), other.data(), one.size()) == 0;
}

} // namespace braid
