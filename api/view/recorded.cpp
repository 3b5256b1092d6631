//===- api/view/recorded.cpp - pages that show the flight records of a failed job -------------===//

#include "api/view/pages.h"

#include "llvm/ADT/STLExtras.h"

namespace braid::view {

Page recordedPage(const std::vector<std::string> &records) {
  Page page;
  page.title = "a failed job";
  page.isFailure = true;
  page.subtitle = records.front();
  page.timings.push_back({.name = "recorded"});
  page.text = records;
  const auto cause = llvm::find_if(
      records, [](const std::string &line) { return line.starts_with("first cause: "); });
  if (cause == records.end())
    return page;
  page.findings.push_back("F" + cause->substr(1));
  if (const auto text = std::next(cause); text != records.end() && text->starts_with("  "))
    page.findings.back() += ":" + text->substr(1);
  return page;
}

} // namespace braid::view
