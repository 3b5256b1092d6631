//===- ir/module.h - what one file holds, and text in both directions -------------------------===//
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

/// Reads the text that `diags` holds. Every error found is reported; the module holds what could be
/// read. It is not verified: verify() is the next step. Total: any bytes are accepted or reported.
Module parse(Diagnostics &diags);

/// Deterministic; parsing what was printed gives an equal program, and prints the same.
void print(const Fusion &fusion, llvm::raw_ostream &os);
void print(const Program &program, llvm::raw_ostream &os);
void print(const Module &module, llvm::raw_ostream &os);
std::string str(const Fusion &fusion);
std::string str(const Program &program);
/// `mesh [0 .. 16) of 8`; without `of` where all ranks are on one host.
std::string meshText(const Fusion &fusion);
std::string meshText(const Program &program);
/// One node on one line, without its blocks: `%r = p2p recv %block from (rank + 1) mod 4 via %h`.
std::string str(const Op &op);

/// The rules of every node (ir/README.md lists them). Reports all violations; true if there are
/// none. A program is checked against the fusion it says it implements, looked up in `module`.
bool verify(const Fusion &fusion, Diagnostics &diags);
bool verify(const Program &program, const Module &module, Diagnostics &diags);
bool verify(const Module &module, Diagnostics &diags);

/// The same module as a Graphviz graph, or as JSON (one object per node, the field names of the C++
/// classes, scalars as text).
void emitDot(const Module &module, llvm::raw_ostream &os);
std::string dotText(llvm::StringRef text); ///< in quotes, as Graphviz reads it
void emitJson(const Module &module, llvm::raw_ostream &os);

} // namespace braid
