// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: a program in RocksDB's style does the same on Varve by the header
// varve/rocksdb.h: backups. Compiled twice.
//
// Usage: keeper DIRECTORY

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#ifdef VARVE_MOVED
#include "varve/rocksdb.h"
#else
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/utilities/backup_engine.h>
#endif

namespace {

void Require(const rocksdb::Status& status) {
  if (status.ok()) return;
  std::printf("%s\n", status.ToString().c_str());
  std::exit(1);
}

void ShowAll(const char* what, rocksdb::DB* db) {
  std::printf("%s:", what);
  const std::unique_ptr<rocksdb::Iterator> it(
      db->NewIterator(rocksdb::ReadOptions()));
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    std::printf(" %s=%s", it->key().ToString().c_str(),
                it->value().ToString().c_str());
  }
  std::printf("\n");
  Require(it->status());
}

void ShowAll(const char* what, const std::string& path, rocksdb::Env* env) {
  rocksdb::Options options;
  options.env = env;
  rocksdb::DB* db = nullptr;
  Require(rocksdb::DB::OpenForReadOnly(options, path, &db));
  ShowAll(what, db);
  delete db;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string directory = argv[1];
  const std::string restored = directory + ".restored";
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::DB* opened = nullptr;
  Require(rocksdb::DB::Open(options, directory + ".db", &opened));
  const std::unique_ptr<rocksdb::DB> db(opened);

  rocksdb::BackupEngineOptions engine_options(directory + ".backups");
  engine_options.max_background_operations = 2;
  rocksdb::BackupEngine* created = nullptr;
  Require(rocksdb::BackupEngine::Open(rocksdb::Env::Default(), engine_options,
                                      &created));
  const std::unique_ptr<rocksdb::BackupEngine> engine(created);
  for (const char* const key : {"a", "b", "c"}) {
    Require(db->Put(rocksdb::WriteOptions(), key, "1"));
    Require(engine->CreateNewBackupWithMetadata(db.get(), key, *key == 'b'));
  }
  rocksdb::BackupID id = 0;
  rocksdb::CreateBackupOptions create;
  create.flush_before_backup = true;
  Require(engine->CreateNewBackup(create, db.get(), &id));
  std::printf("newest: %u\n", id);
  Require(engine->DeleteBackup(1));
  Require(engine->PurgeOldBackups(2));

  std::vector<rocksdb::BackupInfo> infos;
  engine->GetBackupInfo(&infos, true);
  for (const rocksdb::BackupInfo& info : infos) {
    std::printf("backup %u: %s\n", info.backup_id, info.app_metadata.c_str());
    Require(engine->VerifyBackup(info.backup_id, true));
    ShowAll("in place", info.name_for_open, info.env_for_open.get());
  }
  rocksdb::BackupEngineReadOnly* reader = nullptr;
  Require(rocksdb::BackupEngineReadOnly::Open(
      engine_options, rocksdb::Env::Default(), &reader));
  Require(reader->RestoreDBFromLatestBackup(restored, restored));
  ShowAll("latest", restored, rocksdb::Env::Default());
  Require(reader->RestoreDBFromBackup(3, restored, restored));
  ShowAll("backup 3", restored, rocksdb::Env::Default());
  std::printf(
      "missing: %d\n",
      static_cast<int>(
          reader->RestoreDBFromBackup(1, restored, restored).IsNotFound()));
  std::vector<rocksdb::BackupID> corrupt;
  reader->GetCorruptedBackups(&corrupt);
  std::printf("corrupt: %zu\n", corrupt.size());
  delete reader;
  engine->StopBackup();
  std::printf(
      "stopped: %d\n",
      static_cast<int>(engine->CreateNewBackup(db.get()).IsIncomplete()));
  Require(engine->GarbageCollect());
  return 0;
}
