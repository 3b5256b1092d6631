//===- ir/module.h - parses, prints and verifies the contents of a file -----------------------===//
#pragma once

#include "ir/fusion.h"
#include "ir/program.h"

#include <memory>

namespace braid {

/// The fusions and programs in a file, in source order.
struct Module {
  std::vector<std::unique_ptr<Fusion>> fusions;
  std::vector<std::unique_ptr<Program>> programs;

  Fusion *findFusion(llvm::StringRef name) const;
  Program *findProgram(llvm::StringRef name) const;
};

/// Parses the text in `diags` and reports every error. The returned module contains everything that
/// could be parsed, but has not been verified; call verify() next. Accepts arbitrary bytes.
Module parse(Diagnostics &diags);

/// Print the text form. The output is deterministic; parsing and printing it again reproduces it.
void print(const Fusion &fusion, llvm::raw_ostream &os);
void print(const Program &program, llvm::raw_ostream &os);
void print(const Module &module, llvm::raw_ostream &os);
std::string str(const Fusion &fusion);
std::string str(const Program &program);
/// Returns `mesh [0 .. 16) of 8`, omitting `of 8` if all ranks are on one host.
std::string meshText(const Fusion &fusion);
std::string meshText(const Program &program);
/// Returns `op` as one line, without its blocks:
/// `%r = p2p recv %block from (rank + 1) mod 4 via %h`.
std::string str(const Op &op);

/// Check the rules listed in ir/README.md. Report all violations, and return true if there are
/// none. A program that implements a fusion in `module` is also checked against the fusion.
bool verify(const Fusion &fusion, Diagnostics &diags);
bool verify(const Program &program, const Module &module, Diagnostics &diags);
bool verify(const Module &module, Diagnostics &diags);

/// Write `module` as a Graphviz graph, or as JSON with one object per node. JSON fields are named
/// after the C++ members, and scalars are written as text.
void emitDot(const Module &module, llvm::raw_ostream &os);
std::string dotText(llvm::StringRef text); ///< quotes `text` for Graphviz
void emitJson(const Module &module, llvm::raw_ostream &os);

} // namespace braid
