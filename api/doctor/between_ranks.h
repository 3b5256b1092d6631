//===- api/doctor/between_ranks.h - what ranks and other processes tell, as text --------------===//
#pragma once

#include "api/doctor/check.h"

#include <nlohmann/json_fwd.hpp>

namespace braid::doctor {

/// A finding as in the report's JSON.
nlohmann::ordered_json jsonOf(const Finding &finding);

std::string encodeFindings(const std::vector<Finding> &findings);
/// BadInput for what encodeFindings() does not make. Ranks of a finding are not read.
Result<std::vector<Finding>> decodeFindings(llvm::StringRef text);

std::string encodeBackendFacts(const BackendFacts &facts);
/// BadInput for what encodeBackendFacts() does not make.
Result<BackendFacts> decodeBackendFacts(llvm::StringRef text);

} // namespace braid::doctor
