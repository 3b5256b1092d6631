//===- api/source.cpp - a text, read and understood -------------------------------------------===//

#include "api/source.h"

#include "llvm/Support/MemoryBuffer.h"

#include <fmt/format.h>

namespace braid {

std::unique_ptr<Source> parseSource(std::string name, std::string text) {
  auto source = std::make_unique<Source>(std::move(name), std::move(text));
  source->module = parse(source->diags);
  return source;
}

Result<std::unique_ptr<Source>> readSource(const std::string &path, const std::string &name) {
  constexpr size_t kMaxBytes = size_t(64) << 20;
  auto buffer = llvm::MemoryBuffer::getFileOrSTDIN(path);
  if (!buffer)
    return Status(StatusCode::BadInput,
                  fmt::format("cannot read '{}': {}", path, buffer.getError().message()));
  if ((*buffer)->getBufferSize() > kMaxBytes)
    return Status(StatusCode::BadInput, fmt::format("'{}' has {} bytes, expected at most {}", path,
                                                    (*buffer)->getBufferSize(), kMaxBytes));
  const std::string &known = path == "-" ? "<stdin>" : path;
  return parseSource(name.empty() ? known : name, (*buffer)->getBuffer().str());
}

} // namespace braid
