//===- ir/module.h - the contents of a file, and its text -------------------------------------===//
#pragma once

#include "ir/fusion.h"
#include "ir/program.h"

#include <memory>

namespace braid {

/// The fusions and programs of a file, in text order.
struct Module {
  std::vector<std::unique_ptr<Fusion>> fusions;
  std::vector<std::unique_ptr<Program>> programs;

  Fusion *findFusion(llvm::StringRef name) const;
  Program *findProgram(llvm::StringRef name) const;
};

/// Parses the text that `diags` holds and reports every error. The module contains what could be
/// read, and is not verified: call verify() next. Total: any bytes are accepted or reported.
Module parse(Diagnostics &diags);

/// Deterministic. Parsing the printed text yields an equal program, which prints the same.
void print(const Fusion &fusion, llvm::raw_ostream &os);
void print(const Program &program, llvm::raw_ostream &os);
void print(const Module &module, llvm::raw_ostream &os);
std::string str(const Fusion &fusion);
std::string str(const Program &program);
/// Returns `mesh [0 .. 16) of 8`, without `of` if all ranks are on one host.
std::string meshText(const Fusion &fusion);
std::string meshText(const Program &program);
/// Returns one node on one line, without its blocks: `%r = p2p recv %block from (rank + 1) mod 4
/// via %h`.
std::string str(const Op &op);

/// Checks the rules of every node (ir/README.md lists them). Reports all violations, and returns
/// true if there are none. Compares a program with the fusion in `module` that it implements.
bool verify(const Fusion &fusion, Diagnostics &diags);
bool verify(const Program &program, const Module &module, Diagnostics &diags);
bool verify(const Module &module, Diagnostics &diags);

/// Write the module as a Graphviz graph, or as JSON (one object per node, the field names of the
/// C++ classes, scalars as text).
void emitDot(const Module &module, llvm::raw_ostream &os);
std::string dotText(llvm::StringRef text); ///< quoted for Graphviz
void emitJson(const Module &module, llvm::raw_ostream &os);

} // namespace braid
