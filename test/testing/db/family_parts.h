// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Column families and what they need, for tests that build a database from its
// parts.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/family/column_family.h"
#include "db/family/family_set.h"
#include "db/options/options_check.h"
#include "db/version/manifest_reader.h"
#include "test/testing/db/test_db_mutex.h"
#include "test/testing/db_helpers.h"

namespace varve::test {

struct FamilyParts {
  // The directory is "/db".
  FamilyParts(
      Options* its_options, Env* its_env,
      std::function<void()> its_free_later = [] {})
      : options(its_options),
        env(its_env),
        free_later(std::move(its_free_later)),
        file_pool(env, FileOptions(), 10, nullptr),
        versions("/db", env, mutex.lockable()),
        family("default", WithCache(options), Shared(nullptr)),
        families(&family) {
    family.MakeTables("/db", FileOptions(), &file_pool, nullptr, &versions);
  }

  // The versions go before the family, which owns its part of them.
  ~FamilyParts() {
    MutexLock lock(mutex.lockable());
    while (!versions.families().empty()) {
      versions.RemoveFamilyLocked(versions.families().back());
    }
  }
  FamilyParts(const FamilyParts&) = delete;
  FamilyParts& operator=(const FamilyParts&) = delete;

  // Takes over an empty database.
  void Begin(Directory* directory) {
    MutexLock lock(mutex.lockable());
    ManifestState state;
    versions.Initialize(&state, directory);
    versions.AddFamilyLocked(family.versions(), &state.default_family());
    family.SetOutputContext("/db", "id", NewSessionIdentity());
  }

  // Adds a family. `its_options` must outlive this.
  ColumnFamily* AddLocked(const std::string& name, Options* its_options)
      VARVE_REQUIRES(kDbMutex) {
    auto added = std::make_unique<ColumnFamily>(name, WithCache(its_options),
                                                Shared(family.snapshots()));
    ColumnFamily* const result = added.get();
    result->MakeTables("/db", FileOptions(), &file_pool, nullptr, &versions);
    FamilyVersions* const created[] = {result->versions()};
    EXPECT_TRUE(Ok(versions.CreateFamiliesLocked(created, 1)));
    result->SetOutputContext("/db", "id", NewSessionIdentity());
    families.AddLocked(std::move(added));
    return result;
  }
  // Closes all families.
  void Close() {
    mutex.lockable()->Lock();
    const std::vector<std::unique_ptr<ColumnFamily>> others =
        families.TakeAllLocked();
    mutex.lockable()->Unlock();
    for (const auto& other : others) other->Close();
    family.Close();
    MutexLock lock(mutex.lockable());
    for (const auto& other : others) {
      versions.RemoveFamilyLocked(other->versions());
    }
  }

  ColumnFamily::Shared Shared(SnapshotRegistry* snapshots) {
    return {env,
            nullptr,
            mutex.lockable(),
            &queue,
            free_later,
            [this] { return versions.LastSequence(); },
            [] {},
            [this](ColumnFamily* asked) { request_switch(asked); },
            snapshots};
  }
  static Options* WithCache(Options* options) {
    MakeSharedParts(options);
    return options;
  }

  Options* const options;
  Env* const env;
  const std::function<void()> free_later;
  // Called for the budget of write buffers, on its thread.
  std::function<void(ColumnFamily*)> request_switch = [](ColumnFamily*) {};
  LoneDbMutex mutex;
  WriteQueue queue;
  FilePool file_pool;
  VersionSet versions;
  ColumnFamily family;
  FamilySet families;
};

}  // namespace varve::test
