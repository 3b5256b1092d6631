//===- api/simulate/machines.cpp - finds machine models by name or file -----------------------===//

#include "api/simulate/machines.h"

#include "ir/failure.h"
#include "runtime/files.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

namespace braid {

constexpr size_t kMostBytes = 16 << 20;

llvm::ArrayRef<ShippedMachine> shippedMachines() {
  static const ShippedMachine all[] = {
      {"h200-4", kH200x4},      {"h200-2", kH200x2},          {"h100-2", kH100x2},
      {"dgx-h100-8", kDgxH100}, {"gb200-nvl72", kGb200Nvl72}, {"dgx-h100-128x8", kDgxH100x128}};
  return all;
}

Result<CostModel> findMachine(const std::string &nameOrFile) {
  std::vector<std::string> names;
  for (const ShippedMachine &machine : shippedMachines()) {
    if (machine.name == nameOrFile)
      return CostModel::decode(machine.file);
    names.push_back(machine.name);
  }
  const bool isFileName = llvm::StringRef(nameOrFile).find_first_of("./") != llvm::StringRef::npos;
  if (!isFileName && !llvm::sys::fs::exists(nameOrFile))
    return badInput("--machine: expected {} or a cost model file, got '{}'{}",
                    llvm::join(names, ", "), nameOrFile, didYouMean(nameOrFile, names));
  const Result<std::string> text = readFile(nameOrFile, kMostBytes);
  if (!text)
    return text.status().annotated("--machine");
  Result<CostModel> model = CostModel::decode(*text);
  if (!model)
    return badInput("{}: {}", nameOrFile, model.status().message());
  return model;
}

} // namespace braid
