//===- tests/support/temporary_folder.h - temporary folders and full disks --------------------===//
#pragma once

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include <sys/resource.h>

namespace braid {

/// A private folder that is removed by the destructor.
class TemporaryFolder {
public:
  TemporaryFolder() {
    path_ = testing::TempDir() + "braid-test-XXXXXX";
    if (!mkdtemp(path_.data()))
      ADD_FAILURE() << "cannot make a folder like " << path_;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder &) = delete;
  const std::string &path() const { return path_; }

private:
  std::string path_;
};

/// Prevents this process from extending files for the lifetime of this object.
class FullDisk {
public:
  FullDisk() {
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit none{0, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &none);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk &) = delete;

private:
  rlimit before_;
  void (*handler_)(int);
};

} // namespace braid
