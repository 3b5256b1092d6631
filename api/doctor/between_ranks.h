//===- api/doctor/between_ranks.h - what ranks tell each other, as text -----------------------===//
#pragma once

#include "api/doctor/check.h"

#include <nlohmann/json_fwd.hpp>

namespace braid::doctor {

/// A finding as in the report's JSON.
nlohmann::ordered_json jsonOf(const Finding &finding);

std::string encodeFindings(const std::vector<Finding> &findings);
/// BadInput for what encodeFindings() does not make. Ranks of a finding are not read.
Result<std::vector<Finding>> decodeFindings(llvm::StringRef text);

} // namespace braid::doctor
