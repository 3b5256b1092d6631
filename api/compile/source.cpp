//===- api/compile/source.cpp - a parsed text -------------------------------------------------===//

#include "api/compile/source.h"

#include "ir/failure.h"
#include "runtime/files.h"

namespace braid {

std::unique_ptr<Source> parseSource(std::string name, std::string text) {
  auto source = std::make_unique<Source>(std::move(name), std::move(text));
  source->module = parse(source->diags);
  return source;
}

Result<std::unique_ptr<Source>> readSource(const std::string &path, const std::string &name) {
  constexpr size_t kMaxBytes = size_t(64) << 20;
  std::string text = BRAID_TRY(readFile(path, kMaxBytes));
  const std::string &known = path == "-" ? "<stdin>" : path;
  return parseSource(name.empty() ? known : name, std::move(text));
}

Status withLocated(const Status &status, const Source &source) {
  if (status.isOk() || !source.diags.hasErrors())
    return status;
  return {status.code(), llvm::StringRef(source.diags.str()).rtrim('\n').str()};
}

} // namespace braid
