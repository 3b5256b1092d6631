//===- runtime/job/network/secret.h - what the processes of a job know, and nobody else -------===//
#pragma once

#include "api/status.h"

#include <string>

namespace braid {

inline constexpr size_t kLeastSecretBytes = 16, kMostSecretBytes = 4096;

/// Why the file is no secret that this process can read: it has to be a file that others can
/// neither read nor change. Empty: it is one.
std::string whyNotSecret(const std::string &file);
/// What the file holds, but for white space at its end. BadInput if whyNotSecret() says something,
/// or it has not kLeastSecretBytes to kMostSecretBytes.
Result<std::string> readSecretFile(const std::string &file);

/// So many bytes that nobody can guess.
std::string randomBytes(size_t count);
/// HMAC-SHA-256 (RFC 2104), 32 bytes.
std::string authenticationCode(const std::string &secret, const std::string &text);
/// Equal, in a time that does not tell where they differ.
bool areEqualSecrets(const std::string &one, const std::string &other);

} // namespace braid
