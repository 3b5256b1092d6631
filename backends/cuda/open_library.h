//===- backends/cuda/open_library.h - libraries that are opened when they are needed ----------===//
#pragma once

#include "api/status.h"

#include <dlfcn.h>
#include <string>

namespace braid {

/// The places of a library.
struct LibraryPlaces {
  const char *title;    ///< its name in messages
  const char *variable; ///< environment variable that may name the file
  const char *name;     ///< for the loader
  const char *folder;   ///< below a folder of Python packages
};

/// A library that stays loaded until the process ends.
struct OpenLibrary {
  void *handle = nullptr; ///< dlopen's
  std::string name;       ///< as it was opened
};

/// Opens the file that the variable names. Without it: the library that the process has already,
/// for two in one process would not know each other; or else the one that the loader finds by
/// `name`, or that is in `folder` below one of the folders that BRAID_SITE_PACKAGES lists.
/// Unsupported, in one line, if there is none, or it cannot be loaded.
Result<OpenLibrary> openLibrary(const LibraryPlaces &places);
/// The same from this file.
Result<OpenLibrary> openLibrary(const LibraryPlaces &places, const std::string &file);

/// Finds functions of a library by name.
class EntryPoints {
public:
  explicit EntryPoints(void *library) : library_(library) {}

  /// Null: the library has no such function.
  template <class Function> void find(const char *symbol, Function &function) {
    function = reinterpret_cast<Function>(dlsym(library_, symbol));
    if (!function && !missing_)
      missing_ = symbol;
  }
  /// The first function that was not found, or null.
  const char *missing() const { return missing_; }

private:
  void *const library_;
  const char *missing_ = nullptr;
};

/// Sets `variable` to `off`, so that `user` starts without NVLink multicast. Unsupported if the
/// user has asked for it.
Status keepMulticastOff(const char *user, const char *variable, const char *off, bool isAskedFor);

} // namespace braid
