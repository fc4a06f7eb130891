// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A column family and what it needs, for tests that build a database from its
// parts.

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "db/options/options_check.h"
#include "db/parts/column_family.h"
#include "db/parts/family_set.h"
#include "db/version/manifest_reader.h"
#include "test/testing/db_helpers.h"

namespace varve::test {

struct FamilyParts {
  // The directory is "/db".
  FamilyParts(
      Options* its_options, Env* its_env,
      std::function<void()> free_later = [] {})
      : options(its_options),
        env(its_env),
        file_pool(env, FileOptions(), 10, nullptr),
        versions("/db", env, &mutex),
        family("default", WithCache(options),
               ColumnFamily::Shared{env, nullptr, &mutex, &queue,
                                    std::move(free_later),
                                    [this] { return versions.LastSequence(); },
                                    [] {}, [](ColumnFamily*) {}}),
        families(&family) {
    family.MakeTables("/db", FileOptions(), &file_pool, nullptr, &versions);
  }

  // The versions go before the family, which owns its part of them.
  ~FamilyParts() {
    while (!versions.families().empty()) {
      versions.RemoveFamilyLocked(versions.families().back());
    }
  }
  FamilyParts(const FamilyParts&) = delete;
  FamilyParts& operator=(const FamilyParts&) = delete;

  // Takes over an empty database.
  void Begin(Directory* directory) VARVE_NO_THREAD_SAFETY_ANALYSIS {
    MutexLock lock(&mutex);
    ManifestState state;
    versions.Initialize(&state, directory);
    versions.AddFamilyLocked(family.versions(), &state.default_family());
    family.SetOutputContext("/db", "id", NewSessionIdentity());
  }

  static Options* WithCache(Options* options) {
    MakeSharedParts(options);
    return options;
  }

  Options* const options;
  Env* const env;
  Mutex mutex;
  WriteQueue queue;
  FilePool file_pool;
  VersionSet versions;
  ColumnFamily family;
  FamilySet families;
};

}  // namespace varve::test
