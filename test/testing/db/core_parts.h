// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The core of a database in memory, for tests of its parts.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/jobs/db_core.h"
#include "db/options/options_check.h"
#include "db/version/manifest_reader.h"
#include "test/testing/db/test_db_mutex.h"
#include "test/testing/db_helpers.h"

namespace varve::test {

struct CoreParts {
  // The directory is "/db". `env` must outlive this.
  CoreParts(const Options& options, Env* env, DbCore::Calls calls = {})
      : core(Complete(options, env), "/db", /*read_only=*/false, nullptr,
             WithSwitch(std::move(calls))) {
    EXPECT_TRUE(Ok(core.directory.Open(false, true)));
    MutexLock lock(core.mutex());
    ManifestState state;
    core.versions->Initialize(&state, core.directory.directory());
    core.versions->AddFamilyLocked(core.default_family.versions(),
                                   &state.default_family());
    core.default_family.SetOutputContext("/db", "id", NewSessionIdentity());
  }
  ~CoreParts() {
    core.mutex()->Lock();
    if (!core.wals.EmptyLocked()) core.wals.CloseLocked().IgnoreError();
    core.directory.Unlock().IgnoreError();
    const std::vector<std::unique_ptr<ColumnFamily>> others =
        core.families.TakeAllLocked();
    core.mutex()->Unlock();
    for (const auto& other : others) other->Close();
    core.default_family.Close();
    MutexLock lock(core.mutex());
    for (const auto& other : others) {
      core.versions->RemoveFamilyLocked(other->versions());
    }
    core.versions.reset();
  }
  CoreParts(const CoreParts&) = delete;
  CoreParts& operator=(const CoreParts&) = delete;

  // Adds a family. `options` must outlive this.
  ColumnFamily* AddLocked(const std::string& name, Options* options)
      VARVE_REQUIRES(kDbMutex) {
    MakeSharedParts(options);
    auto added = std::make_unique<ColumnFamily>(
        name, options, core.FamilyParts(core.default_family.snapshots()));
    ColumnFamily* const result = added.get();
    result->MakeTables("/db", FileOptions(), core.file_pool.get(), nullptr,
                       core.versions.get());
    FamilyVersions* const created[] = {result->versions()};
    EXPECT_TRUE(Ok(core.versions->CreateFamiliesLocked(created, 1)));
    result->SetOutputContext("/db", "id", NewSessionIdentity());
    core.families.AddLocked(std::move(added));
    return result;
  }

  // Called for the budget of write buffers, on its thread.
  std::function<void(ColumnFamily*)> request_switch = [](ColumnFamily*) {};
  DbCore core;

 private:
  static Options Complete(const Options& given, Env* env) {
    Options options = given;
    options.env = env;
    options.statistics = nullptr;
    MakeSharedParts(&options);
    return options;
  }
  DbCore::Calls WithSwitch(DbCore::Calls calls) {
    if (calls.request_switch == nullptr) {
      calls.request_switch = [this](ColumnFamily* family) {
        request_switch(family);
      };
    }
    return calls;
  }
};

}  // namespace varve::test
